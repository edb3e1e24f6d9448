// SPDX-License-Identifier: Apache-2.0

package metricstest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Series maps the names of metrics to their labels.
type Series map[string][]string

func grouping() *regexp.Regexp { return regexp.MustCompile(`\bby \(([a-z_, ]*)\)`) }
func word() *regexp.Regexp     { return regexp.MustCompile(`[a-z_]{3,}|\bup\b`) }

// Scraped adds the metrics on a scraped page.
func (s Series) Scraped(page string) {
	for _, m := range regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? [0-9.e+-]+$`).FindAllStringSubmatch(page, -1) {
		for _, l := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(m[2], -1) {
			s[m[1]] = append(s[m[1]], l[1])
		}
		s[m[1]] = append(s[m[1]], "job", "pod", "namespace")
	}
}

// Documented adds the metrics in the reference of okara serve. A test of internal/server
// checks that table against the scraped metrics.
func (s Series) Documented(t *testing.T, reference string) {
	t.Helper()
	page, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)(?:\\{([a-z,]+)\\})?`").FindAllStringSubmatch(string(page), -1) {
		labels := append(strings.Split(m[2], ","), "le", "job", "instance", "pod", "namespace")
		s[m[1]] = labels
		s[m[1]+"_bucket"] = labels
	}
}

// Check fails the test unless a query names only existing metrics and labels.
func (s Series) Check(t *testing.T, query string) {
	t.Helper()
	var labels, names []string
	for _, m := range regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)\s*"[^"]*"`).FindAllStringSubmatch(query, -1) {
		labels = append(labels, m[1])
	}
	for _, m := range grouping().FindAllStringSubmatch(query, -1) {
		labels = append(labels, word().FindAllString(m[1], -1)...)
	}
	rest := regexp.MustCompile(`\{[^}]*\}|\[[^]]*\]`).ReplaceAllString(grouping().ReplaceAllString(query, ""), "")
	for _, name := range word().FindAllString(rest, -1) {
		if !slices.Contains([]string{"sum", "max", "rate", "increase", "absent", "vector", "time", "histogram_quantile"}, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Errorf("%s: no metric", query)
	}
	for _, name := range names {
		if s[name] == nil {
			t.Errorf("%s: nobody has %s", query, name)
			continue
		}
		for _, l := range labels {
			if !slices.Contains(s[name], l) {
				t.Errorf("%s: %s has no label %s, but %q", query, name, l, s[name])
			}
		}
	}
}

// Queries returns the queries of a Grafana dashboard (.json) or of Prometheus rules
// (.yaml). Each query must be on one line.
func Queries(t *testing.T, file string) []string {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	if filepath.Ext(file) == ".yaml" {
		for _, m := range regexp.MustCompile(`(?m)^\s*expr: (.+)$`).FindAllStringSubmatch(string(src), -1) {
			all = append(all, m[1])
		}
		return all
	}
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(src, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}
