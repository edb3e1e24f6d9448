// SPDX-License-Identifier: Apache-2.0

package verdict

import "github.com/seed-141914ff/okara/operator/api/v1alpha1"

// ReasonPending is the reason of an Approval that nobody has judged yet.
const ReasonPending = "Pending"

// Decide writes what becomes of an Approval, and reports whether that is news. result is ""
// while nothing has.
func Decide(a *v1alpha1.Approval, result v1alpha1.ApprovalResult, message string) bool {
	s := &a.Status
	if s.Result == result && s.Message == message && s.ObservedGeneration == a.Generation {
		return false
	}
	v := Verdict{Reason: string(result), Message: message}
	switch result {
	case "":
		v.Reason = ReasonPending
	case v1alpha1.ApprovalApplied, v1alpha1.ApprovalRejected:
		v.State = Ready
	case v1alpha1.ApprovalFailed, v1alpha1.ApprovalRefused, v1alpha1.ApprovalStale:
		v.State = Stalled
	}
	s.Result, s.Message, s.ObservedGeneration = result, message, a.Generation
	v.Set(&s.Conditions, a.Generation)
	return true
}
