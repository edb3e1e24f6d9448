// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
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
