// SPDX-License-Identifier: Apache-2.0

package kindrun

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// These are the phases of an object.
const (
	phaseProvisioning  = "Provisioning"
	phaseUpdating      = "Updating"
	phasePlanned       = "Planned"
	phaseReady         = "Ready"
	phaseFailed        = "Failed"
	phaseRejected      = "Rejected"
	phaseDestroying    = "Destroying"
	phaseDestroyFailed = "DestroyFailed"
)

// These bounds limit a status, in bytes and in outputs.
const (
	maxMessage = 4 << 10
	maxOutputs = 64
)

// status has the fields that this package writes; others stay.
type status struct {
	ObservedGeneration     int64                      `json:"observedGeneration,omitempty"`
	LastHandledRequest     string                     `json:"lastHandledRequest,omitempty"`
	LastHandledReconcileAt string                     `json:"lastHandledReconcileAt,omitempty"`
	Conditions             []metav1.Condition         `json:"conditions,omitempty"`
	Phase                  string                     `json:"phase,omitempty"`
	Namespace              string                     `json:"namespace,omitempty"`
	LastAppliedRevision    string                     `json:"lastAppliedRevision,omitempty"`
	LastPlannedRevision    string                     `json:"lastPlannedRevision,omitempty"`
	Applied                string                     `json:"applied,omitempty"` // [Wanted.sum] of what was applied last
	PendingApproval        bool                       `json:"pendingApproval"`
	Plan                   *planStatus                `json:"plan,omitempty"`
	Replanned              string                     `json:"replanned,omitempty"` // when a plan that was too old was made again, RFC 3339
	Destroy                *destroyStatus             `json:"destroy,omitempty"`
	Outputs                []string                   `json:"outputs,omitempty"`
	OutputValues           map[string]json.RawMessage `json:"outputValues,omitempty"`
	OutputsSecret          string                     `json:"outputsSecret,omitempty"`

	Verdict verdict.Verdict `json:"-"` // what the conditions say
}

// handledRequest is what verdict.RequestOf returned when the last request was handled.
func (s *status) handledRequest() string {
	return verdict.JoinRequests(s.LastHandledRequest, s.LastHandledReconcileAt)
}

func (s *status) noteRequests(o metav1.Object) {
	own, flux := verdict.RequestsOf(o)
	s.LastHandledRequest = cmp.Or(own, s.LastHandledRequest)
	s.LastHandledReconcileAt = cmp.Or(flux, s.LastHandledReconcileAt)
}

type planStatus struct {
	Pending   string `json:"pending,omitempty"`
	Since     string `json:"since,omitempty"` // RFC 3339
	Summary   string `json:"summary,omitempty"`
	ConfigMap string `json:"configMap,omitempty"`
}

// destroyStatus counts the failed tries to destroy what the object made.
type destroyStatus struct {
	Failures int    `json:"failures"`
	FailedAt string `json:"failedAt"` // when the last one failed, RFC 3339
}

// sayState sets the conditions of kstatus, and the phase that fits them.
func (s *status) sayState(state verdict.State, generation int64, reason, message string) {
	s.ObservedGeneration = generation
	s.Verdict = verdict.Verdict{State: state, Reason: reason, Message: message}
	s.Verdict.Set(&s.Conditions, generation)
	s.Phase = s.Verdict.Phase(s.Phase, s.underWayPhase())
}

// sayFailing sets the status for an error that is tried again.
func (s *status) sayFailing(err error, generation int64) {
	s.Phase = cmp.Or(s.Phase, phaseProvisioning)
	s.sayState(verdict.Failing, generation, v1alpha1.ReasonFailed, err.Error())
}

// sayRefused sets the status for a problem that a user has to solve.
func (s *status) sayRefused(p *verdict.Problem, generation int64) {
	v := p.Verdict()
	s.Phase = cmp.Or(s.Phase, phaseProvisioning)
	s.sayState(v.State, generation, v.Reason, v.Message)
	s.PendingApproval = false
	s.Plan = nil
}

func (s *status) underWayPhase() string {
	if s.LastAppliedRevision == "" {
		return phaseProvisioning
	}
	return phaseUpdating
}

// hasApplied reports whether what was applied last is what is asked for. It is true if nothing is
// recorded: callers also check whether the object was applied or Ready.
func (s *status) hasApplied(sum string) bool { return s.Applied == sum || s.Applied == "" }

// projectRun sets the status from the run's; changed: it was just given sum.
func (s *status) projectRun(now fluxexec.Status, changed bool, sum string, generation int64, at time.Time) {
	had := s.Plan
	if now.AppliedRevision != "" {
		s.LastAppliedRevision = now.AppliedRevision
	}
	s.LastPlannedRevision = now.PlannedRevision
	s.PendingApproval = now.Phase == fluxexec.Planned
	s.Plan = nil
	drifted := now.Phase == fluxexec.Drifted
	waiting := now.Phase == fluxexec.Waiting
	s.keepCondition(v1alpha1.ConditionDrifted, drifted, generation, v1alpha1.ReasonDrift, now.Message)
	s.keepCondition(v1alpha1.ConditionWaiting, waiting, generation, now.Reason, "the state is locked by "+now.Lock)
	s.keepCondition(v1alpha1.ConditionAwaitingApproval, s.PendingApproval, generation, v1alpha1.ReasonPlanned, "a plan is waiting for an Approval")
	switch now.Phase {
	case fluxexec.Applied:
		s.Phase = phaseReady
		s.Applied = sum
		s.sayState(verdict.Ready, generation, v1alpha1.ReasonApplied, "everything is as the object specifies")
	case fluxexec.Drifted:
		s.Phase = phaseReady
		s.sayState(verdict.Ready, generation, v1alpha1.ReasonDrift, now.Message)
	case fluxexec.Planned:
		s.setPlanned(now, generation, had, at)
	case fluxexec.Failed:
		s.Phase = phaseFailed
		if now.Reason == v1alpha1.ReasonRejected {
			s.Phase = phaseRejected
		}
		s.sayState(verdict.Stalled, generation, v1alpha1.ReasonFailed, text.Head(now.Message))
	case fluxexec.Suspended:
		state := verdict.Held
		message := "no run is started"
		switch {
		case !s.hasApplied(sum):
			message = "no run is started: the spec of the object was not applied"
		case s.Phase == phaseReady:
			state = verdict.Ready
		}
		s.sayState(state, generation, v1alpha1.ReasonSuspended, message)
	case fluxexec.Waiting:
		s.Phase = s.underWayPhase()
		s.sayState(verdict.UnderWay, generation, now.Reason, "the state is locked by "+now.Lock)
	default:
		s.setRunning(now.Failure, changed, generation)
	}
}

// setRunning sets the status for a run that is under way. failure is that of its last try.
func (s *status) setRunning(failure fluxexec.Failure, changed bool, generation int64) {
	if failure != (fluxexec.Failure{}) {
		s.Phase = s.underWayPhase()
		s.sayState(verdict.Failing, generation, cmp.Or(failure.Reason, v1alpha1.ReasonFailed), failure.Message)
		return
	}
	if s.Phase == phaseReady && s.ObservedGeneration == generation && !changed {
		return // the regular check at each interval
	}
	s.Phase = s.underWayPhase()
	s.sayState(verdict.UnderWay, generation, v1alpha1.ReasonRunning, "a run is under way")
}

func (s *status) setPlanned(now fluxexec.Status, generation int64, had *planStatus, at time.Time) {
	s.Phase = phasePlanned
	since := at.UTC().Format(time.RFC3339)
	if had != nil && had.Pending == now.Plan.ID && had.Since != "" && !had.isOld(at) {
		since = had.Since
	}
	s.Plan = &planStatus{Pending: now.Plan.ID, Since: since, Summary: now.Plan.Words()}
	if now.Plan.Reason == "" {
		s.sayState(verdict.UnderWay, generation, v1alpha1.ReasonPlanned, "plan "+now.Plan.ID+" is waiting for an Approval")
		return
	}
	s.Plan.Summary = ""
	s.sayState(verdict.Failing, generation, now.Plan.Reason, "a plan is pending, but the plan gate has not seen it: it cannot be approved")
}

// planLife is how long a plan waits before it is made again, as it may be outdated.
const planLife = 24 * time.Hour

// isOld reports whether a plan must be made again.
func (p *planStatus) isOld(now time.Time) bool {
	if p == nil || p.Since == "" {
		return false
	}
	since, err := time.Parse(time.RFC3339, p.Since)
	return err == nil && now.Sub(since) >= planLife
}

func (s *status) keepCondition(kind string, holds bool, generation int64, reason, message string) {
	if !holds {
		meta.RemoveStatusCondition(&s.Conditions, kind)
		return
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, ObservedGeneration: generation, Reason: reason, Message: text.Clip(message, maxMessage),
	})
}

// writeStatus writes the status if it changed, and makes an event of a failure.
func (x *object) writeStatus(ctx context.Context) error {
	current := x.status.Verdict
	x.before.Verdict = verdict.Verdict{}
	x.status.Verdict = verdict.Verdict{}
	if equality.Semantic.DeepEqual(x.before, x.status) {
		return nil
	}
	current.Report(x.Events, x.o, x.before.Conditions)
	if err := verdict.WriteStatus(x.o, &x.status, "plan", "outputs", "outputValues", "outputsSecret", "conditions", "lastPlannedRevision", "destroy"); err != nil {
		return err
	}
	return x.Client.Status().Update(ctx, x.o)
}
