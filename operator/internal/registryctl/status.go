// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// maxText bounds a text in a status or an event.
const maxText = 1 << 10

func short(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "..."
}

// verdict is what the conditions of an object say.
type verdict struct {
	reason, message string
	ready           bool
	retry           bool // what is wrong may go away by itself
	stalled         bool // somebody has to change an object
}

// set writes the verdict into conditions. Times move with the status only.
func (v verdict) set(list *[]metav1.Condition, generation int64) {
	status := func(yes bool) metav1.ConditionStatus {
		if yes {
			return metav1.ConditionTrue
		}
		return metav1.ConditionFalse
	}
	for _, c := range []struct {
		kind string
		is   bool
	}{{v1alpha1.ConditionReady, v.ready}, {v1alpha1.ConditionReconciling, v.retry}, {v1alpha1.ConditionStalled, v.stalled}} {
		meta.SetStatusCondition(list, metav1.Condition{
			Type: c.kind, Status: status(c.is), ObservedGeneration: generation, Reason: v.reason, Message: short(v.message),
		})
	}
}
