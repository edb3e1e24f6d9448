// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 800, 1 << 20: 800, 8 << 20: 400, 32 << 20: 100, 1 << 30: 100} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d bytes alive: %d, want %d", live, got, want)
		}
	}
}

func TestGroupLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.max")
	for text, want := range map[string]int64{"max\n": 0, "536870912\n": 512 << 20, "": 0} {
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		if got, ok := groupLimit(file); ok != (want > 0) || ok && got != want {
			t.Errorf("%q: %d, %t", text, got, ok)
		}
	}
	if _, ok := groupLimit(file + ".none"); ok {
		t.Error("a missing file is a limit")
	}
}

// TestTuneMemory sets the percentage for the live memory, and keeps a value of GOGC.
func TestTuneMemory(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	current := func() int {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	attrs := TuneMemory(ctx, func(key string) string { return map[string]string{"GOGC": "100", "GOMEMLIMIT": "off"}[key] })
	if current() != 100 || slog.GroupValue(attrs...).String() == "" {
		t.Errorf("with GOGC=100 it is %d", current())
	}
	none := func(key string) string { return map[string]string{"GOMEMLIMIT": "off"}[key] }
	TuneMemory(ctx, none)
	if current() <= 100 {
		t.Errorf("with little alive it is %d", current())
	}
	alive := make([]byte, 2*garbage)
	for current() != 100 && t.Context().Err() == nil {
		runtime.GC()
		runtime.Gosched() // the cleanup runs in another goroutine
	}
	runtime.KeepAlive(alive)
}
