// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/service"
)

// Metrics are the counters of a front-end. New makes one set, which belongs to
// one process.
type Metrics struct {
	registry *prometheus.Registry

	requests    *prometheus.CounterVec   // route, method, code
	seconds     *prometheus.HistogramVec // route
	ociRequests *prometheus.CounterVec   // registry, operation, code
	ociSeconds  *prometheus.HistogramVec // registry, operation
	cache       *prometheus.CounterVec   // kind, result
	coalesced   prometheus.Counter
	bytes       *prometheus.CounterVec // mode
	streams     prometheus.Gauge
	origins     *prometheus.CounterVec // rule, code
	downloads   *prometheus.CounterVec // kind, address, version
	auth        *prometheus.CounterVec // mode, decision
	publish     *prometheus.CounterVec // kind, result
	verdicts    *prometheus.CounterVec // kind, result
	jobs        *prometheus.GaugeVec   // state
	keyExpiry   *prometheus.GaugeVec   // address, key
	tagMoved    prometheus.Counter
	mismatch    prometheus.Counter
	collection  collectionMetrics
}

// NewMetrics returns metrics at zero.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		buckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	m.requests = counter("okara_http_requests_total", "Requests by route.", "route", "method", "code")
	m.seconds = histogram("okara_http_request_seconds", "Time until a request was answered.", "route")
	m.ociRequests = counter("okara_oci_requests_total", "Requests to the registry.", "registry", "operation", "code")
	m.ociSeconds = histogram("okara_oci_request_seconds", "Time until the registry sent its header.", "registry", "operation")
	m.cache = counter("okara_cache_total", "Look-ups by kind of value and result: hit, miss, stale, coalesced.", "kind", "result")
	m.coalesced = counter("okara_coalesced_total", "Look-ups that shared the fetch of another one.").WithLabelValues()
	m.bytes = counter("okara_archive_bytes_total", "Bytes of archives sent, by mode: stream, file for those kept on this machine, redirect for those sent elsewhere.", "mode")
	m.streams = prometheus.NewGauge(prometheus.GaugeOpts{Name: "okara_archive_streams", Help: "Downloads that run now."})
	m.origins = counter("okara_origin_requests_total", "Requests to the origins of providers, by pull-through rule.", "rule", "code")
	m.downloads = counter("okara_downloads_total", "Archives delivered from their first byte on.", "kind", "address", "version")
	m.auth = counter("okara_auth_total", "Decisions about requests.", "mode", "decision")
	m.publish = counter("okara_publish_total", "Publications over HTTP.", "kind", "result")
	m.verdicts = counter("okara_policy_checks_total", "Checks of versions against the policy of this server.", "kind", "result")
	m.jobs = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "okara_queue_jobs", Help: "Jobs of the queue: waiting and running now, done, failed and parked in this process since its start.",
	}, []string{"state"})
	m.keyExpiry = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "okara_key_expiry_seconds", Help: "Unix time at which a served signing key expires.",
	}, []string{"address", "key"})
	m.tagMoved = counter("okara_tag_moved_total", "Version tags of providers found on other content.").WithLabelValues()
	m.mismatch = counter("okara_digest_mismatch_total", "Answers of the registry with other bytes than their digest.").WithLabelValues()
	m.queued(jobs.Counts{})
	m.registry.MustRegister(m.streams, m.keyExpiry, m.jobs)
	return m
}

// Handler serves the metrics in the text format of Prometheus.
func (m *Metrics) Handler() http.Handler {
	h := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(service.NoSniff, "nosniff")
		h.ServeHTTP(w, r)
	})
}

// looked counts a look-up of a cache.
func (m *Metrics) looked(kind, result string) {
	m.cache.WithLabelValues(kind, result).Inc()
	if result == "coalesced" {
		m.coalesced.Inc()
	}
}

// watch makes the counters of a catalog.
func (m *Metrics) watch() catalog.Watch {
	return catalog.Watch{
		Looked:  m.looked,
		Checked: func(kind, result string) { m.verdicts.WithLabelValues(kind, result).Inc() },
		Moved:   m.tagMoved.Inc,
		Key: func(repository, keyID string, expires time.Time) {
			m.keyExpiry.WithLabelValues(repository, keyID).Set(float64(expires.Unix()))
		},
	}
}

// queued shows the jobs of the queue.
func (m *Metrics) queued(c jobs.Counts) {
	for state, n := range map[string]int{"waiting": c.Waiting, "running": c.Running, "done": c.Done, "failed": c.Failed, "parked": c.Parked} {
		m.jobs.WithLabelValues(state).Set(float64(n))
	}
}

// answered counts a request. The route is its pattern, never its path, and the
// method one that is known, so that the number of series stays small.
func (m *Metrics) answered(r *http.Request, status int, took time.Duration) {
	method := r.Method
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete, "LOCK", "UNLOCK":
	default:
		method = "other"
	}
	route := r.Pattern
	if _, path, ok := strings.Cut(route, " "); ok {
		route = path
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// Transport counts the requests to the registry that pass through it.
func (m *Metrics) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return counting{m, base}
}

type counting struct {
	m    *Metrics
	base http.RoundTripper
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := c.base.RoundTrip(r)
	code := "error"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	operation := r.Method + " " + operationOf(r.URL.Path)
	c.m.ociRequests.WithLabelValues(r.URL.Host, operation, code).Inc()
	c.m.ociSeconds.WithLabelValues(r.URL.Host, operation).Observe(time.Since(start).Seconds())
	return resp, err
}

// OriginTransport counts the requests to the origins of one pull-through rule.
// Hosts and paths are the clients' to choose, the rule is not.
func (m *Metrics) OriginTransport(rule string, base http.RoundTripper) http.RoundTripper {
	return countingOrigin{m, rule, base}
}

type countingOrigin struct {
	m    *Metrics
	rule string
	base http.RoundTripper
}

func (c countingOrigin) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.base.RoundTrip(r)
	code := "error"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	c.m.origins.WithLabelValues(c.rule, code).Inc()
	return resp, err
}

// operationOf is the kind of a distribution API path.
func operationOf(path string) string {
	if !strings.HasPrefix(path, "/v2/") {
		return "other"
	}
	end := len(repositoryOf(path)) + len("/v2/")
	kind, _, _ := strings.Cut(strings.TrimPrefix(path[min(end, len(path)):], "/"), "/")
	switch kind {
	case "manifests", "blobs", "tags", "referrers":
		return kind
	}
	return "other"
}
