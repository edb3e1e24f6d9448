// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

func isProblem(err error) bool { _, is := problemOf(err); return is }

// problemOf returns the problem that users can read of an error; false: try again.
func problemOf(err error) (*verdict.Problem, bool) {
	if p, ok := errors.AsType[*verdict.Problem](err); ok {
		return p, true
	}
	if e, ok := errors.AsType[*kindspec.FieldError](err); ok {
		return &verdict.Problem{Reason: v1alpha1.ReasonSchemaInvalid, Message: e.Error()}, true
	}
	if e, ok := errors.AsType[*fluxobj.TakenError](err); ok {
		return &verdict.Problem{Reason: v1alpha1.ReasonNameTaken, Message: e.Error(), Retry: true}, true
	}
	switch {
	case errors.Is(err, trust.ErrUntrusted):
		return &verdict.Problem{Reason: v1alpha1.ReasonNotVerified, Message: err.Error()}, true
	case isMissing(err):
		return &verdict.Problem{Reason: v1alpha1.ReasonModuleMissing, Message: err.Error(), Retry: true}, true
	}
	return nil, false
}

// writeConditions writes conditions, and returns when to go on; reported: they explain the error.
func (d *definitions) writeConditions(def *v1alpha1.ModuleKind, wrong error) (after time.Duration, reported bool) {
	def.Status.ObservedGeneration = def.Generation
	def.Status.LastHandledRequest, def.Status.LastHandledReconcileAt = verdict.RequestsOf(def)
	established := metav1.Condition{Type: v1alpha1.ConditionEstablished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEstablished, Message: "the API server serves the kind", ObservedGeneration: def.Generation}
	if d.kinds.kindOfDefinition(def.Name) == nil {
		established.Status = metav1.ConditionFalse
		established.Reason = v1alpha1.ReasonRunning
		established.Message = "the kind does not exist yet"
	}
	meta.SetStatusCondition(&def.Status.Conditions, established)
	v := verdict.Verdict{State: verdict.Ready, Reason: v1alpha1.ReasonEstablished}
	p, reported := problemOf(wrong)
	passed, isBehind := errors.AsType[*passedError](wrong)
	switch {
	case wrong == nil:
		reported = true
		v.Message = "objects run version " + def.Status.Module.Version
	case isBehind:
		reported = true
		v.Reason = v1alpha1.ReasonBehind
		v.Message = "objects run version " + def.Status.Module.Version + "; " + passed.Error()
	case reported:
		v = p.Verdict()
	default:
		v = verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonFailed, Message: wrong.Error()}
	}
	v.Say(d.events, def, &def.Status.Conditions)
	if v.State == verdict.UnderWay {
		return soon, reported
	}
	return d.Every, reported
}
