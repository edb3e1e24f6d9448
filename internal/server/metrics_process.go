// SPDX-License-Identifier: Apache-2.0

package server

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/seed-141914ff/okara/internal/embedded"
)

// running adds what is known of a server that runs: its process, its version, and
// the disk of the folder where it stores.
func (m *Metrics) running(version, folder string) {
	m.all.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(), newDisk(folder))
	promauto.With(m.all).NewGaugeVec(prometheus.GaugeOpts{
		Name: "okara_build_info", Help: "Always 1; what runs is in the labels.",
	}, []string{"version", "go"}).WithLabelValues(version, runtime.Version()).Set(1)
}

// disk measures the disk of a folder when somebody asks. Where it cannot, it says
// nothing.
type disk struct {
	folder     string
	size, free *prometheus.Desc
}

func newDisk(folder string) disk {
	return disk{
		folder: folder,
		size:   prometheus.NewDesc("okara_disk_size_bytes", "Size of the disk of the storage folder.", nil, nil),
		free:   prometheus.NewDesc("okara_disk_free_bytes", "What okara may still write there.", nil, nil),
	}
}

// Describe is that of [prometheus.Collector].
func (d disk) Describe(to chan<- *prometheus.Desc) {
	to <- d.size
	to <- d.free
}

// Collect is that of [prometheus.Collector].
func (d disk) Collect(to chan<- prometheus.Metric) {
	size, free, ok := embedded.Space(d.folder)
	if !ok {
		return
	}
	to <- prometheus.MustNewConstMetric(d.size, prometheus.GaugeValue, float64(size))
	to <- prometheus.MustNewConstMetric(d.free, prometheus.GaugeValue, float64(free))
}

// depotMetrics are of the runs of a depot in this process.
type depotMetrics struct {
	last     *prometheus.GaugeVec // result
	failures prometheus.Counter
}

// depots adds the metrics of a depot.
func (m *Metrics) depots() depotMetrics {
	auto := promauto.With(m.all)
	return depotMetrics{
		last: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "okara_depot_last_run_timestamp_seconds", Help: "Unix time at which the last run of the depot file ended, by result: succeeded, failed.",
		}, []string{"result"}),
		failures: auto.NewCounter(prometheus.CounterOpts{
			Name: "okara_depot_failures_total", Help: "Versions that the depot could not bring in, and runs that failed as a whole.",
		}),
	}
}

// ran counts a run that is over: with an error as a whole, or so many failures.
func (m depotMetrics) ran(err error, failed int) {
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
