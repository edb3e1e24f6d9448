// SPDX-License-Identifier: Apache-2.0

package portalserve_test

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/client-go/tools/events"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// settle makes an operator reconcile what was written.
func (s *site) settle() {
	s.t.Helper()
	if s.operator == nil {
		s.operator = instancectl.NewController(rig.Within(s.client, s.namespace), s.client, &events.FakeRecorder{}, instancectl.Options{
			Settings: instancectl.Settings{Namespace: s.namespace}, Operator: s.namespace, Executor: engine{},
		})
	}
	if _, err := s.operator.Reconcile(s.t.Context()); err != nil {
		s.t.Log(err) // another writer was first: the next reconcile repeats it
	}
}

// engine is an executor whose runs end at once. Each run yields an address.
type engine struct{}

func (engine) Advance(_ context.Context, a run.Attempt) (run.Status, error) {
	if a.Kind == lifecycle.RunDestroy {
		return ended(lifecycle.Result{Outcome: lifecycle.Done})
	}
	url := json.RawMessage(fmt.Sprintf("%q", a.ID+".example.com"))
	return ended(lifecycle.Result{Outcome: lifecycle.Done, Resources: 1, State: true, Outputs: map[string]json.RawMessage{"url": url}})
}

func (engine) Cancel(context.Context, run.Attempt, bool) error { return nil }

func (engine) Release(context.Context, run.Attempt) (bool, error) { return true, nil }

func ended(r lifecycle.Result) (run.Status, error) {
	return run.Status{State: run.Ended, Result: r}, nil
}
