// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/metricstest"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestMetricsPage compares the metrics and their labels with the page that lists them.
func TestMetricsPage(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/reference/serve-reference.md"))(t)
	var want, got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(okara_[a-z_]+)(?:\\{([a-z,]+)\\})?` \\|").FindAllStringSubmatch(string(page), -1) {
		want = append(want, m[1]+"{"+m[2]+"}")
	}
	all := make(chan *prometheus.Desc)
	m := NewMetrics()
	m.addRunning("v1", t.TempDir())
	m.depots()
	m.newAuditCounter()
	m.all.MustRegister(newUsesCollector(nil))
	m.recordCollection(0, 0) // the metrics of the embedded registry appear with its first collection
	go func() { m.all.Describe(all); close(all) }()
	for d := range all {
		m := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(d.String())
		if strings.HasPrefix(m[1], "okara_") { // the page lists metrics of the library only as a whole
			got = append(got, m[1]+"{"+m[2]+"}")
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-page +code):\n%s", diff)
	}
}

// TestQueries compares alerts and dashboard with the metrics of a server.
func TestQueries(t *testing.T) {
	m := NewMetrics()
	m.addRunning("v1", t.TempDir())
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	all := metricstest.Series{"up": {"job", "instance"}}
	all.Scraped(w.Body.String())
	all.Documented(t, "../../docs/reference/serve-reference.md")
	page := must.Get(os.ReadFile("../../docs/operate/monitor.md"))(t)
	rules := must.Get(os.ReadFile("../../deploy/prometheus/rules.yaml"))(t)
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(string(page), "\n| `"+alert[1]+"`") {
			t.Errorf("docs/operate/monitor.md does not say what to do about %s", alert[1])
		}
	}
	alerts, panels := metricstest.Queries(t, "../../deploy/prometheus/rules.yaml"), metricstest.Queries(t, "../../deploy/grafana/okara-serve.json")
	for _, query := range slices.Concat(alerts, panels) {
		all.Check(t, query)
	}
	if len(alerts) < 10 || len(panels) < 10 {
		t.Errorf("%d alerts and %d panels", len(alerts), len(panels))
	}
}

// TestRunningMetrics checks the metrics of a running server.
func TestRunningMetrics(t *testing.T) {
	m := NewMetrics()
	m.addRunning("v1.2.3", t.TempDir())
	d := m.depots()
	d.countRun(nil, 0)
	d.countRun(nil, 2)
	d.countRun(errors.New("no registry"), 0)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		`okara_build_info{go="` + runtime.Version() + `",version="v1.2.3"} 1`, "okara_depot_failures_total 3", "go_goroutines ",
		`okara_depot_last_run_timestamp_seconds{result="succeeded"} `, `okara_depot_last_run_timestamp_seconds{result="failed"} `,
	} {
		if !strings.Contains(w.Body.String(), "\n"+line) {
			t.Errorf("no %s in\n%s", line, w.Body)
		}
	}
	if _, free, ok := embedded.Space(t.TempDir()); ok && (free <= 0 || !strings.Contains(w.Body.String(), "\nokara_disk_free_bytes ")) {
		t.Errorf("%v bytes are free: %s", free, w.Body)
	}
}
