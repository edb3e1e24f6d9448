// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// series are the labels of metrics, by name.
type series map[string][]string

var (
	sample   = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? [0-9.e+-]+$`)
	label    = regexp.MustCompile(`([a-z_]+)="`)
	row      = regexp.MustCompile("(?m)^\\| `([a-z_]+)(?:\\{([a-z,]+)\\})?`")
	selector = regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)\s*"[^"]*"`)
	grouping = regexp.MustCompile(`\bby \(([a-z_, ]*)\)`)
	word     = regexp.MustCompile(`[a-z_]{3,}`)
)

// scraped adds what a page of metrics shows.
func (s series) scraped(page string) {
	for _, m := range sample.FindAllStringSubmatch(page, -1) {
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			s[m[1]] = append(s[m[1]], l[1])
		}
		s[m[1]] = append(s[m[1]], "job", "pod", "namespace")
	}
}

// documented adds the metrics of okara serve: a test of internal/server holds the table
// against what it scrapes.
func (s series) documented(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(rig.Root(), "docs", "serve-reference.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		labels := append(strings.Split(m[2], ","), "le", "job", "pod", "namespace")
		s[m[1]], s[m[1]+"_bucket"] = labels, labels
	}
}

// check wants a query to name metrics that there are, with labels that these have.
func (s series) check(t *testing.T, query string) {
	t.Helper()
	var labels, names []string
	for _, m := range selector.FindAllStringSubmatch(query, -1) {
		labels = append(labels, m[1])
	}
	for _, m := range grouping.FindAllStringSubmatch(query, -1) {
		labels = append(labels, word.FindAllString(m[1], -1)...)
	}
	rest := regexp.MustCompile(`\{[^}]*\}|\[[^]]*\]`).ReplaceAllString(grouping.ReplaceAllString(query, ""), "")
	for _, name := range word.FindAllString(rest, -1) {
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

// TestQueries holds each query of the alerts and the dashboard against what an operator
// shows that has something to tell.
func TestQueries(t *testing.T) {
	config := cluster.Admin(t)
	install(t, config)
	s := site{config: writeConfig(t, config), registry: ocitest.New(t, ocitest.Quirks{}), origin: "127.0.0.1:1"}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace(t, nil).Name, Name: "vpc"}}
	m.Spec.Address, m.Spec.Source = "net/vpc/aws", "oci://127.0.0.1:1/none" // not an address that its namespace may use
	if err := c.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r := s.start(t)
	page := ""
	until(t, func() bool {
		page = r.get(t, "http://"+r.metrics+"/metrics")
		return strings.Contains(page, `okara_operator_objects{kind="Module",ready="false",reason="AddressNotAllowed"}`) &&
			strings.Contains(page, `okara_operator_warnings_total{kind="Module",reason="AddressNotAllowed"}`)
	})
	all := series{}
	all.scraped(page)
	if _, err := newSweeper(nil, nil, slog.New(slog.NewTextHandler(io.Discard, nil))); err != nil {
		t.Fatal(err)
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if all[f.GetName()] == nil {
			all[f.GetName()] = []string{}
		}
	}
	all.documented(t)

	files := filepath.Join(rig.Root(), "charts", "okara", "files")
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	var alerts struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	src, err := os.ReadFile(filepath.Join(files, "dashboard.json"))
	if err == nil {
		err = json.Unmarshal(src, &dashboard)
	}
	if err != nil {
		t.Fatal(err)
	}
	if src, err = os.ReadFile(filepath.Join(files, "alerts.yaml")); err == nil {
		err = yaml.Unmarshal(src, &alerts)
	}
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all.check(t, target.Expr)
			n++
		}
	}
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			all.check(t, rule.Expr)
			n++
		}
	}
	if n < 20 {
		t.Errorf("%d queries", n)
	}
}
