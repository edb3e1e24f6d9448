// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// bombState is a state of size bytes that compresses to next to nothing.
func bombState(size int) []byte {
	return append([]byte(`{"version":4,"serial":1,"lineage":"l","outputs":{}}`), bytes.Repeat([]byte(" "), size)...)
}

// Many readers of a small stored state that expands to the whole budget take turns,
// and each of them gets its state.
//
// Shows: mistakes 8 | decompressed states took gigabytes, once per reader | all states in memory
// share one budget; the size is read before decompression
func TestBudget(t *testing.T) {
	const size = 8 << 20
	for name, o := range map[string]statebackend.Options{
		"zstd": {}, "gzip": {Compression: "gzip"}, "none": {Compression: "none"}, "sealed": {Sealer: newSealer(t, "k")},
	} {
		t.Run(name, func(t *testing.T) {
			host := ocitest.New(t, ocitest.Quirks{})
			want := bombState(size)
			mustStore(t, newStore(t, host, nil, o), "prod", want)
			o.Budget = statebackend.NewBudget(size)
			var inside, most atomic.Int64
			var wg sync.WaitGroup
			for range 6 {
				s := newStore(t, host, nil, o) // the stores of one server share the budget
				wg.Go(func() {
					_, err := s.View(t.Context(), "prod", func(state []byte, _ statebackend.Version) error {
						if n := inside.Add(1); n > most.Load() {
							most.Store(n)
						}
						defer inside.Add(-1)
						if !bytes.Equal(state, want) {
							t.Error("other bytes")
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if most.Load() != 1 {
				t.Errorf("%d states of %d bytes in a budget of one", most.Load(), size)
			}
		})
	}
}

// A request that waits for memory waits no longer than its context, and holds no
// memory afterwards. Reading the current state during a write does not wait for it.
//
// Shows: mistakes 8
func TestBudgetWait(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	const size = 1 << 20
	o := statebackend.Options{Budget: statebackend.NewBudget(size), MaxState: size + 100}
	s := newStore(t, host, nil, o)
	mustStore(t, s, "prod", bombState(size))
	_, err := s.View(t.Context(), "prod", func([]byte, statebackend.Version) error {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := s.View(ctx, "prod", func([]byte, statebackend.Version) error { return nil }); !errors.Is(err, context.Canceled) {
				t.Errorf("a read without room: %v", err)
			}
		})
		cancel()
		wg.Wait()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	release := must.Get(s.Reserve(t.Context(), -1))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Reserve(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a write without room: %v", err)
	}
	if got := mustGet(t, s, "prod"); len(got) <= size {
		t.Errorf("%d bytes", len(got))
	}
	release()
	if release, err = s.Reserve(t.Context(), size); err != nil {
		t.Fatal(err)
	}
	release()
}

// A stored state that expands to more than it announces, or to more than is allowed,
// is refused before it is expanded.
//
// Shows: mistakes 8
func TestExpandedSize(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{MaxState: 1 << 20, Budget: statebackend.NewBudget(1 << 20)})
	z := must.Get(zstd.NewWriter(nil))(t)
	defer z.Close()
	gz := func(b []byte) []byte {
		var buf bytes.Buffer
		w := gzip.NewWriter(&buf)
		must.Get(w.Write(b))(t)
		must.Succeed(t, w.Close())
		return buf.Bytes()
	}
	small, large := bombState(1<<10), bombState(2<<20)
	for _, tc := range []struct {
		name, encoding string
		stored         []byte
		want           error
	}{
		{"zstd", "+zstd", z.EncodeAll(small, nil), nil},
		{"zstd of two frames", "+zstd", z.EncodeAll(small, z.EncodeAll(small, nil)), oci.ErrCorrupt},
		{"zstd, large", "+zstd", z.EncodeAll(large, nil), oci.ErrTooLarge},
		{"zstd, no header", "+zstd", []byte("{}"), oci.ErrCorrupt},
		{"gzip", "+gzip", gz(small), nil},
		{"gzip of two members", "+gzip", append(gz(large), gz(small)...), oci.ErrCorrupt},
		{"gzip, large", "+gzip", gz(large), oci.ErrTooLarge},
		{"gzip that says less", "+gzip", append(gz(large)[:len(gz(large))-4], 1, 0, 0, 0), oci.ErrCorrupt},
		{"gzip, short", "+gzip", []byte("{}"), oci.ErrCorrupt},
	} {
		blob := format.StateLayer(tc.encoding, tc.stored)
		m := must.Get(format.NewStateManifest(format.StateManifest{Workspace: "prod", N: 1, Layer: blob.Descriptor}))(t)
		for _, b := range []oci.Blob{oci.EmptyBlob(), blob} {
			must.Succeed(t, s.Repo().PushBlob(t.Context(), b))
		}
		must.Succeed(t, s.Repo().PutTag(t.Context(), "state-prod-v1", m))
		got, _, err := s.GetVersion(t.Context(), "prod", 1)
		if !errors.Is(err, tc.want) || tc.want == nil && !bytes.Equal(got, small) || tc.want != nil && strings.Contains(string(got), "version") {
			t.Errorf("%s: %d bytes, %v, want %v", tc.name, len(got), err, tc.want)
		}
	}
}
