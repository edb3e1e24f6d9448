// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/chart"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// yamlBlock matches a YAML block of a page: the rest of its info string, and its text.
var yamlBlock = regexp.MustCompile("(?ms)^```yaml ?([^\n]*)\n(.*?)^```")

// TestDocs passes the objects on the documentation pages and of the examples to the API server,
// and the values to the chart.
//
// Shows: operator 17 | every object of the chart passes strict validation, and its pods those of a
// restricted namespace; wrong values are refused; the programs accept its flags and files, and the
// cluster accepts what the pages show
func TestDocs(t *testing.T) {
	config := cluster.Admin(t)
	rig.Install(t, config)
	rig.InstallFlux(t, config)
	pages := must.Get(filepath.Glob(filepath.Join(rig.Root(), "docs", "kubernetes", "kubernetes*.md")))(t)
	objects, values := 0, 0
	for _, page := range pages {
		src := must.Get(os.ReadFile(page))(t)
		for _, block := range yamlBlock.FindAllStringSubmatch(string(src), -1) {
			text := block[2]
			if block[1] == "example" {
				continue // only a part of an object
			}
			if block[1] == "values.yaml" {
				values++
				o := chart.Options{Dir: chartDir(), Namespace: system}
				must.Succeed(t, yaml.UnmarshalStrict([]byte(text), &o.Values))
				texts, err := chart.Render(o)
				if err != nil {
					t.Errorf("%s: %v", filepath.Base(page), err)
				}
				if made := fmt.Sprint(texts); filepath.Base(page) == "kubernetes-scan.md" {
					for _, want := range []string{"--scanner=trivy", "/usr/local/bin/trivy", "/scanner:/usr/local/bin", "claimName", "/database"} {
						if !strings.Contains(made, want) {
							t.Errorf("the operator's pod has no %s", want)
						}
					}
				}
				continue
			}
			objects += createAll(t, page, text)
		}
	}
	for _, file := range []string{"flux/objects.yaml", "kinds/networks.yaml", "kinds/queues.yaml"} {
		text := must.Get(os.ReadFile(filepath.Join(rig.Root(), "examples", file)))(t)
		if createAll(t, file, string(text)) == 0 {
			t.Errorf("%s has no object", file)
		}
	}
	if objects < 3 || values == 0 {
		t.Errorf("%d objects and %d values are shown", objects, values)
	}
}

// createAll creates the objects of okara and Flux in a text, and returns their number.
func createAll(t *testing.T, from, text string) (n int) {
	t.Helper()
	for _, o := range must.Get(chart.Parse(text))(t) {
		if group, _, _ := strings.Cut(o.GetAPIVersion(), "/"); group != "okara.dev" && !strings.HasSuffix(group, ".fluxcd.io") {
			continue // such as a generated kind
		}
		n++
		if o.GetKind() != "ModuleKind" {
			o.SetNamespace(cluster.Namespace(t, nil).Name)
		}
		if err := chart.Create(t.Context(), cluster.Admin(t), []*unstructured.Unstructured{o}); err != nil {
			t.Errorf("%s: %v", filepath.Base(from), err)
		}
	}
	return n
}
