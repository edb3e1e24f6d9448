// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestPullLeavesNothing lets one download after another fail: what was there before stays,
// and nothing else.
func TestPullLeavesNothing(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	d, _ := depottest.NewDepot(t, host, oci.Options{})
	v := depottest.MustVersion(t, "1.2.3")
	must.Get(d.PublishModule(t.Context(), depottest.NewModule("# 1\n"), addr.ModuleVersion{Module: depottest.VPC(), Version: v}, depot.ModuleOptions{}))(t)
	must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64", "darwin_arm64"), depottest.DNS(), v, depot.ProviderOptions{SignKey: mustKey(t)}))(t)
	for _, tt := range []struct {
		name string
		item addr.Item
		dir  string // below one that exists
		had  []string
		fail int // reads of blobs, each of which fails once
	}{
		{"module, new folder", depottest.VPC().Item(), "new/out", nil, 1},
		{"module, empty folder", depottest.VPC().Item(), "", nil, 1},
		{"provider, new folder", depottest.DNS().Item(), "new/out", nil, 2},
		{"provider, other files", depottest.DNS().Item(), "", []string{"notes.txt"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for n := range tt.fail + 1 {
				fault := &ocitest.Fault{Match: ocitest.On(http.MethodGet, "blob"), Nth: n + 1, Times: -1, Do: ocitest.Status(http.StatusForbidden, -1)}
				d, _ := depottest.NewDepot(t, host, oci.Options{Transport: fault})
				top := t.TempDir()
				for _, name := range tt.had {
					must.Succeed(t, os.WriteFile(filepath.Join(top, name), nil, 0o600))
				}
				dir := filepath.Join(top, tt.dir)
				names, err := d.Pull(t.Context(), tt.item, v, dir, depot.PullOptions{})
				left := filesBelow(t, top)
				if n < tt.fail && (err == nil || !slices.Equal(left, tt.had)) {
					t.Errorf("blob %d: %v left %q", n+1, err, left)
				}
				if n == tt.fail && (err != nil || len(left) <= len(tt.had)) {
					t.Errorf("pulled %v: %v, %q", names, err, left)
				}
				if _, err := os.Stat(dir); (err == nil) != (n == tt.fail || tt.dir == "") {
					t.Errorf("blob %d: folder: %v", n+1, err)
				}
			}
		})
	}
}

// filesBelow returns the files below a folder by name.
func filesBelow(t *testing.T, dir string) (all []string) {
	t.Helper()
	must.Succeed(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all = append(all, name)
		}
		return err
	}))
	return all
}
