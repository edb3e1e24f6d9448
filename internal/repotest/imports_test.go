// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"go/parser"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/seed-141914ff/okara"

// testOnly lists packages for _test.go files, each other and test modules alone.
var testOnly = []string{"internal/ocitest", "internal/tofutest", "internal/depottest", "instances/portaltest", "instances/internal/runtest", "internal/webtest", "internal/mutant", "internal/must", "internal/repotest", "internal/conformance", "internal/e2e", "internal/e2e/dist", "internal/e2e/perf", "operator/internal/rig", "operator/internal/pages", "operator/internal/chart", "operator/internal/demo"}

// mounts lists what depends on the platform outside of instances and operator.
var mounts = map[string][]string{
	"cmd/okara":    {"instances", "instances/commands", "instances/settings"},
	"internal/web": {"instances/lifecycle", "instances/template", "instances/pages", "instances/portal", "instances/portaltest"},
}

// confined lists libraries for some packages only, so that bounds hold everywhere. The longest
// prefix counts; none: tests alone.
var confined = map[string][]string{
	"cloud.google.com":                        {"internal/cloudlogin"},
	"github.com/Azure":                        {"internal/cloudlogin"},
	"github.com/aws":                          {"internal/cloudlogin"},
	"github.com/chromedp":                     {"internal/webtest"},
	"github.com/docker/cli":                   {"credentials"},
	"github.com/go-git/go-git":                {"internal/upstream"},
	"github.com/hashicorp/hcl":                {"credentials"}, // version 1, for the CLI configuration of tofu
	"github.com/hashicorp/hcl/v2":             {"*"},
	"github.com/hashicorp/hcl/v2/gohcl":       {"internal/syntax"},
	"github.com/hashicorp/hcl/v2/hclparse":    nil,
	"github.com/hashicorp/hcl/v2/hclsimple":   nil,
	"github.com/hashicorp/hcl/v2/json":        {"internal/syntax"},
	"github.com/hashicorp/terraform-plugin-*": {"provider/internal/plugin"},
	"github.com/microcosm-cc/bluemonday":      {"internal/web/markdown"},
	"github.com/spf13":                        {"cmd/okara", "instances/commands", "internal/cli", "operator/cmd/okara-operator"},
	"go.opentelemetry.io/otel/exporters":      {"internal/cli"},
	"go.opentelemetry.io/otel/sdk":            {"internal/cli"},
	"gocloud.dev":                             {"internal/envelope"},
}

type pkg struct {
	name        string // the folder
	files       []string
	documented  bool
	imports     []string
	testImports []string
}

// add records a file and its imports. A test package's files count as code.
func (p *pkg) add(s source) {
	imports := &p.imports
	if s.test && !slices.Contains(testOnly, p.name) {
		imports = &p.testImports
	}
	if !s.test {
		p.files = append(p.files, path.Base(s.name))
		p.documented = p.documented || s.Doc != nil
	}
	for _, spec := range s.Imports {
		if imported := strings.Trim(spec.Path.Value, "\"`"); !slices.Contains(*imports, imported) {
			*imports = append(*imports, imported)
		}
	}
}

func (p *pkg) allImports() []string { return slices.Concat(p.imports, p.testImports) }

// our lists the packages of this repository among imports.
func our(imports []string) []string {
	var list []string
	for _, imported := range imports {
		if name, ok := strings.CutPrefix(imported, module+"/"); ok {
			list = append(list, name)
		}
	}
	return list
}

// TestTestPackages requires that no program imports a package that is for tests.
func TestTestPackages(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(testOnly, p.name) {
			continue
		}
		for _, imported := range our(p.imports) {
			if slices.Contains(testOnly, imported) {
				t.Errorf("%s must not import %s, which is for tests", p.name, imported)
			}
		}
	}
}

// TestConfinedLibraries requires that only the packages of [confined] import its libraries.
func TestConfinedLibraries(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(testOnly, p.name) {
			continue
		}
		for _, imported := range p.imports {
			longest := ""
			for library := range confined {
				prefix, part := strings.CutSuffix(library, "*")
				matches := within(imported, library) || part && strings.HasPrefix(imported, prefix)
				if matches && len(library) > len(longest) {
					longest = library
				}
			}
			if may := confined[longest]; longest != "" && !slices.Contains(may, p.name) && !slices.Contains(may, "*") {
				t.Errorf("%s must not import %s: only %v may", p.name, imported, may)
			}
		}
	}
}

func within(name, prefix string) bool { return name == prefix || strings.HasPrefix(name, prefix+"/") }

// TestPlatformApart: the core, tests included, does not depend on instances, but [mounts].
func TestPlatformApart(t *testing.T) {
	for _, p := range packages(t) {
		if within(p.name, "instances") || within(p.name, "operator") || slices.Contains(testOnly, p.name) {
			continue
		}
		for _, imported := range our(p.allImports()) {
			if within(imported, "instances") && !slices.Contains(mounts[p.name], imported) {
				t.Errorf("%s must not import %s: the core knows nothing of the platform, which comes in by server.Extension", p.name, imported)
			}
		}
	}
}

// TestPackageComments requires a comment for each package, in doc.go.
func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.files) > 0 && (!p.documented || !slices.Contains(p.files, "doc.go")) {
			t.Errorf("%s has no package comment in doc.go: a package's design is found there", p.name)
		}
	}
}

// packages lists all packages of all modules, whatever their build tags.
func packages(t *testing.T) []*pkg {
	t.Helper()
	var list []*pkg
	for s := range sources(t, parser.ImportsOnly|parser.ParseComments) {
		dir := path.Dir(s.name)
		i := slices.IndexFunc(list, func(p *pkg) bool { return p.name == dir })
		if i < 0 {
			i, list = len(list), append(list, &pkg{name: dir})
		}
		list[i].add(s)
	}
	return list
}
