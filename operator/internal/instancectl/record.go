// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// maxStored bounds the record of one object with its templates, in bytes.
const maxStored = 256 << 10

// recordIn returns an Instance's record and templates by digest; nil: not seen yet.
func recordIn(o *v1alpha1.Instance) (*lifecycle.Record, map[string]*template.Template, error) {
	if o.Status.Record == nil {
		return nil, nil, nil
	}
	size := len(o.Status.Record.Raw)
	for _, t := range o.Status.Snapshots {
		size += len(t.Raw)
	}
	if size > maxStored {
		return nil, nil, fmt.Errorf("Instance %s: its record has %d bytes", o.Name, size)
	}
	b, err := json.Marshal(map[string]any{
		"version": 1, "templates": o.Status.Snapshots, "records": map[string]any{o.Status.ID: o.Status.Record},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("Instance %s: %w", o.Name, err)
	}
	d, err := lifecycle.Decode(b)
	if err != nil {
		return nil, nil, fmt.Errorf("Instance %s: %w", o.Name, err)
	}
	return d.Records[o.Status.ID], d.Templates, nil
}

// statusFor returns the status for record r in d; what a record does not determine stays.
func statusFor(o *v1alpha1.Instance, d *lifecycle.Document, r *lifecycle.Record) (v1alpha1.InstanceStatus, error) {
	s := *o.Status.DeepCopy()
	raw, err := json.Marshal(r)
	if err != nil {
		return s, fmt.Errorf("Instance %s: %w", o.Name, err)
	}
	s.Record = &apiextensions.JSON{Raw: raw}
	s.Snapshots = nil
	for _, digest := range r.Snapshots() {
		t := d.Templates[digest]
		if t == nil {
			continue
		}
		raw, err := json.Marshal(t)
		if err != nil {
			return s, fmt.Errorf("Instance %s: %w", o.Name, err)
		}
		if s.Snapshots == nil {
			s.Snapshots = map[string]apiextensions.JSON{}
		}
		s.Snapshots[digest] = apiextensions.JSON{Raw: raw}
	}
	showRecord(&s, r)
	return s, nil
}

// showRecord fills the fields that users read from a record.
func showRecord(s *v1alpha1.InstanceStatus, r *lifecycle.Record) {
	s.Reason = text.Clip(r.Reason, 4096)
	s.Module = &v1alpha1.RunningModule{Version: r.Source.Version, Digest: r.Source.Digest}
	s.ExpiresAt = timeOf(r.ExpiresAt)
	s.URL = ""
	s.Message = ""
	if c := r.Connection; c != nil {
		s.URL = c.URL
		s.Message = c.Message
	}
	s.Outputs = toJSONValues(r.Outputs)
	s.Plan = lifecycle.Awaits(r)
	for _, c := range machineConditions(r) {
		setCondition(&s.Conditions, c, s.ObservedGeneration)
	}
}

// verdictOf is the verdict by record and last requests. A refused change is not the spec's state.
func verdictOf(o *v1alpha1.Instance, h *v1alpha1.Handled, r *lifecycle.Record) verdict.Verdict {
	v := verdict.Verdict{Reason: string(phaseOf(r.Phase)), Message: text.Head(r.Reason)}
	refused := h != nil && h.Refused != "" && h.RefusedGeneration == o.Generation
	if refused && r.Phase.Live() && o.DeletionTimestamp == nil {
		return verdict.Verdict{State: verdict.Stalled, Reason: v1alpha1.ReasonRefused, Message: "the last change was refused, and nothing was changed: " + h.Refused}
	}
	switch r.Phase {
	case lifecycle.Ready, lifecycle.Available:
		v.State = verdict.Ready
		if requestsChange(r) {
			v = verdict.Verdict{Reason: v1alpha1.ConditionAwaitingApproval, Message: "the requested change is waiting for an Approval of plan " + o.Status.Plan + ", and nothing was changed yet"}
		}
	case lifecycle.Failed, lifecycle.DestroyFailed, lifecycle.Rejected:
		v.State = verdict.Stalled
	case lifecycle.Destroyed, lifecycle.Orphaned:
		v.State = verdict.Held
	case lifecycle.Requested, lifecycle.Planned:
		v.Message = cmp.Or(v.Message, "it is waiting for an Approval of plan "+o.Status.Plan)
	}
	if c := conditionOf(r, lifecycle.Waiting); c != nil && c.Reason != "" && v.State == verdict.UnderWay {
		v.Reason = c.Reason
		v.Message = text.Head(c.Message)
		if c.Reason != lifecycle.WaitQueued && c.Reason != lifecycle.WaitStateLocked {
			v.State = verdict.Failing
		}
	}
	return v.Of(o)
}

// requestsChange reports whether a user's change waits for approval.
func requestsChange(r *lifecycle.Record) bool {
	if r == nil || r.Phase == lifecycle.Requested {
		return false
	}
	planned := r.Phase == lifecycle.Planned && !r.ReadyAt.IsZero()
	if r.Pending == nil && !planned {
		return false
	}
	return r.WantedBy().Subject != ""
}

// conditionOf returns a condition of a record, or nil.
func conditionOf(r *lifecycle.Record, kind string) *lifecycle.Condition {
	if i := slices.IndexFunc(r.Conditions, func(c lifecycle.Condition) bool { return c.Type == kind }); i >= 0 {
		return &r.Conditions[i]
	}
	return nil
}

func phaseOf(p lifecycle.Phase) v1alpha1.InstancePhase {
	return v1alpha1.InstancePhase(text.Camel(string(p)))
}

func shownPhase(p v1alpha1.InstancePhase, v verdict.Verdict) v1alpha1.InstancePhase {
	return v1alpha1.InstancePhase(v.Phase(string(p), string(phaseOf(lifecycle.Updating))))
}

// noLonger is the message of a condition that was true.
const noLonger = "no longer"

func machineConditions(r *lifecycle.Record) []metav1.Condition {
	awaiting := metav1.Condition{Type: v1alpha1.ConditionAwaitingApproval, Status: metav1.ConditionFalse, Reason: string(phaseOf(r.Phase)), Message: noLonger}
	if lifecycle.Awaits(r) != "" {
		awaiting.Status = metav1.ConditionTrue
		awaiting.Message = text.Clip(cmp.Or(r.Reason, "someone has to approve it"), 4096)
		if r.Phase != lifecycle.Planned {
			awaiting.Reason = string(phaseOf(lifecycle.Requested)) // a change of one that is Ready, too
		}
	}
	all := []metav1.Condition{awaiting}
	for _, kind := range []string{lifecycle.Waiting, lifecycle.Drifted, lifecycle.UpdateAvailable, lifecycle.ExpiresSoon, lifecycle.ExpiredProtected} {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "No", Message: noLonger}
		if own := conditionOf(r, kind); own != nil {
			c = metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: cmp.Or(own.Reason, kind), Message: text.Clip(cmp.Or(own.Message, own.Reason, kind), 4096)}
		}
		all = append(all, c)
	}
	return all
}

// setCondition writes a condition, unless it is false and not in the list.
func setCondition(list *[]metav1.Condition, c metav1.Condition, generation int64) {
	if c.Status == metav1.ConditionTrue || meta.FindStatusCondition(*list, c.Type) != nil {
		c.ObservedGeneration = generation
		meta.SetStatusCondition(list, c)
	}
}

func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}

func inputsDigest(o *v1alpha1.Instance) string {
	b, err := json.Marshal(struct {
		Version    string
		Parameters map[string]apiextensions.JSON
	}{o.Spec.Version, o.Spec.Parameters})
	if err != nil {
		return "" // cannot happen: the values came as JSON
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
