// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/checkout"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// outcome is what a door does with a repository: files, or the error.
type outcome struct {
	files   string // separated by spaces
	warning string // part of the warnings
	refused string // part of the error
}

// TestShapes publishes and mirrors repositories shaped as popular ones.
func TestShapes(t *testing.T) {
	calls := func(source string) string { return "module \"x\" {\n  source = \"" + source + "\"\n}\n" }
	both := func(o outcome) [2]outcome { return [2]outcome{o, o} }
	for _, tt := range []struct {
		name   string
		files  map[string]string // text, or ">" and the target of a link, or "@" for a git submodule
		subdir string
		want   [2]outcome // of publish and of a depot
		suffix string     // of the addresses of the mirrored package
	}{
		{"a guide that links to a file that is not there", map[string]string{"main.tf": "", "AGENTS.md": ">CLAUDE.md"}, "",
			both(outcome{"main.tf", "AGENTS.md: symbolic link to CLAUDE.md, which does not exist, skipped", ""}), ""},
		{"tests that link to the files of the module", map[string]string{"locals.tf": "", "test/fixture/locals.tf": ">../../locals.tf"}, "",
			both(outcome{"locals.tf test/fixture/locals.tf", "", ""}), ""},
		{"a folder that links to another one", map[string]string{"main.tf": "", "data/spokes/a.yaml": "a", "data/classic": ">spokes/"}, "",
			both(outcome{"data/classic/a.yaml data/spokes/a.yaml main.tf", "", ""}), ""},
		{"an example that links to the whole module", map[string]string{"main.tf": "", "examples/a/main.tf": "", "examples/a/module": ">../.."}, "",
			[2]outcome{{refused: "examples/a/module: circular symbolic link to ../.."}, {"examples/a/main.tf main.tf", "circular symbolic link to ../.., skipped", ""}}, ""},
		{"a link out of the repository", map[string]string{"main.tf": "", "examples/a/x": ">../../../x"}, "",
			both(outcome{refused: "examples/a/x: symbolic link to ../../../x, which is outside the package"}), ""},
		{"packages that .gitignore names", map[string]string{".gitignore": "*.zip\nbuilds/\n", "main.tf": "", "fixtures/f.zip": "PK", "builds/keep.txt": ""}, "",
			both(outcome{"builds/keep.txt fixtures/f.zip main.tf", "", ""}), ""},
		{"values of examples", map[string]string{".gitignore": "*.tfvars\n", "main.tf": "", "examples/a/main.tf": "", "examples/a/fixtures.auto.tfvars": "region = 1"}, "",
			both(outcome{"examples/a/fixtures.auto.tfvars examples/a/main.tf main.tf", "", ""}), ""},
		{"values of the module", map[string]string{"main.tf": "", "default.auto.tfvars": "enabled = false"}, "",
			[2]outcome{{"main.tf", "", ""}, {"default.auto.tfvars main.tf", "", ""}}, ""},
		{"a call of a folder that is not there", map[string]string{"main.tf": calls("./modules/x")}, "",
			[2]outcome{{refused: `main.tf:1: module "x" uses ./modules/x, which is not in the package`}, {"main.tf", "main.tf:1: module", ""}}, ""},
		{"an example that calls one", map[string]string{"main.tf": "", "examples/a/main.tf": calls("./none")}, "",
			both(outcome{"examples/a/main.tf main.tf", "examples/a/main.tf:1: module", ""}), ""},
		{"a call into a git submodule", map[string]string{"main.tf": calls("./sub/x"), "sub": "@"}, "",
			[2]outcome{{refused: `main.tf:1: module "x" uses ./sub/x, which is not in the package`}, {refused: "which is not in the package: sub is empty, as the folder of a git submodule"}}, ""},
		{"a module in a folder that calls a git submodule", map[string]string{"README.md": "", "modules/net/main.tf": calls("../../sub"), "sub": "@"}, "modules/net",
			[2]outcome{{refused: "outside the package"}, {refused: "sub is empty"}}, ""},
		{"data and a module in git submodules", map[string]string{"main.tf": "", "vendor": "@", "modules/a": "@"}, "",
			[2]outcome{{"main.tf", "", ""}, {"main.tf", "which okara does not fetch, so what the module reads there is missing: modules/a, vendor", ""}}, ""},
		{"an example that calls a git submodule", map[string]string{"main.tf": "", "examples/a/main.tf": calls("./sub"), "examples/a/sub": "@"}, "",
			both(outcome{"examples/a/main.tf main.tf", "examples/a/main.tf:1: module", ""}), ""},
		{"a schema that compresses a hundredfold", map[string]string{"main.tf": "", "rules.json": strings.Repeat(`{"region":"a","endpoint":"b"},`, 80_000)}, "",
			both(outcome{"main.tf rules.json", "", ""}), ""},
		{"a device of Windows", map[string]string{"main.tf": "", "sub/nul.tf": ""}, "",
			both(outcome{refused: "sub/nul.tf"}), ""},
		{"submodules alone", map[string]string{"README.md": "", "modules/a/a.tf": "", "modules/b/b.tf": ""}, "",
			both(outcome{"README.md modules/a/a.tf modules/b/b.tf", "", ""}), ""},
		{"submodules alone, of which one is not valid", map[string]string{"modules/a/a.tf": "", "modules/b/b.tf": "x {}\n"}, "",
			both(outcome{refused: "modules/b/b.tf:1:1"}), ""},
		{"a module that is whole", map[string]string{"README.md": "", "modules/net/main.tf": "", "modules/net/x/x.tf": ""}, "modules/net",
			both(outcome{"main.tf x/x.tf", "", ""}), ""},
		{"a module that calls one beside it", map[string]string{"README.md": "", "modules/net/main.tf": calls("../dns"), "modules/dns/main.tf": ""}, "modules/net",
			[2]outcome{{refused: "main.tf:1: module \"x\" uses ../dns, which is outside the package"}, {"README.md modules/dns/main.tf modules/net/main.tf", "", ""}}, "//modules/net"},
		{"a module that links to the licence of all", map[string]string{"LICENSE": "", "modules/net/main.tf": "", "modules/net/LICENSE": ">../../LICENSE"}, "modules/net",
			[2]outcome{{refused: "LICENSE: symbolic link to ../../LICENSE, which is outside the package"}, {"LICENSE modules/net/LICENSE modules/net/main.tf", "", ""}}, "//modules/net"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t)
			modules := []string{"update-index"}
			for name, text := range tt.files {
				if text == "@" {
					modules = append(modules, "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+","+name)
					continue
				}
				file := filepath.Join(o.dir, name)
				err := os.MkdirAll(filepath.Dir(file), 0o755)
				if target, link := strings.CutPrefix(text, ">"); link {
					err = errors.Join(err, os.Symlink(target, file))
				} else {
					err = errors.Join(err, os.WriteFile(file, []byte(text), 0o644))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			o.git("add", "--force", ".")
			o.git(modules...)
			o.git("commit", "-q", "-m", "x")
			o.git("tag", "v1.0.0")

			published := newRunner(t)
			warnings, err := published.publish(o, tt.subdir)
			published.check(tt.want[0], warnings, err)

			mirrored := newRunner(t)
			more := ""
			if tt.subdir != "" {
				more = "subdir = \"" + tt.subdir + "\""
			}
			warnings, err = mirrored.mirror(moduleEntry(o, more))
			mirrored.check(tt.want[1], warnings, err)
			if tt.want[1].refused == "" {
				s := depottest.MustSubject(t, mirrored.depot, depottest.VPC().Item(), depottest.MustVersion(t, "1.0.0"))
				if m, err := artifact.ParseModule(s.Manifest); err != nil || m.Suffix() != tt.suffix {
					t.Errorf("the module is at %q of the package, %v", m.Suffix(), err)
				}
			}
		})
	}
}

// publish publishes a folder of the publisher's checkout.
func (r *runner) publish(o *origin, subdir string) ([]string, error) {
	dir := filepath.Join(o.dir, subdir)
	tracked, err := checkout.Tracked(r.t.Context(), dir)
	if err != nil {
		return nil, err
	}
	tree, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	hold := &archive.HoldBack{Checkout: os.DirFS(o.dir), At: subdir, Tracked: tracked}
	out, err := r.depot.PublishModule(r.t.Context(), tree.FS(), depottest.MustModule(r.t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{Hold: hold})
	return out.Warnings, err
}

// mirror applies a depot file with one version.
func (r *runner) mirror(src string) ([]string, error) {
	s := r.syncer(src)
	p, err := s.Plan(r.t.Context())
	if err != nil {
		return nil, err
	}
	results, err := s.Apply(r.t.Context(), p, nil)
	if err != nil || len(results) != 1 {
		r.t.Fatalf("%v, %v", results, err)
	}
	if results[0].Error != "" {
		err = errors.New(results[0].Error)
	}
	return results[0].Published.Warnings, err
}

// check compares an outcome, and what is pulled and verified.
func (r *runner) check(want outcome, warnings []string, err error) {
	r.t.Helper()
	if want.refused != "" {
		if err == nil || !strings.Contains(err.Error(), want.refused) {
			r.t.Errorf("got %v, want %q", err, want.refused)
		}
		r.want(r.versions())
		return
	}
	if err != nil {
		r.t.Error(err)
		return
	}
	if all := strings.Join(warnings, "; "); !strings.Contains(all, want.warning) || want.warning == "" && all != "" {
		r.t.Errorf("warnings %q, want %q", all, want.warning)
	}
	v, dir := depottest.MustVersion(r.t, "1.0.0"), r.t.TempDir()
	if _, err := r.depot.Pull(r.t.Context(), depottest.VPC().Item(), v, dir, depot.PullOptions{}); err != nil {
		r.t.Error(err)
	}
	if _, err := r.depot.Verify(r.t.Context(), depottest.VPC().Item(), v, trust.Policy{Deep: true}); err != nil {
		r.t.Error(err)
	}
	var files []string
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, name)
		}
		return err
	})
	slices.Sort(files)
	if diff := cmp.Diff(strings.Fields(want.files), files); err != nil || diff != "" {
		r.t.Errorf("%v, files (-want +got)\n%s", err, diff)
	}
}

// TestHTTPSource: Nexus Repository 3 ends the address of the provider protocol with a token.
func TestHTTPSource(t *testing.T) {
	for path, want := range map[string]bool{"/v1/providers": true, "/repository/terraform/v1/providers/dG9rZW4/": true, "/mirror/": false} {
		if _, registry := supply.HTTPSource(nil, &url.URL{Path: path}).(*upstream.Registry); registry != want {
			t.Errorf("%s: a registry: %t", path, registry)
		}
	}
}
