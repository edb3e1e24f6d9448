// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// collectionMetrics are of a registry in this process, and appear with its
// first collection.
type collectionMetrics struct {
	once sync.Once
	used prometheus.Gauge
	last prometheus.Gauge
	free prometheus.Counter
}

// Collected says what a garbage collection of a registry in this process freed
// and what is in use behind it.
func (m *Metrics) Collected(freed, used int64) {
	c := &m.collection
	c.once.Do(func() {
		c.used = prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "okara_storage_used_bytes", Help: "Blobs and uploads in the embedded registry after its last collection.",
		})
		c.last = prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "okara_storage_collected_timestamp_seconds", Help: "Unix time of the last garbage collection that succeeded.",
		})
		c.free = prometheus.NewCounter(prometheus.CounterOpts{
			Name: "okara_storage_freed_bytes_total", Help: "Bytes that garbage collections freed.",
		})
		m.registry.MustRegister(c.used, c.last, c.free)
	})
	c.used.Set(float64(used))
	c.last.SetToCurrentTime()
	c.free.Add(float64(freed))
}
