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

// garbage is how much may pile up before it is collected, in bytes, while less than
// that is alive. By itself Go collects whenever there is as much garbage as is alive,
// and at least 4 MiB: a server whose caches are empty would do so after every few
// hundred requests. With more alive it is as Go has it.
const garbage = 32 << 20

// maxPercent bounds how many times what is alive the garbage may be.
const maxPercent = 800

// percent is the value of GOGC by which as much garbage piles up with so many bytes
// alive.
func percent(live uint64) int {
	if live == 0 {
		return maxPercent
	}
	return int(min(max(garbage*100/live, 100), maxPercent))
}

// TuneMemory sets how often garbage is collected until ctx ends, and keeps the process
// below nine tenths of what its control group may have. Where GOGC and GOMEMLIMIT are
// set it leaves them alone. It returns what the log says of it.
func TuneMemory(ctx context.Context, getenv func(string) string) []slog.Attr {
	debug.FreeOSMemory() // what the start needed; now what is alive is known
	live := read("/gc/heap/live:bytes")
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
		new(tuner{ctx: ctx}).collected()
		attrs = append(attrs, slog.Int("gc_percent", percent(live)))
	}
	return attrs
}

// read returns what the runtime says of one of its metrics.
func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// groupLimit reads how many bytes a control group may have.
func groupLimit(file string) (int64, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil && n > 0 // "max": there is no limit
}

// tuner sets the percentage anew after each collection.
type tuner struct{ ctx context.Context }

// collected is called when garbage was collected: its own sentinel was garbage too. To
// set a percentage stops the process for a moment, so that only one that is another by
// a quarter is set.
func (t *tuner) collected() {
	if t.ctx.Err() != nil {
		return
	}
	now := percent(read("/gc/heap/live:bytes"))
	before := int(read("/gc/gogc:percent"))
	if 4*max(now-before, before-now) > before {
		debug.SetGCPercent(now)
	}
	runtime.AddCleanup(new([16]byte), (*tuner).collected, t)
}
