// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"bytes"
	"context"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// watched is a Sealer that checks a budget while it seals.
type watched struct{ seal func() }

func (w watched) Seal(_ context.Context, plain, aad []byte) ([]byte, map[string]string, error) {
	w.seal()
	return append(bytes.Clone(aad), plain...), map[string]string{"vnd.okara.state.envelope": "test"}, nil
}

func (watched) Open(_ context.Context, sealed []byte, _ map[string]string, aad []byte) ([]byte, error) {
	return bytes.TrimPrefix(sealed, aad), nil
}

// A takeover seals the current state again, which counts against the budget until then.
func TestTakeOverBudget(t *testing.T) {
	c := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{})+"/acme", oci.Options{PlainHTTP: true}))(t)
	r := must.Get(c.Repo("state"))(t)
	b := NewBudget(1 << 20)
	free := 0
	s := New(r, Options{Budget: b, Sealer: watched{func() {
		if b.reads.TryAcquire(b.size) {
			b.reads.Release(b.size)
			free++
		}
	}}})
	l := must.Get(s.Lock(t.Context(), "prod", LockInfo{ID: "a"}))(t)
	must.Get(l.Put(t.Context(), []byte(`{"version":4,"serial":1,"lineage":"l"}`)))(t)
	free = 0 // during the write of a state that the caller has reserved
	must.Get(s.TakeOver(t.Context(), "prod", LockInfo{ID: "b"}))(t)
	if free > 0 {
		t.Error("nothing of the budget is held while the head is sealed anew")
	}
	if state, _, err := s.Get(t.Context(), "prod"); err != nil || len(state) == 0 {
		t.Errorf("%q, %v", state, err)
	}
}
