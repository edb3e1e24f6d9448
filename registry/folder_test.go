// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestMirrorOfAFolder mirrors a module in a folder: found as written, or by the depot's folder. No
// archive link is kept.
func TestMirrorOfAFolder(t *testing.T) {
	f := newFront(t, nil)
	from := depot.New(depot.Options{Client: f.client, Layout: addr.Layout{Prefix: "acme"}})
	m := addr.ModuleVersion{Module: must.Fixed(addr.ParseModule("net/vpc/aws")), Version: must.Fixed(addr.ParseVersion("1.0.0"))}
	tree := fstest.MapFS{
		"vpc/main.tf": {Data: []byte("module \"dns\" {\n  source = \"../dns\"\n}\n")}, "dns/main.tf": {}, "dns/x/x.tf": {}, "LICENSE": {},
	}
	must.Fixed(from.PublishModule(t.Context(), tree, m, depot.ModuleOptions{Dir: "vpc"}))
	base := f.url(t, "/v1/modules/")
	origins := supply.Origins{
		Client: &upstream.Client{},
		Open:   func(ref string) (*oci.Repo, error) { return oci.OpenRepo(ref, oci.Options{}) },
		Registry: func(host string, _ addr.Module) (*upstream.ModuleRegistry, error) {
			return &upstream.ModuleRegistry{Client: &upstream.Client{}, Host: host, Base: base}, nil
		},
	}
	repository := "oci://" + f.client.Host() + "/acme/modules/net/vpc/aws"
	for _, tt := range []struct{ source, subdir, folder, dir, path string }{
		{"example.com/net/vpc/aws", "", "", "vpc", ""}, {repository, "", "", "vpc", ""},
		{"example.com/net/vpc/aws//vpc", "", "", "", "vpc"}, {"example.com/net/vpc/aws", "vpc", "", "", "vpc"}, {repository + "//vpc", "", "", "", "vpc"},
		{"example.com/net/vpc/aws//dns", "", "", "", ""},
		{"example.com/net/vpc/aws", "", "dns/x", "vpc", ""}, {"example.com/net/vpc/aws", "", "none", "", ""},
	} {
		t.Run(tt.source+" "+tt.subdir+tt.folder, func(t *testing.T) {
			d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
			file := "module \"net/vpc/aws\" {\n source = \"" + tt.source + "\"\n subdir = \"" + tt.subdir + "\"\n}\n"
			for _, again := range []bool{false, true} { // by a depot, and then by `okara mirror`, which compares
				set := must.Fixed(supply.ParseSet("depot.hcl", []byte(file)))
				set.Modules[0].Folder = tt.folder
				s := supply.NewSyncer(d, supply.SyncOptions{Set: set, Once: again, Origins: func(string) (supply.Origins, error) { return origins, nil }})
				p := must.Fixed(s.Plan(t.Context()))
				for _, r := range must.Fixed(s.Apply(t.Context(), p, nil)) {
					if tt.folder == "none" {
						if !errors.Is(r.Err(), oci.ErrNotFound) {
							t.Error(r.Err())
						}
						return
					}
					if r.Err() != nil || r.Published.Existing != again {
						t.Errorf("again %t: %v, existing %t", again, r.Err(), r.Published.Existing)
					}
				}
			}
			stored := must.Fixed(artifact.ParseModule(depottest.MustFetch(t, depottest.MustRepo(t, client, depottest.ModuleRepo), "1.0.0")))
			if dir, path := stored.Annotations[artifact.AnnModuleDir], stored.Annotations[artifact.AnnModulePath]; dir != tt.dir || path != tt.path {
				t.Errorf("the folder is %q, and the path %q", dir, path)
			}
			source := map[bool]string{true: "https://example.com/net/vpc/aws", false: repository}[tt.source[:3] == "exa"]
			must.Equal(t, "the source", stored.Annotations[artifact.AnnSource], source)
		})
	}
}
