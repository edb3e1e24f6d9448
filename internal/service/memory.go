// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// garbage, in bytes, may pile up while less is alive. Go collects at as much as is alive, at least
// 4 MiB: with empty caches after every few hundred requests. Beyond, its default applies.
const garbage = 32 << 20

// maxPercent bounds the value of GOGC: garbage as a percentage of live memory.
const maxPercent = 800

// gcPercent returns GOGC for the constant garbage at these live bytes.
func gcPercent(live uint64) int {
	if live == 0 {
		return maxPercent
	}
	return int(min(max(garbage*100/live, 100), maxPercent))
}

// TuneMemory sets how often garbage is collected until ctx ends, unless GOGC is set, and a limit of
// 90% of the control group's memory, unless GOMEMLIMIT is. It returns attributes for the log.
func TuneMemory(ctx context.Context, getenv func(string) string) []slog.Attr {
	debug.FreeOSMemory() // frees what the start needed, so that the live heap is known
	live := readMetric("/gc/heap/live:bytes")
	attrs := []slog.Attr{slog.Uint64("live_heap", live)}
	if getenv("GOMEMLIMIT") == "" {
		if limit, ok := groupLimit("/sys/fs/cgroup/memory.max"); ok {
			debug.SetMemoryLimit(limit / 10 * 9)
		}
	}
	if limit := debug.SetMemoryLimit(-1); limit < 1<<62 {
		attrs = append(attrs, slog.Int64("memory_limit", limit))
	}
	if getenv("GOGC") == "" {
		new(tuner{ctx: ctx}).afterCollection()
		attrs = append(attrs, slog.Int("gc_percent", gcPercent(live)))
	}
	return attrs
}

// readMetric returns the value of one of the runtime's metrics.
func readMetric(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// groupLimit reads how many bytes a control group may use.
func groupLimit(file string) (int64, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil && n > 0 // "max" means no limit
}

// tuner sets the percentage again after each collection.
type tuner struct{ ctx context.Context }

// afterCollection runs after each collection. Setting a percentage stops the process briefly, so
// only if it differs by a quarter.
func (t *tuner) afterCollection() {
	if t.ctx.Err() != nil {
		return
	}
	now := gcPercent(readMetric("/gc/heap/live:bytes"))
	if before := int(readMetric("/gc/gogc:percent")); 4*max(now-before, before-now) > before {
		debug.SetGCPercent(now)
	}
	runtime.AddCleanup(new([16]byte), (*tuner).afterCollection, t)
}
