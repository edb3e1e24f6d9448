// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/owned"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// problem is why a definition is not what it says.
type problem struct {
	reason, message string
	retry           bool // it may mend itself
}

func (e *problem) Error() string { return e.message }

func isProblem(err error) bool { _, is := errors.AsType[*problem](problemOf(err)); return is }

// problemOf makes a *problem of what somebody can be told; other errors are for another
// try.
func problemOf(err error) error {
	if e, ok := errors.AsType[*kindspec.FieldError](err); ok {
		return &problem{reason: v1alpha1.ReasonSchemaInvalid, message: e.Error()}
	}
	if e, ok := errors.AsType[*owned.TakenError](err); ok {
		return &problem{reason: v1alpha1.ReasonNameTaken, message: e.Error(), retry: true}
	}
	switch {
	case errors.Is(err, trust.ErrUntrusted):
		return &problem{reason: v1alpha1.ReasonNotVerified, message: err.Error()}
	case missing(err):
		return &problem{reason: v1alpha1.ReasonModuleMissing, message: err.Error(), retry: true}
	}
	return err
}

// judge writes the conditions of a definition, and says when to look at it again; told is
// whether an error is in them, and not for another try.
func (d *definitions) judge(def *v1alpha1.ModuleKind, wrong error) (after time.Duration, told bool) {
	def.Status.ObservedGeneration = def.Generation
	def.Status.LastHandledRequest = def.Annotations[v1alpha1.AnnotationRequest]
	established := metav1.Condition{Type: v1alpha1.ConditionEstablished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEstablished, ObservedGeneration: def.Generation}
	if d.kinds.of(def.Name) == nil {
		established.Status, established.Reason, established.Message = metav1.ConditionFalse, v1alpha1.ReasonRunning, "there is no such kind yet"
	}
	meta.SetStatusCondition(&def.Status.Conditions, established)
	v := verdict.Verdict{State: verdict.Ready, Reason: v1alpha1.ReasonEstablished}
	p, told := errors.AsType[*problem](problemOf(wrong))
	switch {
	case wrong == nil:
		told, v.Message = true, "objects run version "+def.Status.Module.Version
	case told:
		v = p.verdict()
	default:
		v = verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonFailed, Message: wrong.Error()}
	}
	v.Say(d.events, def, &def.Status.Conditions)
	if v.State == verdict.UnderWay {
		return soon, told
	}
	return d.Every, told
}

// verdict is what a problem says; one that goes by itself in a moment is none.
func (e *problem) verdict() verdict.Verdict {
	state := verdict.Stalled
	switch {
	case e.reason == v1alpha1.ReasonRunning:
		state = verdict.UnderWay
	case e.retry:
		state = verdict.Failing
	}
	return verdict.Verdict{State: state, Reason: e.reason, Message: e.message}
}
