// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/registry"
)

// of returns samples with one label; values are label values and numbers in turn.
func of(label string, values ...any) (all []*dto.Metric) {
	for i := 0; i < len(values); i += 2 {
		all = append(all, &dto.Metric{Label: []*dto.LabelPair{{Name: &label, Value: new(values[i].(string))}}, Gauge: &dto.Gauge{Value: new(values[i+1].(float64))}})
	}
	return all
}

// TestFindings checks each finding at its bounds.
func TestFindings(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	days := func(n int) float64 { return float64(now.AddDate(0, 0, n).Unix()) }
	on := func(f func(samples) []web.Finding, name string, s []*dto.Metric) func(*testing.T) []web.Finding {
		return func(t *testing.T) []web.Finding {
			if !slices.Contains(metricNames(t), name) {
				t.Errorf("nobody measures %s", name)
			}
			return f(samples{name: s})
		}
	}
	ends := func(m samples) []web.Finding { return endFindings(m, time.Time{}, now) }
	fixed := func(f ...web.Finding) func(*testing.T) []web.Finding {
		return func(*testing.T) []web.Finding { return f }
	}
	for name, c := range map[string]struct {
		got  func(*testing.T) []web.Finding
		want string // verdict and part of the state of each finding
	}{
		"idle queue":       {on(queueFindings, "okara_queue_jobs", of("state", "waiting", 2.)), "0 2 waiting, 0 running"},
		"failed job":       {on(queueFindings, "okara_queue_jobs", of("state", "failed", 1.)), "1 1 failed"},
		"parked job":       {on(queueFindings, "okara_queue_jobs", of("state", "failed", 1., "parked", 1.)), "2 1 parked"},
		"no run":           {on(depotFindings, "okara_depot_last_run_timestamp_seconds", nil), ""},
		"good run":         {on(depotFindings, "okara_depot_last_run_timestamp_seconds", of("result", "failed", days(-2), "succeeded", days(-1))), "0 2026-11-21 12:00 UTC"},
		"bad run":          {on(depotFindings, "okara_depot_last_run_timestamp_seconds", of("result", "failed", days(-1))), "2 never since the start"},
		"key far off":      {on(ends, "okara_key_expiry_seconds", of("key", "A", days(60))), "0 1 with an expiry date"},
		"key soon":         {on(ends, "okara_key_expiry_seconds", of("key", "A", days(59), "B", days(0), "C", days(90))), "1 expires on 2027-01-20;2 expired on 2026-11-22"},
		"no key":           {on(ends, "okara_key_expiry_seconds", nil), ""},
		"certificate":      {fixed(endFindings(nil, now.AddDate(0, 0, 90), now)...), "0 expires on 2027-02-20"},
		"certificate soon": {fixed(endFindings(nil, now.AddDate(0, 0, 1), now)...), "1 expires on 2026-11-23"},
		"passed":           {on(contentFindings, "okara_policy_checks_total", of("result", "passed", 3.)), "0 0 of 3"},
		"refused":          {on(contentFindings, "okara_policy_checks_total", of("result", "passed", 3., "refused", 1.)), "1 1 of 4"},
		"no tag moved":     {on(contentFindings, "okara_tag_moved_total", of("", "", 0.)), ""},
		"tag moved":        {on(contentFindings, "okara_tag_moved_total", of("", "", 2.)), "2 2 were moved"},
		"wrong bytes":      {on(contentFindings, "okara_digest_mismatch_total", of("", "", 1.)), "2 1 responses"},
		"audit dropped":    {on(contentFindings, "okara_audit_dropped_total", of("", "", 3.)), "1 3 changes"},
		"cache":            {on(cacheFindings, "okara_cache_total", of("result", "hit", 2., "stale", 1., "miss", 1.)), "0 75 of 100"},
		"files":            {on(cacheFindings, "okara_cache_total", of("kind", "file", 4.)), "0 100 of 100"},
		"origin":           {on(originFindings, "okara_origin_requests_total", of("code", "200", 91., "error", 9.)), "0 9 of 100"},
		"origin down":      {on(originFindings, "okara_origin_requests_total", of("code", "404", 9., "503", 1.)), "1 1 of 10"},
		"shared host":      {fixed(sharedFinding("/okara")), "1 base_path is /okara"},
		"room":             {fixed(diskFinding("x", 100, 10)), "0 10 B of 100 B"},
		"little room":      {fixed(diskFinding("x", 100, 9)), "1 9 B"},
		"no room":          {fixed(diskFinding("x", 100, 1)), "2 1 B"},
		"replicas": {fixed(replicaFindings(auditlog.View{Read: now, Entries: []*auditlog.Entry{
			{Process: "a", Record: auditlog.Record{Time: now}}, {Process: "b", Record: auditlog.Record{Time: now.Add(-12 * time.Hour)}},
			{Process: "a", Record: auditlog.Record{Time: now}}, {Process: "c", Record: auditlog.Record{Time: now.AddDate(0, 0, -1)}},
		}}, now)...), "0 2 changed something today"},
		"no replica":      {fixed(replicaFindings(auditlog.View{Read: now}, now)...), "0 0 changed something"},
		"replicas unread": {fixed(replicaFindings(auditlog.View{}, now)...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.got(t)
			var want []string
			if c.want != "" {
				want = strings.Split(c.want, ";")
			}
			if len(got) != len(want) {
				t.Fatalf("findings %+v, want %q", got, want)
			}
			for i, f := range got {
				verdict, state, _ := strings.Cut(want[i], " ")
				if int(f.Verdict) != int(verdict[0]-'0') || !strings.Contains(f.State, state) || f.About == "" || f.Meaning == "" || f.Verdict != web.Fine && f.Do == "" {
					t.Errorf("finding %+v, want %s", f, want[i])
				}
			}
		})
	}
}

// metricNames returns the names of a server's metrics.
func metricNames(t *testing.T) (names []string) {
	t.Helper()
	m := NewMetrics()
	m.addRunning("v1", t.TempDir())
	m.depots()
	m.newAuditCounter()
	all := make(chan *prometheus.Desc)
	go func() { m.all.Describe(all); close(all) }()
	for d := range all {
		_, name, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		names = append(names, name)
	}
	return names
}

// TestDoctor checks a server that has handled requests.
func TestDoctor(t *testing.T) {
	m := NewMetrics()
	dir := t.TempDir()
	m.addRunning("v1", dir)
	answers := []int{200, 200, 503}
	transport := m.Transport(turns(func() int { code := answers[0]; answers = append(answers[1:], code); return code }))
	for range 6 {
		resp := must.Get(transport.RoundTrip(httptest.NewRequest(http.MethodGet, "http://registry.example.com/v2/acme/x/manifests/1.0.0", nil)))(t)
		resp.Body.Close()
	}
	o := Options{Options: registry.Options{GitHub: []registry.GitHub{{}}, Blobs: cache.BlobOptions{Dir: dir, Bytes: 1}}}
	abouts := func(all []web.Finding) (names []string) {
		for _, f := range all {
			names = append(names, f.About)
		}
		return names
	}
	all := newDoctor(o, m).Findings(t.Context(), time.Now())
	if f := all[0]; f.About != "Registry registry.example.com, GET manifests" || f.Verdict != web.Act || !strings.HasPrefix(f.State, "2 of 6 requests failed; 95 of 100 were answered within ") {
		t.Errorf("the registry is %+v", f)
	}
	want := []string{all[0].About, "Queue"}
	if _, _, ok := embedded.Space(dir); ok {
		want = append(want, "Storage disk", "Archive cache disk")
	}
	if got := abouts(all); !slices.Equal(got, want) {
		t.Errorf("findings of %q, want %q", got, want)
	}
	if got := newDoctor(Options{}, NewMetrics()).Findings(t.Context(), time.Now()); len(got) != 0 {
		t.Errorf("a server that has done nothing is found %+v", got)
	}
}

// turns answers with one status after another.
type turns func() int

func (f turns) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: f(), Body: http.NoBody}, nil
}
