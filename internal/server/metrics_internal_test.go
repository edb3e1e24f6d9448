// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// TestMetricsPage compares the metrics and their labels with the page that
// lists them.
func TestMetricsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/serve-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(okara_[a-z_]+)(?:\\{([a-z,]+)\\})?` \\|").FindAllStringSubmatch(string(page), -1) {
		want = append(want, m[1]+"{"+m[2]+"}")
	}
	all := make(chan *prometheus.Desc)
	m := NewMetrics()
	m.collected(0, 0) // the metrics of the embedded registry appear with its first collection
	go func() { m.all.Describe(all); close(all) }()
	for d := range all {
		m := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(d.String())
		got = append(got, m[1]+"{"+m[2]+"}")
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-page +code):\n%s", diff)
	}
}
