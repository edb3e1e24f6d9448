// SPDX-License-Identifier: Apache-2.0

package downloads

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestDays counts over a year by day, version and tool, restarts included; expired tags go.
func TestDays(t *testing.T) {
	for name, deletes := range map[string]bool{"deletes": true, "keeps": false} {
		t.Run(name, func(t *testing.T) {
			inner := ocitest.Handler(t, ocitest.Quirks{})
			synctest.Test(t, func(t *testing.T) {
				refuse := &ocitest.Fault{
					Base: ocitest.Direct{Handler: inner}, Times: -1, Do: ocitest.Status(http.StatusMethodNotAllowed, -1),
					Match: func(r *http.Request) bool { return !deletes && r.Method == http.MethodDelete },
				}
				old := newTestCounts(t, refuse)
				stop := runCounts(t, old)
				count := func(version, agent string, n int) {
					for range n {
						old.Add(Counted{Kind: "module", Address: "net/vpc/aws", Version: version, Tool: Tool(agent)})
					}
				}
				count("1.0.0", "curl/8", 100)
				time.Sleep(200 * day)
				count("1.0.0", "HashiCorp Terraform/1.9.8 (+https://www.terraform.io)", 5)
				time.Sleep(195 * day)
				count("1.0.0", "OpenTofu/1.10.0 (+https://www.opentofu.org)", 2)
				count("1.1.0", "okara/1.0.0 (OpenTofu)", 1)
				time.Sleep(3 * day)
				count("1.1.0", "OpenTofu/1.10.0", 4)
				check := func(when string, c *Counter, total int64) {
					t.Helper()
					synctest.Wait()
					got := c.Of("module", "net/vpc/aws")
					want := Stats{Last: time.Now().UTC().Truncate(day), Month: 7, Total: total}
					want.Days[Days-1], want.Days[Days-4] = 4, 3
					got.Versions, got.Tools = slices.Clone(got.Versions), slices.Clone(got.Tools)
					versions := []Part{{"1.1.0", 5, 5}, {"1.0.0", 2, total - 5}}
					if diff := cmp.Diff(got.Versions, versions); diff != "" {
						t.Errorf("%s, versions (-got +want)\n%s", when, diff)
					}
					if i := slices.IndexFunc(got.Tools, func(p Part) bool { return p.Name == ToolOpenTofu }); i != 0 || got.Tools[0] != (Part{ToolOpenTofu, 6, 6}) {
						t.Errorf("%s, tools: %v", when, got.Tools)
					}
					got.Versions, got.Tools = nil, nil
					must.Match(t, when, got, want)
					if c.Month("module", "net/vpc/aws") != 7 || c.Total("module", "net/vpc/aws") != total || c.Total("module", "net/none/aws") != 0 {
						t.Errorf("%s: %d in a month", when, c.Month("module", "net/vpc/aws"))
					}
				}
				check("in the process", old, 112)
				time.Sleep(countEvery)
				stop()

				second := newTestCounts(t, refuse)
				stop = runCounts(t, second)
				check("after a restart", second, 112)
				stop()

				time.Sleep(3 * day)
				third := newTestCounts(t, refuse)
				stop = runCounts(t, third)
				synctest.Wait()
				must.Equal(t, "after 401 days", third.Total("module", "net/vpc/aws"), 12)
				stop()
				list := must.Get(third.repo.Snapshot(context.WithoutCancel(t.Context())))(t)
				n := 0
				for _, tag := range list.Tags {
					if strings.HasPrefix(tag, "count-") {
						n++
					}
				}
				if want := map[bool]int{true: 3, false: 4}[deletes]; n != want {
					t.Errorf("%d tags are left, want %d: %v", n, want, list.Tags)
				}
				if !deletes && refuse.Seen() != 1 {
					t.Errorf("asked %d times to delete", refuse.Seen())
				}
			})
		})
	}
}

func TestTool(t *testing.T) {
	for agent, want := range map[string]string{
		"OpenTofu/1.10.0 (+https://www.opentofu.org)": ToolOpenTofu, "HashiCorp Terraform/1.9.8 (+https://www.terraform.io)": ToolTerraform,
		"okara/1.2.3": ToolOkara, "": ToolOther, "Go-http-client/1.1": ToolOther, strings.Repeat("x", 10_000): ToolOther,
	} {
		if got := Tool(agent); got != want {
			t.Errorf("%.40s: %s, want %s", agent, got, want)
		}
	}
}
