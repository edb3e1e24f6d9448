// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	"github.com/seed-141914ff/okara/instances/template"
)

func workspaceRules() []rule {
	return []rule{
		{"identity", checkWorkspaceIdentity}, {"owner", checkWorkspaceOwner}, {"runs", checkWorkspaceNumbers},
		{"runs", checkWorkspacePhase}, {"final", checkFinal}, {"attempts", checkAttempts}, {"attempts", checkWorkspacePlans},
	}
}

func checkWorkspaceIdentity(d *Document, id string, r *Record) string {
	if !IsWorkspaceTemplate(r.Template) || len(r.Workspace) > maxWorkspace {
		return "a workspace with the template of an instance"
	}
	return checkIdentity(d, id, r)
}

// duplicateWorkspaces returns all records of a workspace but the one with the lowest ID.
func (d *Document) duplicateWorkspaces() []violation {
	type key struct{ template, workspace string }
	first := map[key]string{}
	var all []violation
	for _, id := range sortedKeys(d.Records) {
		r := d.Records[id]
		if r.Workspace == "" || !r.Phase.Live() {
			continue
		}
		at := key{r.Template, r.Workspace}
		if other, ok := first[at]; ok {
			all = append(all, violation{Rule: "identity", ID: id, Text: "its workspace has record " + other})
			continue
		}
		first[at] = id
	}
	return all
}

// checkWorkspaceOwner checks that a workspace has no owner, offer, pool or end.
func checkWorkspaceOwner(_ *Document, _ string, r *Record) string {
	owned := r.Owner != (template.Owner{}) || r.Pooled || r.Offer != nil
	ending := !r.ExpiresAt.IsZero() || r.Kept || r.Applied
	if owned || ending || !r.ClaimedAt.IsZero() {
		return "a workspace with an owner, a pool, an end, an offer or resources of its own"
	}
	return ""
}

// checkWorkspaceNumbers checks that each run's number is unique and was given.
func checkWorkspaceNumbers(_ *Document, _ string, r *Record) string {
	seen := map[int]bool{}
	check := func(n int) string {
		if n < 1 || n > r.Numbered || seen[n] {
			return fmt.Sprintf("run %d twice, or above %d", n, r.Numbered)
		}
		seen[n] = true
		return ""
	}
	last := 0
	pending := 0
	for i := range r.Open {
		run := &r.Open[i]
		if text := check(run.N); text != "" {
			return text
		}
		if run.N < last || run.Active() || run.Result != "" || run.Ask == nil {
			return "an open run is running, has ended or is out of order"
		}
		last = run.N
		if run.Plan == "" {
			pending++
		}
	}
	if pending > maxPending || len(r.Open) > maxOpen+1 {
		return fmt.Sprintf("%d open runs", len(r.Open))
	}
	for i := range r.Runs {
		if text := check(r.Runs[i].N); text != "" {
			return text
		}
		if r.Runs[i].Result == "" || r.Runs[i].EndedAt.IsZero() {
			return "a run is listed as ended, but has not ended"
		}
	}
	if r.Run != nil {
		return check(r.Run.N)
	}
	return ""
}

// checkWorkspacePhase checks that the phase fits the runs, and a run that may proceed is current.
func checkWorkspacePhase(_ *Document, _ string, r *Record) string {
	if r.Then != nil {
		return "a next run, which only instances have"
	}
	switch {
	case !r.Phase.Live():
		if len(r.Open) > 0 {
			return "ended, but a run is open"
		}
		return ""
	case r.Run != nil:
		if r.Phase != Updating || r.Run.Ask == nil || r.Run.Kind != RunPlan && r.Run.Kind != RunApply {
			return fmt.Sprintf("%s, with a run %s", r.Phase, r.Run.Kind)
		}
		if r.Run.Force && r.Run.Cancel == "" {
			return "killed before it was cancelled"
		}
	case nextOpenRun(r) >= 0:
		return "a run is waiting, but none is active"
	case hasPlanToConfirm(r) != (r.Phase == Planned), r.Phase != Planned && r.Phase != Ready:
		return fmt.Sprintf("%s, but nothing is running", r.Phase)
	}
	return ""
}

// checkWorkspacePlans checks that only confirmed or auto-applied plans are applied, and
// never a speculative one.
func checkWorkspacePlans(_ *Document, _ string, r *Record) string {
	for _, run := range openRuns(r) {
		switch {
		case run.Ask == nil:
		case (run.Kind == RunApply) != (run.Approved != ""):
			return "an apply of an unconfirmed plan"
		case run.Approved != "" && run.Approved != run.Plan:
			return "another plan was confirmed"
		case run.Approved != "" && run.Ask.Speculative:
			return "a plan that is never applied was confirmed"
		case run.Approved != "" && run.Confirmed == nil && (!run.Ask.AutoApply || run.Ask.Save):
			return "the plan was not confirmed"
		case run.Plan != "" && (run.Planned == 0 || !run.Changes):
			return "a plan without an attempt, or without changes"
		}
	}
	return ""
}
