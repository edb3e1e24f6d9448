// SPDX-License-Identifier: Apache-2.0

package instancectl_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// mortals leads operators, killed at the nth write, until it holds.
func (s *site) mortals(nth int, after bool, until func() bool) (deaths int) {
	s.t.Helper()
	whole := must.Get(client.NewWithWatch(s.operator, client.Options{Scheme: s.client.Scheme()}))(s.t)
	for end := time.Now().Add(30 * time.Second); !until(); {
		c, tried := rig.Dying(whole, nth, after)
		leader := instancectl.NewController(rig.Within(c, append(s.teams, s.settings.Namespace)...), c, &events.FakeRecorder{}, instancectl.Options{
			Settings: s.settings, Operator: s.operatorNamespace, Executor: s.engine, Clock: &instancectl.Clock{Here: s.clock.Now}, Concurrency: 100, Observe: time.Hour,
		})
		for tried() < nth && !until() {
			if _, err := leader.Reconcile(s.t.Context()); err != nil && !errors.Is(err, rig.ErrKilled) {
				s.t.Errorf("pass: %v", err)
			}
			if time.Now().After(end) {
				s.t.Fatalf("after %d deaths it never came: %v", deaths, s.phases())
			}
		}
		if tried() >= nth {
			deaths++
		}
	}
	return deaths
}

// TestKilled kills operators at each write of an instance's life: once after the
// write, before the operator gets the response, and once before it. The next operator
// continues, and nothing begins twice.
//
// Shows: operator 39 | an operator is killed before and after any write of an instance's life: the
// next one continues, and nothing is started twice
func TestKilled(t *testing.T) {
	for nth, after := range map[int]bool{1: true, 2: false, 3: true} {
		s := newSite(t)
		s.template("sandbox.vpc", nil)
		id := s.begin(nth == 3)
		deaths := s.mortals(nth, after, s.is(id, "Ready"))
		s.clock.Step(9 * time.Hour)
		operatorNamespace := s.all()[id].Status.Namespace
		deaths += s.mortals(nth, after, func() bool { return s.ended(operatorNamespace) && s.all()[id] == nil })
		begun := map[lifecycle.RunKind]int{}
		for ref := range s.engine.did {
			begun[ref.Kind]++
		}
		if len(begun) != 2 || begun[lifecycle.RunApply] != 1 || begun[lifecycle.RunDestroy] != 1 || s.engine.left() != 0 {
			t.Errorf("killed at write %d: %v", nth, s.engine.did)
		}
		if deaths < 6 && nth < 3 {
			t.Errorf("killed at write %d: %d times only", nth, deaths)
		}
		t.Logf("killed at write %d, after it %t: %d times", nth, after, deaths)
	}
}
