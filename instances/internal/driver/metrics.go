// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/seed-141914ff/okara/instances/lifecycle"
)

// Metrics are the metrics of instances. One set belongs to one process. The metrics of
// the document are reported by the leader alone, so that sums over replicas are correct.
type Metrics struct {
	runs    *prometheus.CounterVec   // kind, result
	seconds *prometheus.HistogramVec // kind
	commits prometheus.Histogram
}

// NewMetrics returns registered metrics at zero. view reads the document, from memory.
func NewMetrics(to prometheus.Registerer, view func(context.Context) (lifecycle.View, error)) *Metrics {
	auto := promauto.With(to)
	to.MustRegister(newDocumentMetrics(view))
	return &Metrics{
		runs: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "okara_instance_runs_total", Help: "Attempts that ended, by kind and result.",
		}, []string{"kind", "result"}),
		seconds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name: "okara_instance_run_seconds", Help: "Time from the start of an attempt to its end.",
			Buckets: []float64{1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600},
		}, []string{"kind"}),
		commits: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "okara_ledger_commit_seconds", Help: "Time until a commit of the ledger was confirmed.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
	}
}

// Committed counts a commit of the ledger.
func (m *Metrics) Committed(took time.Duration) { m.commits.Observe(took.Seconds()) }

func (m *Metrics) countAttempt(kind lifecycle.RunKind, outcome string, took time.Duration) {
	if m == nil {
		return
	}
	m.runs.WithLabelValues(string(kind), outcome).Inc()
	m.seconds.WithLabelValues(string(kind)).Observe(max(took, 0).Seconds())
}

// documentMetrics are read from the document when the metrics are collected.
type documentMetrics struct {
	view                                              func(context.Context) (lifecycle.View, error)
	instances, queue, available, paused, leader, late *prometheus.Desc
}

func newDocumentMetrics(view func(context.Context) (lifecycle.View, error)) documentMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return documentMetrics{
		view:      view,
		instances: desc("okara_instances", "Instances by template and phase.", "template", "phase"),
		queue:     desc("okara_instance_queue", "Runs that wait in the queue."),
		available: desc("okara_pool_available", "Members of a pool that can be claimed.", "template"),
		paused:    desc("okara_pool_paused", "1 if no instances are created for the pool of a template.", "template"),
		leader:    desc("okara_leader", "1 if this process is the leader."),
		late:      desc("okara_expiry_lag_seconds", "Time by which the destruction of an expired instance is late, if nothing prevents it."),
	}
}

// Describe implements [prometheus.Collector].
func (m documentMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.instances, m.queue, m.available, m.paused, m.leader, m.late} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m documentMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	v, err := m.view(context.Background())
	if err != nil || !v.Leading {
		gauge(m.leader, 0)
		return
	}
	gauge(m.leader, 1)
	type phaseOf struct {
		template string
		phase    lifecycle.Phase
	}
	instances, available := map[phaseOf]int{}, map[string]int{} // by template; 0 where a pool is empty
	var queue int
	var late time.Duration
	for name, p := range v.Document.Pools {
		paused := 0.0
		if p.Paused != "" {
			paused = 1
		}
		gauge(m.paused, paused, name)
		if p.Revision != "" {
			available[name] = 0
		}
	}
	for _, rec := range v.Document.Records {
		instances[phaseOf{rec.Template, rec.Phase}]++
		if rec.Phase == lifecycle.Available {
			available[rec.Template]++
		}
		if rec.Run != nil && rec.Run.StartedAt.IsZero() {
			queue++
		}
		if isToExpire(rec) && v.Document.Clock.Held == "" {
			late = max(late, v.AsOf.Sub(rec.ExpiresAt))
		}
	}
	for key, n := range instances {
		gauge(m.instances, float64(n), key.template, string(key.phase))
	}
	for template, n := range available {
		gauge(m.available, float64(n), template)
	}
	gauge(m.queue, float64(queue))
	gauge(m.late, late.Seconds())
}

func isToExpire(rec *lifecycle.Record) bool {
	switch rec.Phase {
	case lifecycle.Provisioning, lifecycle.Updating, lifecycle.Planned, lifecycle.Ready, lifecycle.Failed:
		return !rec.ExpiresAt.IsZero() && rec.Protected == ""
	}
	return false
}
