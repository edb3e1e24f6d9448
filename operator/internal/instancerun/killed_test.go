// SPDX-License-Identifier: Apache-2.0

package instancerun_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/instancerun"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// TestHelmKilled kills the operator before and after each write of a chart's life: the
// next one installs the chart once, and leaves nothing behind.
//
// Shows: operator 34
func TestHelmKilled(t *testing.T) {
	deaths := 0
	for _, after := range []bool{false, true} {
		for nth := 1; ; nth++ {
			died := chartLife(t, nth, after)
			if deaths += died; died == 0 {
				break
			}
		}
	}
	if deaths < 16 {
		t.Errorf("it was killed %d times only", deaths)
	}
}

// chartLife leads a chart from its beginning to its end, and counts deaths.
func chartLife(t *testing.T, nth int, after bool) (deaths int) {
	t.Helper()
	s := newInstalled(t)
	step := func(what string, do func(*instancerun.Flux) (run.Status, error), want run.State) {
		t.Helper()
		dying, tried := rig.Dying(s.own, nth, after)
		if _, err := do(s.by(dying)); tried() >= nth {
			deaths++
			if !errors.Is(err, rig.ErrKilled) {
				t.Fatalf("%s, killed at write %d, after it %t: %v", what, nth, after, err)
			}
		}
		for range 5 {
			st, err := do(s.by(s.own))
			if err != nil {
				t.Fatalf("%s, after a death at write %d, after it %t: %v", what, nth, after, err)
			}
			if st.State == want {
				return
			}
		}
		t.Fatalf("%s, after a death at write %d, after it %t: it does not come to an end", what, nth, after)
	}
	step("run", func(x *instancerun.Flux) (run.Status, error) { return x.Run(t.Context(), s.a) }, run.Running)
	s.says(nil, "Ready=True")
	step("ready", func(x *instancerun.Flux) (run.Status, error) { return x.Run(t.Context(), s.a) }, run.Ended)
	s.again(lifecycle.RunDestroy)
	step("destroy", func(x *instancerun.Flux) (run.Status, error) { return x.Destroy(t.Context(), s.a) }, run.Ended)
	if s.release() != nil {
		t.Errorf("killed at write %d, after it %t: the release is left", nth, after)
	}
	s.gone("OCIRepository")
	return deaths
}

// by returns the executor of a process with a client.
func (s *installed) by(c client.Client) *instancerun.Flux {
	return instancerun.New(instancerun.Options{
		Client: c, Flux: &fluxexec.Executor{Client: client.WithFieldValidation(c, metav1.FieldValidationStrict)},
		Registry: "registry.test", PlainHTTP: true, Operator: s.operator, Instances: s.operator,
	})
}
