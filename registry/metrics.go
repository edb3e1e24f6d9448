// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/jobs"
)

// Metrics are the counters of the protocols. Each process has one set.
type Metrics struct {
	cache     *prometheus.CounterVec // kind, result
	coalesced prometheus.Counter
	bytes     *prometheus.CounterVec // mode
	streams   prometheus.Gauge
	downloads *prometheus.CounterVec // kind, address, version
	publish   *prometheus.CounterVec // kind, result
	verdicts  *prometheus.CounterVec // kind, result
	jobs      *prometheus.GaugeVec   // state
	keyExpiry *prometheus.GaugeVec   // address, key
	tagMoved  prometheus.Counter
	mismatch  prometheus.Counter
	failure   atomic.Pointer[jobs.Failure] // never nil
}

// NewMetrics returns metrics at zero and registers them unless to is nil.
func NewMetrics(to prometheus.Registerer) *Metrics {
	auto := promauto.With(to)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		cache:     counter("okara_cache_total", "Look-ups by kind of value and result: hit, miss, stale, coalesced.", "kind", "result"),
		coalesced: counter("okara_coalesced_total", "Lookups that shared the fetch of another one.").WithLabelValues(),
		bytes:     counter("okara_archive_bytes_total", "Bytes of archives sent, by mode: stream, file for those kept on this machine, redirect for those sent elsewhere.", "mode"),
		streams:   auto.NewGauge(prometheus.GaugeOpts{Name: "okara_archive_streams", Help: "Downloads in progress."}),
		downloads: counter("okara_downloads_total", "Archives delivered from the first byte.", "kind", "address", "version"),
		publish:   counter("okara_publish_total", "Publications over HTTP.", "kind", "result"),
		verdicts:  counter("okara_policy_checks_total", "Checks of versions against the policy of this server.", "kind", "result"),
		jobs: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "okara_queue_jobs", Help: "Jobs of the queue: waiting and running now, done, failed and parked in this process since its start.",
		}, []string{"state"}),
		keyExpiry: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "okara_key_expiry_seconds", Help: "Unix time at which a served signing key expires.",
		}, []string{"address", "key"}),
		tagMoved: counter("okara_tag_moved_total", "Provider version tags that were found moved.").WithLabelValues(),
		mismatch: counter("okara_digest_mismatch_total", "Responses of the registry that did not match their digest.").WithLabelValues(),
	}
	m.setQueueGauges(jobs.Counts{})
	return m
}

func (m *Metrics) countLookup(kind, result string) {
	m.cache.WithLabelValues(kind, result).Inc()
	if result == "coalesced" {
		m.coalesced.Inc()
	}
}

func (m *Metrics) watch() catalog.Watch {
	return catalog.Watch{
		Looked:  m.countLookup,
		Checked: func(kind, result string) { m.verdicts.WithLabelValues(kind, result).Inc() },
		Moved:   m.tagMoved.Inc,
		Key: func(repository, keyID string, expires time.Time) {
			m.keyExpiry.WithLabelValues(repository, keyID).Set(float64(expires.Unix()))
		},
	}
}

func (m *Metrics) setQueueGauges(c jobs.Counts) {
	for state, n := range map[string]int{"waiting": c.Waiting, "running": c.Running, "done": c.Done, "failed": c.Failed, "parked": c.Parked} {
		m.jobs.WithLabelValues(state).Set(float64(n))
	}
	m.failure.Store(&c.Last)
}

// LastFailure returns when the last failed job that the queue remembers ended, and why; or zero.
func (m *Metrics) LastFailure() (at time.Time, why string) {
	f := m.failure.Load()
	return f.Time, f.Result
}
