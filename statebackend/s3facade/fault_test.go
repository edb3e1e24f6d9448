// SPDX-License-Identifier: Apache-2.0

package s3facade_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

// bubble is a run of a tool without a network, so that waits take no time in a synctest
// bubble.
type bubble struct {
	facade *s3facade.Facade
	key    string
}

func newBubble(t *testing.T, transport http.RoundTripper) *bubble {
	t.Helper()
	const repo = "registry.test/infra/state"
	b := &bubble{key: "/okara/" + repo + "/state"}
	b.facade = s3facade.New(s3facade.Options{
		AccessKey: accessKey, Repositories: []string{repo}, TempDir: t.TempDir(), LockNote: func() string { return "" }, MaxState: 1 << 20,
		Failed: func(error) {},
		Open: func(_ context.Context, p s3facade.Ref) (*statebackend.Store, error) {
			r, err := oci.OpenRepo(p.Repository, oci.Options{Transport: transport, PlainHTTP: true})
			if err != nil {
				return nil, err
			}
			return statebackend.New(r, statebackend.Options{}), nil
		},
	})
	return b
}

// ask sends a request once: under the wrapper the tools repeat none, since okara does.
func (b *bubble) ask(method, object, body string) (status int, answer string) {
	req := httptest.NewRequest(method, b.key+object, strings.NewReader(body))
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+accessKey+"/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0")
	if object != "" && method == http.MethodPut {
		req.Header.Set("If-None-Match", "*")
	}
	w := httptest.NewRecorder()
	b.facade.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// apply sends the requests of a tool's apply. It ends at the first refusal, and releases
// its lock. It returns "ok", or the refused request with its answer.
func (b *bubble) apply(id, state string) string {
	if status, _ := b.ask(http.MethodPut, ".tflock", lockBody(id)); status != http.StatusOK {
		return fmt.Sprint("lock:", status)
	}
	var refused []string
	if status, _ := b.ask(http.MethodGet, "", ""); status != http.StatusOK && status != http.StatusNotFound {
		refused = append(refused, fmt.Sprint("read:", status))
	} else if status, _ := b.ask(http.MethodPut, "", state); status != http.StatusOK {
		refused = append(refused, fmt.Sprint("write:", status))
	}
	if status, _ := b.ask(http.MethodDelete, ".tflock", ""); status != http.StatusNoContent {
		refused = append(refused, fmt.Sprint("unlock:", status))
	}
	if len(refused) > 0 {
		return strings.Join(refused, "+")
	}
	return "ok"
}

// TestFaultMatrix breaks every request to the registry once, in every way, while a tool
// applies through the wrapper. The apply succeeds, its state is stored, and its lock is
// gone; an apply that cannot connect at the start is refused.
//
// Shows: servers 3
func TestFaultMatrix(t *testing.T) {
	for _, act := range []struct {
		name string
		do   ocitest.Act
	}{
		{"lost before", ocitest.FailBefore},
		{"answer lost", ocitest.FailAfter},
		{"503", ocitest.Status(503, -1)},
		{"503 after", ocitest.StatusAfter(503)},
		{"500 after", ocitest.StatusAfter(500)},
		{"429", ocitest.Status(429, 1)},
		{"refused", ocitest.Refuse},
		{"twice", ocitest.Twice},
		{"late", nil},
	} {
		var row strings.Builder
		for nth := 1; ; nth++ {
			outcome, hit := faultyApply(t, nth, act.do)
			if !hit {
				t.Logf("%-11s at request 1 to %2d: %s", act.name, nth-1, row.String())
				if nth <= 13 {
					t.Errorf("%s: the apply had only %d requests", act.name, nth-1)
				}
				break
			}
			row.WriteString(outcome + " ")
			// A connection that is refused before any answer came means that the address
			// is wrong; nothing was done by then.
			if outcome != "ok" && !(act.name == "refused" && nth == 1 && outcome == "lock:503") {
				t.Errorf("%s at request %d: %s", act.name, nth, outcome)
			}
		}
	}
}

// faultyApply is an apply whose nth request to the registry fails or, if do is nil,
// arrives late; false if it has fewer requests.
func faultyApply(t *testing.T, nth int, do ocitest.Act) (outcome string, hit bool) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		base := ocitest.Direct{Handler: h}
		fault, deliver := &ocitest.Fault{Base: base, Nth: nth, Do: do}, func() {}
		if do == nil {
			fault.Do, deliver = ocitest.Late()
			fault.Times = -1
		}
		const state = `{"version":4,"serial":1,"lineage":"l"}`
		outcome = newBubble(t, fault).apply("0b5ddc1b-5f5e-4f4e-9c7c-7f1f4a2f9f10", state)
		hit = fault.Seen() >= nth
		deliver()
		next := newBubble(t, base)
		if status, answer := next.ask(http.MethodGet, "", ""); outcome == "ok" && answer != state {
			t.Errorf("fault %d: the state is %d %s", nth, status, answer)
		}
		if got := next.apply("next", `{"version":4,"serial":2,"lineage":"l"}`); got != "ok" {
			t.Errorf("fault %d, %s: the next apply: %s", nth, outcome, got)
		}
	})
	return outcome, hit
}
