// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/owned"
)

// maxMessage bounds a message, in bytes.
const maxMessage = 4 << 10

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
	k := d.kinds.of(def.Name)
	set := func(kind string, is bool, reason, message string) {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&def.Status.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: text.Clip(message, maxMessage), ObservedGeneration: def.Generation,
		})
	}
	keep := func(kind string, holds bool, reason, message string) {
		if holds {
			set(kind, true, reason, message)
			return
		}
		meta.RemoveStatusCondition(&def.Status.Conditions, kind)
	}
	if k != nil {
		set(v1alpha1.ConditionEstablished, true, v1alpha1.ReasonEstablished, "")
	} else {
		set(v1alpha1.ConditionEstablished, false, v1alpha1.ReasonRunning, "there is no such kind yet")
	}
	if wrong == nil {
		set(v1alpha1.ConditionReady, true, v1alpha1.ReasonEstablished, "objects run version "+def.Status.Module.Version)
		keep(v1alpha1.ConditionReconciling, false, "", "")
		keep(v1alpha1.ConditionStalled, false, "", "")
		return d.Every, true
	}
	p, told := errors.AsType[*problem](problemOf(wrong))
	if !told {
		p = &problem{reason: v1alpha1.ReasonFailed, message: wrong.Error(), retry: true}
	}
	before := meta.FindStatusCondition(def.Status.Conditions, v1alpha1.ConditionReady)
	if d.events != nil && (before == nil || before.Reason != p.reason) {
		d.events.Eventf(def, nil, corev1.EventTypeWarning, p.reason, "Establish", "%s", text.Clip(p.message, 1<<10))
	}
	set(v1alpha1.ConditionReady, false, p.reason, p.message)
	keep(v1alpha1.ConditionReconciling, p.retry, p.reason, p.message)
	keep(v1alpha1.ConditionStalled, !p.retry, p.reason, p.message)
	if p.reason == v1alpha1.ReasonRunning {
		return soon, told
	}
	return d.Every, told
}
