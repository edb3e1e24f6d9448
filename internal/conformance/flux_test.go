// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/Masterminds/semver/v3"
	flux "github.com/fluxcd/pkg/oci"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// TestFlux pulls modules with the client library of Flux's source-controller: the highest
// version in a range, as an OCIRepository requests it.
//
// Shows: opendepot 13
func TestFlux(t *testing.T) {
	each(t, func(t *testing.T, c *oci.Client) {
		address := must.Get(addr.ParseModule("net/vpc/aws"))(t)
		d := depot.New(depot.Options{Client: c, Layout: addr.Layout{Prefix: "conformance/flux"}})
		published, trees := map[string]depot.Published{}, map[string]map[string]string{}
		for _, text := range []string{"1.0.0", "1.10.0", "1.2.0", "2.0.0"} {
			trees[text] = fluxTree(text)
			m := addr.ModuleVersion{Module: address, Version: mustVersion(t, text)}
			published[text] = must.Get(d.PublishModule(t.Context(), mapFS(trees[text]), m, depot.ModuleOptions{}))(t)
		}
		for constraint, want := range map[string]string{"1.x": "1.10.0", "~1.2.0": "1.2.0", "<1.2.0": "1.0.0", "*": "2.0.0"} {
			p := published[want]
			url := fluxResolve(t, p.Repository, constraint)
			if url != p.Repository+":"+want {
				t.Errorf("%q is %s, want %s", constraint, url, want)
			}
			dir := t.TempDir()
			meta := must.Get(flux.NewClient(flux.DefaultOptions()).Pull(t.Context(), url, dir))(t)
			if !strings.HasSuffix(meta.Digest, "@"+p.Digest) {
				t.Errorf("pulled %s, want %s", meta.Digest, p.Digest)
			}
			if diff := cmp.Diff(trees[want], readTree(t, dir)); diff != "" {
				t.Errorf("files of %s (-want +got):\n%s", want, diff)
			}
		}
	})
}

func fluxTree(version string) map[string]string {
	return map[string]string{
		"main.tf":               "module \"inner\" {\n  source = \"./modules/inner\"\n}\n",
		"modules/inner/main.tf": "output \"x\" {\n  value = \"" + version + "\"\n}\n",
		"files/blob":            "\x00\xff\r\n",
	}
}

func mapFS(files map[string]string) fs.FS {
	tree := fstest.MapFS{}
	for name, content := range files {
		tree[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return tree
}

// fluxResolve selects a tag as source-controller does: the highest in the range.
func fluxResolve(t *testing.T, repository, constraint string) string {
	t.Helper()
	list := must.Get(flux.NewClient(flux.DefaultOptions()).List(t.Context(), repository, flux.ListOptions{SemverFilter: constraint}))(t)
	found := map[string]*semver.Version{}
	for _, m := range list {
		v := must.Get(semver.NewVersion(strings.TrimPrefix(m.URL, repository+":")))(t)
		found[m.URL] = v
	}
	if len(found) == 0 {
		t.Fatalf("no tag of %s is in %q", repository, constraint)
	}
	return slices.MaxFunc(slices.Collect(maps.Keys(found)), func(a, b string) int { return found[a].Compare(found[b]) })
}

func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := os.DirFS(dir)
	must.Succeed(t, fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := fs.ReadFile(root, name)
		files[name] = string(b)
		return err
	}))
	return files
}
