// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const (
	largeState  = 64 << 20
	memoryBound = 256 << 20
)

// A state of 64 MiB that hardly compresses is written and read, each in a separate
// process, whose peak memory is compared with its usage before.
func TestMemory(t *testing.T) {
	host := serveDir(t, true)
	for _, job := range []string{"put", "get"} {
		peak := memoryOf(t, host, job)
		t.Logf("%s of %d MiB: %d MiB above the baseline", job, largeState>>20, peak>>20)
		if peak > memoryBound {
			t.Errorf("%s used %d bytes, at most %d are allowed", job, peak, memoryBound)
		}
	}
}

// BenchmarkMemory reports what TestMemory bounds.
func BenchmarkMemory(b *testing.B) {
	host := serveDir(b, true)
	for b.Loop() {
		for _, job := range []string{"put", "get"} {
			b.ReportMetric(float64(memoryOf(b, host, job)>>20), job+"-MiB")
		}
	}
}

// memoryOf returns the peak memory of a process for the job, above its baseline.
func memoryOf(t testing.TB, host, job string) (peak int) {
	t.Helper()
	out, err := worker(t, host, t.TempDir(), "memory "+job, 0).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", job, err, out)
	}
	i := max(bytes.Index(out, []byte("PEAK")), 0)
	if _, err := fmt.Sscanf(string(out[i:]), "PEAK "+job+" %d", &peak); err != nil {
		t.Fatalf("%s: %v\n%s", job, err, out)
	}
	return peak
}

// largeBytes is a well-formed state with content that does not repeat.
func largeBytes() []byte {
	b := make([]byte, 0, largeState)
	b = append(b, `{"version":4,"serial":1,"lineage":"l-1","outputs":{"x":"`...)
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	rng := rand.New(rand.NewPCG(1, 2))
	for len(b) < largeState-3 {
		b = append(b, digits[rng.IntN(len(digits))])
	}
	return append(b, `"}}`...)
}

// memoryWork is the worker of TestMemory.
func memoryWork(job string) error {
	r, err := oci.OpenRepo(os.Getenv(envHost)+"/infra/state", oci.Options{PlainHTTP: true})
	if err != nil {
		return err
	}
	s, ctx := statebackend.New(r, statebackend.Options{}), context.Background()
	l, err := s.Lock(ctx, "prod", statebackend.LockInfo{})
	if err != nil {
		return err
	}
	if job == "get" {
		before, err := resetPeak()
		if err != nil {
			return err
		}
		got, _, err := l.Get(ctx)
		if err != nil {
			return err
		}
		if err := report(job, before); err != nil {
			return err
		}
		if !bytes.Equal(got, largeBytes()) {
			return fmt.Errorf("%d bytes differ from what was written", len(got))
		}
		return l.Unlock(ctx)
	}
	state := largeBytes()
	before, err := resetPeak()
	if err != nil {
		return err
	}
	if _, err := l.Put(ctx, state); err != nil {
		return err
	}
	if err := report(job, before); err != nil {
		return err
	}
	return l.Unlock(ctx)
}

// resetPeak resets the kernel's count of the process's peak memory and returns its
// current usage.
func resetPeak() (int, error) {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return 0, err
	}
	return peak()
}

// peak reads the peak of the resident memory (proc(5), VmHWM).
func peak() (int, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for tagNames := range strings.Lines(string(b)) {
		var kib int
		if n, _ := fmt.Sscanf(tagNames, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("no VmHWM in /proc/self/status")
}

func report(job string, before int) error {
	after, err := peak()
	if err != nil {
		return err
	}
	fmt.Printf("PEAK %s %d\n", job, after-before)
	return nil
}
