// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/template"
)

// violation is a rule of the model that a document breaks.
type violation struct {
	Rule string // one word, such as identity or limits
	ID   string // of the record; "": the document as a whole
	Text string
}

// Check returns what no step leaves behind, in the order of IDs. Readers set such a record aside
// and show it. Limits belong to the whole document: no single record is the wrong one.
func Check(d *Document) []violation {
	var all []violation
	ofInstances := instanceRules()
	ofWorkspaces := workspaceRules()
	for id, r := range d.Records {
		rules := ofInstances
		if r.Workspace != "" {
			rules = ofWorkspaces
		}
		for i := range rules {
			if text := rules[i].broken(d, id, r); text != "" {
				all = append(all, violation{Rule: rules[i].name, ID: id, Text: text})
			}
		}
	}
	all = append(all, d.duplicateWorkspaces()...)
	slices.SortStableFunc(all, func(a, b violation) int { return strings.Compare(a.ID, b.ID) })
	return append(all, d.exceededLimits()...)
}

type rule struct {
	name   string
	broken func(d *Document, id string, r *Record) string
}

func instanceRules() []rule {
	return []rule{
		{"identity", checkIdentity}, {"owner", checkOwner}, {"runs", checkRunOrder}, {"runs", checkRunOfPhase}, {"leftovers", checkLeftovers},
		{"end", checkEnd}, {"outputs", checkOutputs}, {"final", checkFinal}, {"attempts", checkAttempts}, {"offer", checkOffer}, {"switch", checkSwitch},
	}
}

// checkIdentity checks that a record has its own ID, a known phase and a template.
func checkIdentity(d *Document, id string, r *Record) string {
	switch {
	case r.ID != id || !isValidID(id):
		return "not a record ID"
	case r.Workspace == "" && (IsWorkspaceTemplate(r.Template) || len(r.Open) > 0):
		return "an instance with the template or the runs of a workspace"
	case !r.Phase.IsKnown():
		return fmt.Sprintf("no such phase: %q", r.Phase)
	case r.Phase.Live() && d.Templates[r.Snapshot] == nil:
		return "its template is missing"
	}
	return checkPending(d, r)
}

// checkPending checks that what waits is a requested launch, or a change of what exists.
func checkPending(d *Document, r *Record) string {
	p := r.Pending
	if p == nil {
		return ""
	}
	change := p.Update != nil || !p.Until.IsZero()
	switch {
	case change == (r.Phase == Requested), r.Phase == Destroying, r.Phase == DestroyFailed, !r.Phase.Live():
		return string(r.Phase) + ", with a pending request"
	case p.Update != nil && d.Templates[p.Update.Snapshot] == nil:
		return "the template of its pending change is missing"
	}
	return ""
}

// checkOwner checks that an owner came by creation, claim of a pool's member, transfer or offer.
func checkOwner(_ *Document, _ string, r *Record) string {
	has := r.Owner.ID != ""
	switch {
	case !has && !r.Pooled:
		return "no owner, and not created by a pool"
	case has && r.Phase == Available:
		return "available, with an owner"
	case !has && slices.Contains([]Phase{Requested, Planned, Ready, Updating}, r.Phase):
		return string(r.Phase) + ", without an owner"
	case has && r.Pooled && r.ClaimedAt.IsZero():
		return "it has an owner, but was never claimed"
	case !has && !r.ClaimedAt.IsZero(), !r.Pooled && !r.ClaimedAt.IsZero():
		return "claimed, but not from a pool"
	}
	return ""
}

// checkRunOrder checks that the numbers of runs only grow.
func checkRunOrder(_ *Document, _ string, r *Record) string {
	last := 0
	for i := len(r.Runs) - 1; i >= 0; i-- {
		if r.Runs[i].N <= last || r.Runs[i].EndedAt.IsZero() {
			return fmt.Sprintf("run %d after run %d", r.Runs[i].N, last)
		}
		last = r.Runs[i].N
	}
	for _, run := range []*Run{r.Run, r.Then} {
		if run != nil && run.N <= last {
			return fmt.Sprintf("run %d after run %d", run.N, last)
		}
		if run != nil {
			last = run.N
		}
	}
	return ""
}

// checkRunOfPhase checks that a record has at most one run, and one that fits its phase.
func checkRunOfPhase(_ *Document, _ string, r *Record) string {
	run := r.Run
	if run == nil {
		if slices.Contains([]Phase{Planned, Provisioning, Updating, Destroying}, r.Phase) {
			return string(r.Phase) + ", but nothing is running or pending"
		}
		if r.Then != nil {
			return "a next run without a current one"
		}
		return ""
	}
	if r.Then != nil && (!run.Active() || run.Cancel == "") {
		return "a next run, but the current one is not being stopped"
	}
	if !r.fitsPhase(run) {
		return fmt.Sprintf("%s, with a run %s", r.Phase, run.Kind)
	}
	return ""
}

func (r *Record) fitsPhase(run *Run) bool {
	stopped := run.Active() && run.Cancel != ""
	switch r.Phase {
	case Planned:
		planned := run.Plan != "" && run.Planned == run.Attempt
		return run.Kind == RunPlan && planned && !run.Active() && !run.isWaiting()
	case Provisioning:
		return run.Kind == RunApply || run.Kind == RunPlan
	case Updating:
		interrupted := run.Kind == RunDrift && stopped && r.Then != nil
		return run.Kind == RunApply || run.Kind == RunPlan || interrupted
	case Ready:
		return run.Kind == RunDrift
	case Destroying:
		return run.Kind == RunDestroy || stopped && (r.Then != nil || !r.Applied)
	}
	return false
}

// checkLeftovers checks that nothing is called destroyed that may have resources.
func checkLeftovers(_ *Document, _ string, r *Record) string {
	if r.Phase != Destroyed || !r.Applied || r.Untouched {
		return ""
	}
	if len(r.Runs) == 0 || r.Runs[0].Kind != RunDestroy || r.Runs[0].Result != Done {
		return "destroyed, but no run emptied its state"
	}
	return ""
}

// checkEnd checks that an owned instance has an end if its template gives one.
func checkEnd(d *Document, _ string, r *Record) string {
	goes := r.Phase == Destroying || r.Phase == DestroyFailed
	if r.Phase.Live() && !goes && r.Owner.ID != "" && r.ExpiresAt.IsZero() {
		if t := d.Templates[r.Snapshot]; t != nil && t.TTL != nil {
			return "no expiry, though its template sets one"
		}
	}
	return ""
}

// checkOutputs checks that a record has no output that its template does not list.
func checkOutputs(d *Document, _ string, r *Record) string {
	t := d.Templates[r.Snapshot]
	if t == nil {
		return ""
	}
	for name := range r.Outputs {
		if !slices.Contains(t.Outputs, name) {
			return "an output that its template does not list"
		}
	}
	return ""
}

// checkFinal checks that a record is final exactly if it is finished.
func checkFinal(_ *Document, _ string, r *Record) string {
	finished := !r.FinishedAt.IsZero() || r.Archived || r.Removing || r.Kept
	switch {
	case r.Phase.Live() && finished:
		return "not ended, but marked as finished"
	case !r.Phase.Live() && (r.FinishedAt.IsZero() || r.Run != nil || r.Then != nil):
		return "ended, but not marked as finished"
	}
	return ""
}

// checkAttempts checks that a running attempt has number and nonce, and applies approved plans
// only.
func checkAttempts(_ *Document, _ string, r *Record) string {
	run := r.Run
	switch {
	case run == nil:
	case run.Active() && (run.Attempt < 1 || run.Nonce == ""):
		return "an attempt without a name"
	case run.Active() && run.Kind == RunApply && !r.Applied && run.Ask == nil:
		return "an apply was started but not recorded"
	case run.Approved != "" && run.Approved != run.Plan:
		return "another plan was approved"
	case run.Active() && run.Approved != "" && run.Kind == RunApply && run.Attempt <= run.Planned:
		return "applied before it was planned"
	}
	return ""
}

// scope is what a limit counts: instances of a template, and of an owner if not zero.
type scope struct {
	owner    template.Owner
	template string
}

// exceededLimits checks the limits of templates: at most n records can be made under a limit of n.
// What an admin forced, or an update moved, is not counted.
func (d *Document) exceededLimits() []violation {
	have := map[scope][]int{} // limits of the records that count
	for _, r := range d.Records {
		t := d.Templates[r.Snapshot]
		if !r.Counts() || t == nil || r.Forced || r.Revised {
			continue
		}
		if n := t.Limit(); n > 0 {
			what := scope{template: r.Template}
			have[what] = append(have[what], n)
		}
		if n := t.PerOwner; n > 0 && r.Owner.ID != "" {
			what := scope{ownerKey(r.Owner), r.Template}
			have[what] = append(have[what], n)
		}
	}
	var all []violation
	for of, limits := range have {
		slices.Sort(limits)
		for i, limit := range limits {
			if n := i + 1; n > limit && (n == len(limits) || limits[n] > limit) {
				all = append(all, violation{Rule: "limits", Text: fmt.Sprintf("%s %s of %s: %d, maximum is %d", of.owner.Kind, of.owner.ID, of.template, n, limit)})
			}
		}
	}
	return all
}
