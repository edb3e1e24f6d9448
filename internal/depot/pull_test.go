// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestPullLeavesNothing: a failed download leaves what was there, and nothing else.
func TestPullLeavesNothing(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	d, _ := depottest.NewDepot(t, host, oci.Options{})
	v := depottest.MustVersion(t, "1.2.3")
	must.Get(d.PublishModule(t.Context(), depottest.NewModule("# 1\n"), addr.ModuleVersion{Module: depottest.VPC(), Version: v}, depot.ModuleOptions{}))(t)
	must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64", "darwin_arm64"), depottest.DNS(), v, depot.ProviderOptions{SignKey: mustKey(t)}))(t)
	for _, tt := range []struct {
		item addr.Item
		dir  string // below one that exists
		had  string // a file in it
		fail int    // reads of blobs, each of which fails once
	}{{depottest.VPC().Item(), "new/out", "", 1}, {depottest.VPC().Item(), "", "", 1}, {depottest.DNS().Item(), "new/out", "", 2}, {depottest.DNS().Item(), "", "notes.txt", 2}} {
		for n := range tt.fail + 1 {
			fault := &ocitest.Fault{Match: ocitest.On(http.MethodGet, "blob"), Nth: n + 1, Times: -1, Do: ocitest.Status(http.StatusForbidden, -1)}
			d, _ := depottest.NewDepot(t, host, oci.Options{Transport: fault})
			top := t.TempDir()
			if tt.had != "" {
				must.Succeed(t, os.WriteFile(filepath.Join(top, tt.had), nil, 0o600))
			}
			_, err := d.Pull(t.Context(), tt.item, v, filepath.Join(top, tt.dir), depot.PullOptions{})
			var left []string
			for _, e := range must.Get(os.ReadDir(top))(t) {
				left = append(left, e.Name())
			}
			if failed := n < tt.fail; failed != (err != nil) || failed != (strings.Join(left, " ") == tt.had) {
				t.Errorf("%s into %q, read %d fails: %v left %q", tt.item, tt.dir, n+1, err, left)
			}
		}
	}
}
