// SPDX-License-Identifier: Apache-2.0

package template_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/template"
)

// onCluster holds the executors of an operator.
var onCluster = template.Known{Executors: []string{"flux-terraform", template.ExecutorHelm}}

const webChart = `"chart":{"oci":{"url":"oci://r.example.com/web","version":"1.x"}}`

func chartTemplate(more string) string {
	return `{"template":{"lab/web":{"executor":"flux-helm",` + more + `}}}`
}

// TestChart parses the template of a chart, whose chart object is kept unchanged, and
// encodes it again.
func TestChart(t *testing.T) {
	first, err := template.ParseCanonical([]byte(chartTemplate(webChart+`,"drift":{"every":"1h","remediate":true},"credentials":["web"]`)), onCluster)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(first.Chart); got != `{"oci":{"url":"oci://r.example.com/web","version":"1.x"}}` || first.Module != (template.ModuleRef{}) {
		t.Errorf("chart %s, module %+v", got, first.Module)
	}
	b, err := first.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	second, err := template.ParseCanonical(b, onCluster)
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
}

// TestChartRefuses refuses what only modules have.
func TestChartRefuses(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`"title":"x"`, "installs a chart: name that"},
		{webChart + `,"module":{"address":"a/b/c"}`, "installs a chart: name that, and no module"},
		{`"chart":"oci://r.example.com/web"`, "chart is an object"},
		{webChart + `,"outputs":["url"]`, "outputs: a chart has none"},
		{webChart + `,"approval":"plan"`, "approval: a chart has no plan"},
		{webChart + `,"update":"auto"`, "update: a chart has no plan"},
	} {
		if _, err := template.ParseCanonical([]byte(chartTemplate(c.body)), onCluster); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.body, err)
		}
	}
	here := `{"template":{"lab/web":{"executor":"flux-terraform",` + webChart + `}}}`
	if _, err := template.ParseCanonical([]byte(here), onCluster); err == nil || !strings.Contains(err.Error(), "executor flux-terraform runs a module") {
		t.Error(err)
	}
}

// TestChartValues sets a parameter only where inputs refer to it.
func TestChartValues(t *testing.T) {
	tmpl, err := template.ParseCanonical([]byte(chartTemplate(webChart+`,
		"inputs":{"service":{"type":"${parameters.type}","host":"${id}.${config.domain}"}},
		"parameter":[{"type":{}},{"replicas":{"default":1}}]`)), onCluster)
	if err != nil {
		t.Fatal(err)
	}
	s := scope("x")
	s.Parameters = map[string]json.RawMessage{"type": []byte(`"NodePort"`), "replicas": []byte(`2`)}
	got, err := template.Render(tmpl, s)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"replicas":2,"service":{"host":"k7m2p9x4tq.example.com","type":"NodePort"}}`
	if b, err := json.Marshal(got); err != nil || string(b) != want {
		t.Errorf("values %s, %v, want %s", b, err, want)
	}
}
