// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// rouse makes the entries of the namespace run once more, without a request, and waits
// until a run has begun.
func (s *site) rouse(addresses string) {
	s.t.Helper()
	before := s.runs.Load()
	s.annotate(s.ns, addresses)
	s.until("run", func() (bool, any) { return s.runs.Load() > before, nil })
}

// TestAnIdleRunAsksThrice counts the requests of a run in which nothing is new: the
// record, the tags, and the newest of three versions.
func TestAnIdleRunAsksThrice(t *testing.T) {
	runs := reconciled(t, "module")
	s := newNet(t, "1.0.0", "1.1.0", "1.2.0")
	s.says(s.module(s.ns, "m", nil), true, v1alpha1.ReasonSynced)
	s.until("done", func() (bool, any) { return reconciled(t, "module") > runs, nil })
	runs = reconciled(t, "module")
	before := s.in.asked.Load()
	s.rouse("module:net/**, module:other/**")
	s.until("done again", func() (bool, any) {
		n := s.in.asked.Load() - before
		return n >= 3 && reconciled(t, "module") > runs, n
	})
	s.stop()
	if n := s.in.asked.Load() - before; n != 3 {
		t.Errorf("an idle run made %d requests", n)
	}
}

// TestAMovedTagIsFoundWithinADay moves the tag of a version that is not the newest, and
// requests no run.
func TestAMovedTagIsFoundWithinADay(t *testing.T) {
	s := newNet(t, "1.0.0", "1.1.0")
	m := s.module(s.ns, "m", nil)
	s.says(m, true, v1alpha1.ReasonSynced)
	repo := repository(t, s.fill)
	must.Succeed(t, repo.PutTag(t.Context(), "1.0.0", depottest.MustFetch(t, repo, "1.1.0")))
	s.clock.Add(int64(25 * time.Hour))
	s.rouse("module:net/**, module:other/**")
	s.says(m, false, v1alpha1.ReasonDrift)
	if states(m) != "1.1.0 Published, 1.0.0 Drift" {
		t.Errorf("%s", states(m))
	}
}
