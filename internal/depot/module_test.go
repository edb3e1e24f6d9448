// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

func TestPublishModule(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, client := depottest.NewDepot(t, host, oci.Options{})
		m := depottest.MustModule(t, "net/vpc/aws", "1.0.0+b.1")
		first := must.Get(d.PublishModule(t.Context(), depottest.NewModule("variable \"a\" {}\n"), m, depot.ModuleOptions{Annotations: map[string]string{artifact.AnnRevision: "abc"}}))(t)
		if len(first.Warnings) > 0 || first.Existing {
			t.Errorf("%+v", first)
		}
		if want := host + "/p/modules/net/vpc/aws:1.0.0_b.1@sha256:"; !strings.HasPrefix(first.String(), want) {
			t.Errorf("got %s, want %s…", first, want)
		}
		r := depottest.MustRepo(t, client, "p/modules/net/vpc/aws")
		parsed := must.Get(artifact.ParseModule(depottest.MustFetch(t, r, "1.0.0_b.1")))(t)
		if parsed.Address != m.Module || parsed.Version != m.Version || parsed.ContentDigest != first.ContentDigest || parsed.Annotations[artifact.AnnRevision] != "abc" {
			t.Errorf("stored %+v", parsed)
		}
		checkModuleLayers(t, r, parsed)

		again := must.Get(d.PublishModule(t.Context(), depottest.NewModule("variable \"a\" {}\n"), m, depot.ModuleOptions{}))(t)
		first.Existing, first.Size = true, 0
		if diff := cmp.Diff(again, first, cmpopts.IgnoreUnexported(depot.Published{})); diff != "" {
			t.Errorf("second publish (-got +want)\n%s", diff)
		}
		entry, err := artifact.ReadCatalogEntry(t.Context(), depottest.MustRepo(t, client, "p/catalog"), artifact.CatalogTag(r.Name()))
		if diff := cmp.Diff(entry, artifact.CatalogEntry{Kind: addr.KindModule, Address: "net/vpc/aws", Repository: "p/modules/net/vpc/aws"}); err != nil || diff != "" {
			t.Errorf("catalog: %v (-got +want)\n%s", err, diff)
		}
	})
}

func checkModuleLayers(t *testing.T, r *oci.Repo, m artifact.ModuleManifest) {
	t.Helper()
	for _, layer := range []*oci.Descriptor{m.Tar, m.Zip} {
		b := must.Get(r.ReadBlob(t.Context(), *layer, 1<<20))(t)
		dir := t.TempDir()
		must.Succeed(t, archive.Unpack(t.Context(), bytes.NewReader(b), int64(len(b)), dir, archive.Limits{}))
		files, err := fs.Glob(os.DirFS(dir), "*")
		if diff := cmp.Diff(files, []string{"README.md", "main.tf"}); err != nil || diff != "" {
			t.Errorf("%s holds (-got +want)\n%s", layer.MediaType, diff)
		}
	}
	b := must.Get(r.ReadBlob(t.Context(), *m.Description, 1<<20))(t)
	var d artifact.ModuleDescription
	must.Succeed(t, json.Unmarshal(b, &d))
	if d.Address != "net/vpc/aws" || d.Root.Readme == nil || d.Root.Readme.Text != "# VPC\n" {
		t.Errorf("description %s", b)
	}
}

func TestPublishModuleConflict(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, client := depottest.NewDepot(t, host, oci.Options{})
		for _, version := range []string{"1.0.0", "1.0.1"} {
			must.Get(d.PublishModule(t.Context(), depottest.NewModule("locals {}\n"), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{}))(t)
		}
		r := depottest.MustRepo(t, client, "p/modules/net/vpc/aws")
		before := depottest.MustFetch(t, r, "1.0.0").Digest
		_, err := d.PublishModule(t.Context(), depottest.NewModule("locals { a = 1 }\n"), depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{})
		conflict, ok := errors.AsType[*depot.ConflictError](err)
		if !ok || !errors.Is(err, oci.ErrExists) || conflict.Next.String() != "1.0.2" || conflict.Stored == conflict.Offered {
			t.Fatalf("got %v, want a conflict with next version 1.0.2", err)
		}
		for _, part := range []string{conflict.Stored, conflict.Offered, "1.0.2"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("message %q lacks %s", err, part)
			}
		}
		if after := depottest.MustFetch(t, r, "1.0.0").Digest; after != before {
			t.Errorf("the tag moved from %s to %s", before, after)
		}
		if diff := cmp.Diff(depottest.MustTags(t, r), []string{"1.0.0", "1.0.1", "latest"}); diff != "" {
			t.Errorf("tags (-got +want)\n%s", diff)
		}
	})
}

// TestLatestIsTheHighestRelease, not withdrawn, unless nobody asked for that tag.
func TestLatestIsTheHighestRelease(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	r := depottest.MustRepo(t, client, "p/modules/net/vpc/aws")
	for _, step := range []struct{ action, version, latest string }{
		{"publish without", "0.5.0", ""}, {"yank", "0.5.0", ""}, {"unyank", "0.5.0", ""}, {"publish without", "0.4.0", ""}, {"delete", "0.5.0", ""}, {"unyank", "0.5.0", ""},
		{"publish", "1.0.0-rc.1", "0.5.0"}, {"publish", "1.0.0", "1.0.0"}, {"publish", "2.0.0", "2.0.0"}, {"publish", "1.5.0", "2.0.0"},
		{"publish", "3.0.0-rc.1", "2.0.0"}, {"publish", "10.0.0", "10.0.0"},
		{"yank", "10.0.0", "2.0.0"}, {"publish", "1.6.0", "2.0.0"}, {"unyank", "10.0.0", "10.0.0"},
		{"delete", "10.0.0", "2.0.0"}, {"unyank", "10.0.0", "10.0.0"}, {"yank", "*", ""}, {"yank", "1.0.0", ""}, {"unyank", "*", "10.0.0"},
		{"prune", "", "10.0.0"}, {"delete", "10.0.0", ""}, {"publish", "0.1.0", "0.1.0"},
	} {
		var err error
		var warnings []string
		switch step.action {
		case "publish", "publish without":
			var out depot.Published
			o := depot.ModuleOptions{NoLatest: step.action != "publish"}
			out, err = d.PublishModule(t.Context(), depottest.NewModule("# "+step.version), depottest.MustModule(t, "net/vpc/aws", step.version), o)
			warnings = out.Warnings
		case "prune":
			l := mustVersions(t, d, depottest.VPC().Item())
			must.Succeed(t, r.PutTag(t.Context(), "latest", depottest.MustFetch(t, r, "2.0.0"))) // as an earlier okara left it
			err = depot.PruneVersions(t.Context(), l, l.Prunable(depot.Retention{Keep: 1}))
		default:
			an := depot.Announcement{Action: strings.Replace(step.action, "delete", "yank", 1), Version: step.version, DeleteTag: step.action == "delete"}
			_, _, err = d.Announce(t.Context(), depottest.VPC().Item(), an)
		}
		if err != nil || len(warnings) > 0 {
			t.Fatal(step, err, warnings)
		}
		latest, err := r.Resolve(t.Context(), "latest")
		switch {
		case step.latest == "" && !errors.Is(err, oci.ErrNotFound):
			t.Errorf("after %v: latest is %v, %v", step, latest.Digest, err)
		case step.latest != "" && latest.Digest != depottest.MustFetch(t, r, step.latest).Digest:
			t.Errorf("after %v: latest is %v", step, latest.Digest)
		}
	}
}

// TestAnotherDirectory: the same files with a module in another directory are another version.
func TestAnotherDirectory(t *testing.T) {
	sibling := &fstest.MapFile{Data: []byte("module \"x\" {\n  source = \"../c\"\n}\n")}
	tree := fstest.MapFS{"a/main.tf": sibling, "b/main.tf": sibling, "c/main.tf": {}}
	m := depottest.MustModule(t, "net/vpc/aws", "1.0.0")
	for name, publish := range map[string]func(d *depot.Depot, dir string) (depot.Published, error){
		"published": func(d *depot.Depot, dir string) (depot.Published, error) {
			return d.PublishModule(t.Context(), tree, m, depot.ModuleOptions{Dir: dir})
		},
		"mirrored": func(d *depot.Depot, dir string) (depot.Published, error) {
			fetch := func(_ context.Context, to string, _ bool) (depot.Fetched, error) {
				return depot.Fetched{Package: to, Dir: dir, Annotations: map[string]string{}}, os.CopyFS(to, tree)
			}
			return d.MirrorModule(t.Context(), m, fetch, depot.ModuleOptions{Compare: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
			for i, dir := range []string{"a", "a", "b"} {
				out, err := publish(d, dir)
				if out.Existing != (i == 1) && err == nil || errors.Is(err, oci.ErrExists) != (i == 2) {
					t.Errorf("%s: %+v, %v", dir, out, err)
				}
			}
		})
	}
}

func TestPublishModuleRefuses(t *testing.T) {
	tests := []struct {
		name string
		tree fstest.MapFS
		want error
		text string
	}{
		{"no configuration", fstest.MapFS{"README.md": {}}, depot.ErrNoModule, "net/vpc/aws"},
		{"60 000 files", manyFiles(60_000), archive.ErrTooLarge, "more than 50000 files"},
		{"drive", fstest.MapFS{"main.tf": {}, "C:/x": {}}, archive.ErrUnsafe, `"C:": Windows reads this name as a drive or a device`},
		{"device", fstest.MapFS{"main.tf": {}, "sub/aux.tf": {}}, archive.ErrUnsafe, `"sub/aux.tf": Windows`},
		{"one name on Windows", fstest.MapFS{"main.tf": {}, "main.tf.": {}}, archive.ErrUnsafe, "differ only in case"},
		{"absent call", fstest.MapFS{"main.tf": {Data: []byte("module \"x\" {\n  source = \"./modules/x\"\n}\n")}}, description.ErrAbsent, `main.tf:1: module "x" uses ./modules/x, which is not in the package`},
		{"absent call of a submodule", fstest.MapFS{"main.tf": {}, "modules/a/a.tf": {Data: []byte("module \"x\" {\n  source = \"../x\"\n}\n")}}, description.ErrAbsent, `modules/a/a.tf:1`},
		{"ignored call", fstest.MapFS{".tfignore": {Data: []byte("x/")}, "x/x.tf": {}, "main.tf": {Data: []byte("module \"x\" {\n  source = \"./x\"\n}\n")}}, description.ErrAbsent, `main.tf:1`},
		{"configuration below only", fstest.MapFS{"sub/main.tf": {}, "examples/a/main.tf": {}}, depot.ErrNoModule, ""},
		{"a stack", fstest.MapFS{"app.tfcomponent.hcl": {}, "prod.tfdeploy.hcl": {}}, depot.ErrNoModule, "it is a stack, which is not a module"},
		{"ignored configuration", fstest.MapFS{"main.tf": {}, ".tfignore": {Data: []byte("*.tf\n")}}, depot.ErrNoModule, ""},
		{"link out", fstest.MapFS{"main.tf": {}, "l": {Mode: fs.ModeSymlink, Data: []byte("../x")}}, archive.ErrUnsafe, "l: symbolic link to ../x, which is outside the package"},
		{"call outside", fstest.MapFS{"main.tf": {Data: []byte("\nmodule \"x\" {\n  source = \"../x\"\n}\n")}}, nil, `main.tf:2: module "x" uses ../x`},
		{"call outside by a variable", fstest.MapFS{"main.tf": {Data: []byte("variable \"k\" {}\nmodule \"x\" {\n  source = \"../${var.k}\"\n}\n")}}, description.ErrOutside, `main.tf:2: module "x" uses ../${var.k}`},
		{"absent calls by a variable", fstest.MapFS{"main.tf": {Data: []byte("variable \"k\" {}\nmodule \"x\" {\n  source = \"./kinds/${var.k}\"\n}\n")}}, description.ErrAbsent, `main.tf:2: module "x" uses ./kinds/${var.k}`},
		{"call outside from below", fstest.MapFS{"main.tf": {}, "modules/a/main.tofu": {Data: []byte("module \"x\" {\n  source = \"../../../x\"\n}\n")}}, nil, "modules/a/main.tofu:1"},
		{"deep", fstest.MapFS{"main.tf": {}, "x/deep.tf": {Data: deep("x = ", "[")}}, syntax.ErrTooComplex, "x/deep.tf:1: nested"},
		{"deep JSON", fstest.MapFS{"main.tf": {}, "deep.tf.json": {Data: append(deep("", "["), deep("", "]")...)}}, syntax.ErrTooComplex, "deep.tf.json:1: nested"},
		{"endless default", fstest.MapFS{"main.tofu": {Data: append(deep("variable \"x\" {\n default = ", "[for a in [1,2,3,4] : ")[:400], deep("1", "]")[:20]...)}}, syntax.ErrTooComplex, "main.tofu:2: a value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
			_, err := d.PublishModule(t.Context(), tt.tree, depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{})
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.text)
			}
			if tags := depottest.MustTags(t, depottest.MustRepo(t, client, "p/modules/net/vpc/aws")); len(tags) > 0 {
				t.Errorf("left behind %v", tags)
			}
		})
	}
}

// deep returns a text with the maximum nesting of a small archive.
func deep(prefix, s string) []byte { return []byte(prefix + strings.Repeat(s, 5000)) }

// TestDescribeWhatCannotBeRead: a file that is not read, a default that makes the library panic.
func TestDescribeWhatCannotBeRead(t *testing.T) {
	for name, tree := range map[string]fstest.MapFS{
		"no JSON":              {"main.tf": {}, "a.tf.json": {Data: []byte("{\"a\": [")}},
		"number":               {"main.tf": {Data: []byte("variable \"x\" {\n default = 1e308 * 1e308\n}\n")}},
		"HCL 1 below HCL 2":    {"main.tf": {Data: []byte("a = \"${\"\n")}},
		"type that is no type": {"main.tf": {Data: []byte("variable \"x\" {\n type = list(list(string\n}\n")}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := depot.PlanModule(t.Context(), tree, depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{AllowInvalid: true}); err != nil {
				t.Error(err)
			}
		})
	}
}

func manyFiles(n int) fstest.MapFS {
	tree := fstest.MapFS{}
	for i := range n {
		tree[fmt.Sprintf("d%d/f%d.tf", i/100, i)] = &fstest.MapFile{}
	}
	return tree
}

func TestPublishModuleIntoATagOfSomethingElse(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	r := depottest.MustRepo(t, client, "p/modules/net/vpc/aws")
	index, err := oci.NewIndex(ocispec.Index{})
	if err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, r.PutTag(t.Context(), "1.0.0", index))
	_, err = d.PublishModule(t.Context(), depottest.NewModule(""), depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{})
	if !errors.Is(err, oci.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
}

// TestPlanModuleWarns: a block for the state; of others' modules what fails at every init.
func TestPlanModuleWarns(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		foreign    bool
	}{
		{"terraform {\n  backend \"s3\" {}\n}\n", "main.tf:2: a backend block", false},
		{"terraform {\n  state_store \"aws_s3\" {}\n}\n", "main.tf:2: a state_store block", false},
		{"variable \"count\" {}\n", "the configuration is not valid: main.tf:1:1: Invalid variable name", true},
	} {
		plan := must.Get(depot.PlanModule(t.Context(), depottest.NewModule(tt.text), depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{Foreign: tt.foreign}))(t)
		if len(plan.Warnings) != 1 || !strings.HasPrefix(plan.Warnings[0], tt.want) {
			t.Errorf("warnings %q, want %q", plan.Warnings, tt.want)
		}
	}
}
