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

// TestDocs passes the objects on the documentation pages to the API server, and the
// values to the chart.
//
// Shows: operator 17 | every object of the chart passes strict validation, and its pods those of a
// restricted namespace; wrong values are refused; the programs accept its flags and files, and the
// cluster accepts what the pages show
func TestDocs(t *testing.T) {
	config := cluster.Admin(t)
	rig.Install(t, config)
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
			list := must.Get(chart.Parse(text))(t)
			for _, o := range list {
				if !strings.HasPrefix(o.GetAPIVersion(), "okara.dev/") {
					continue // such as a generated kind
				}
				objects++
				if o.GetKind() != "ModuleKind" {
					o.SetNamespace(cluster.Namespace(t, nil).Name)
				}
				if err := chart.Create(t.Context(), config, []*unstructured.Unstructured{o}); err != nil {
					t.Errorf("%s: %v", filepath.Base(page), err)
				}
			}
		}
	}
	if objects < 3 || values == 0 {
		t.Errorf("%d objects and %d values are shown", objects, values)
	}
}
