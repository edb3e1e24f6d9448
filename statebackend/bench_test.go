// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
)

// sample is a typical state: some hundred resources of a few types.
func sample(t testing.TB) []byte {
	t.Helper()
	return must.Get(os.ReadFile("testdata/large.tfstate"))(t)
}

func TestSampleShrinks(t *testing.T) {
	state := sample(t)
	s := newStore(t, ocitest.New(t, ocitest.Quirks{}), nil, statebackend.Options{})
	l := mustLock(t, s, "prod", "a")
	v := mustPut(t, l, state)
	mustUnlock(t, l)
	ratio := float64(len(state)) / float64(v.Size)
	t.Logf("%d bytes are stored in %d, 1/%.1f", len(state), v.Size, ratio)
	if ratio < 8 {
		t.Errorf("it shrinks to 1/%.1f, want 1/8", ratio)
	}
	if got := mustGet(t, s, "prod"); got != string(state) {
		t.Error("it was read otherwise than written")
	}
}

// BenchmarkApply is Lock, Get, Put and Unlock of a warm store, with their requests.
func BenchmarkApply(b *testing.B) {
	for _, bc := range []struct {
		name string
		q    ocitest.Quirks
	}{{"delete", ocitest.Quirks{}}, {"no-delete", ocitest.Quirks{NoDelete: true}}} {
		b.Run(bc.name, func(b *testing.B) {
			c := &ocitest.Count{}
			s := newStore(b, ocitest.New(b, bc.q), c, statebackend.Options{Compression: "none"})
			state := sample(b)
			var lock, get, put, unlock int
			apply := func(i int) {
				l := mustLock(b, s, "prod", fmt.Sprint(i))
				lock = sum(c.Take())
				_, _, _ = l.Get(b.Context())
				get = sum(c.Take())
				mustPut(b, l, fmt.Appendf(state, "%d", i))
				put = sum(c.Take())
				mustUnlock(b, l)
				unlock = sum(c.Take())
			}
			apply(-1)
			for i := 0; b.Loop(); i++ {
				apply(i)
			}
			for unit, n := range map[string]int{"lock-requests": lock, "get-requests": get, "put-requests": put, "unlock-requests": unlock, "apply-requests": lock + get + put + unlock} {
				b.ReportMetric(float64(n), unit)
			}
		})
	}
}
