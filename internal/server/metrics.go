// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/registry"
)

// Metrics are the counters of a server. One set belongs to one process.
type Metrics struct {
	all       *prometheus.Registry
	protocols *registry.Metrics

	requests    *prometheus.CounterVec   // route, method, code
	seconds     *prometheus.HistogramVec // route
	ociRequests *prometheus.CounterVec   // registry, operation, code
	ociSeconds  *prometheus.HistogramVec // registry, operation
	origins     *prometheus.CounterVec   // rule, code
	auth        *prometheus.CounterVec   // mode, decision
	rulesErrors prometheus.Counter
	collection  collectionMetrics

	rules rulesState
}

// NewMetrics returns metrics at zero.
func NewMetrics() *Metrics {
	all := prometheus.NewRegistry()
	auto := promauto.With(all)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		buckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
		return auto.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	return &Metrics{
		all: all, protocols: registry.NewMetrics(all),
		requests:    counter("okara_http_requests_total", "Requests by route.", "route", "method", "code"),
		seconds:     histogram("okara_http_request_seconds", "Time until a request was answered.", "route"),
		ociRequests: counter("okara_oci_requests_total", "Requests to the registry.", "registry", "operation", "code"),
		ociSeconds:  histogram("okara_oci_request_seconds", "Time until the registry sent its header.", "registry", "operation"),
		origins:     counter("okara_origin_requests_total", "Requests to the origins of providers, by pull-through rule.", "rule", "code"),
		rulesErrors: auto.NewCounter(prometheus.CounterOpts{Name: "okara_rules_errors_total", Help: "Number of times that the rules file could not be read."}),
		auth:        counter("okara_auth_total", "Decisions about requests.", "mode", "decision"),
	}
}

// Handler serves the metrics in the text format of Prometheus.
func (m *Metrics) Handler() http.Handler {
	h := promhttp.HandlerFor(m.all, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(service.NoSniff, "nosniff")
		h.ServeHTTP(w, r)
	})
}

// serveMetrics is for administrators only: its labels name modules.
func (f *Front) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	if _, err := f.kit.Guard.Allow(r, rights.Server()); err != nil {
		return err
	}
	f.o.Metrics.Handler().ServeHTTP(w, r)
	return nil
}

// countDecision counts a decision about a request.
func (m *Metrics) countDecision(mode, decision string) { m.auth.WithLabelValues(mode, decision).Inc() }

// countAnswer counts a request by its route's pattern; unknown methods are "other": few series.
func (m *Metrics) countAnswer(r *http.Request, status int, took time.Duration) {
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
	return counting{base, func(r *http.Request, code string, took time.Duration) {
		operation := r.Method + " " + operationOf(r.URL.Path)
		m.ociRequests.WithLabelValues(r.URL.Host, operation, code).Inc()
		m.ociSeconds.WithLabelValues(r.URL.Host, operation).Observe(took.Seconds())
	}}
}

// originTransport counts a pull-through rule's requests, labelled by rule: clients choose hosts.
func (m *Metrics) originTransport(rule string, base http.RoundTripper) http.RoundTripper {
	return counting{base, func(_ *http.Request, code string, _ time.Duration) { m.origins.WithLabelValues(rule, code).Inc() }}
}

type counting struct {
	base  http.RoundTripper
	count func(r *http.Request, code string, took time.Duration)
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := c.base.RoundTrip(r)
	code := "error"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	c.count(r, code, time.Since(start))
	return resp, err
}

// operationOf returns the kind of operation of a distribution API path.
func operationOf(path string) string {
	if !strings.HasPrefix(path, "/v2/") {
		return "other"
	}
	end := len(embedded.RepositoryOf(path)) + len("/v2/")
	kind, _, _ := strings.Cut(strings.TrimPrefix(path[min(end, len(path)):], "/"), "/")
	switch kind {
	case "manifests", "blobs", "tags", "referrers":
		return kind
	}
	return "other"
}

// collectionMetrics are those of an embedded registry. They appear with its first collection.
type collectionMetrics struct {
	once sync.Once
	used prometheus.Gauge
	last prometheus.Gauge
	free prometheus.Counter
}

// recordCollection records how many bytes a garbage collection freed, and are used after it.
func (m *Metrics) recordCollection(freed, used int64) {
	c := &m.collection
	c.once.Do(func() {
		auto := promauto.With(m.all)
		c.used = auto.NewGauge(prometheus.GaugeOpts{Name: "okara_storage_used_bytes", Help: "Blobs and uploads in the built-in registry after its last collection."})
		c.last = auto.NewGauge(prometheus.GaugeOpts{Name: "okara_storage_collected_timestamp_seconds", Help: "Unix time of the last garbage collection that succeeded."})
		c.free = auto.NewCounter(prometheus.CounterOpts{Name: "okara_storage_freed_bytes_total", Help: "Bytes that garbage collections freed."})
	})
	c.used.Set(float64(used))
	c.last.SetToCurrentTime()
	c.free.Add(float64(freed))
}

// addRunning adds the metrics of a server's process, version, and disk of the storage folder.
func (m *Metrics) addRunning(version, folder string) {
	m.all.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(), newDisk(folder))
	promauto.With(m.all).NewGaugeVec(prometheus.GaugeOpts{
		Name: "okara_build_info", Help: "Always 1; the labels contain the versions.",
	}, []string{"version", "go"}).WithLabelValues(version, runtime.Version()).Set(1)
}

// disk measures the disk of a folder at each collection. If it cannot, there is no metric.
type disk struct {
	folder     string
	size, free *prometheus.Desc
}

func newDisk(folder string) disk {
	return disk{
		folder: folder,
		size:   prometheus.NewDesc("okara_disk_size_bytes", "Size of the disk of the storage folder.", nil, nil),
		free:   prometheus.NewDesc("okara_disk_free_bytes", "Bytes that okara can still write there.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (d disk) Describe(to chan<- *prometheus.Desc) {
	to <- d.size
	to <- d.free
}

// Collect implements [prometheus.Collector].
func (d disk) Collect(to chan<- prometheus.Metric) {
	size, free, ok := embedded.Space(d.folder)
	if !ok {
		return
	}
	to <- prometheus.MustNewConstMetric(d.size, prometheus.GaugeValue, float64(size))
	to <- prometheus.MustNewConstMetric(d.free, prometheus.GaugeValue, float64(free))
}

// depotMetrics are the metrics of depot runs in this process.
type depotMetrics struct {
	last     *prometheus.GaugeVec // result
	failures prometheus.Counter
}

func (m *Metrics) depots() depotMetrics {
	auto := promauto.With(m.all)
	return depotMetrics{
		last: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "okara_depot_last_run_timestamp_seconds", Help: "Unix time at which the last run of the depot file ended, by result: succeeded, failed.",
		}, []string{"result"}),
		failures: auto.NewCounter(prometheus.CounterOpts{
			Name: "okara_depot_failures_total", Help: "Versions that the depot could not publish, and runs that failed as a whole.",
		}),
	}
}

// countRun counts a run that ended, and its failed versions; err means that it failed as a whole.
func (m depotMetrics) countRun(err error, failed int) {
	result := "succeeded"
	if err != nil {
		failed++
	}
	if failed > 0 {
		result = "failed"
	}
	m.last.WithLabelValues(result).Set(float64(time.Now().Unix()))
	m.failures.Add(float64(failed))
}

// samples are the current metrics by name.
type samples map[string][]*dto.Metric

// gatherSamples returns the current metrics without those that cannot be measured.
func (m *Metrics) gatherSamples() samples {
	families, _ := m.all.Gather() // an error of one collector does not hide the others
	all := make(samples, len(families))
	for _, f := range families {
		all[f.GetName()] = f.GetMetric()
	}
	return all
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// valueOf returns the value of a counter or a gauge.
func valueOf(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }

// boundOf95 returns the bound in seconds that 95 % keep; false if they exceed every bound.
func boundOf95(h *dto.Histogram) (float64, bool) {
	i := slices.IndexFunc(h.GetBucket(), func(b *dto.Bucket) bool { return float64(b.GetCumulativeCount()) >= .95*float64(h.GetSampleCount()) })
	if i < 0 || h.GetSampleCount() == 0 {
		return 0, false
	}
	return h.GetBucket()[i].GetUpperBound(), true
}

// sumSamples adds up the samples whose label has the value, or all samples if label is "".
func sumSamples(all []*dto.Metric, label, value string) (n int) {
	for _, s := range all {
		if label == "" || labelOf(s, label) == value {
			n += int(valueOf(s))
		}
	}
	return n
}
