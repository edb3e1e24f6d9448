// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"maps"
	"slices"
)

const maxRecord = 16 << 10 // bytes of a record as JSON, but for what a pending update brings

// weight is about how many bytes a record takes as JSON.
func (r *Record) weight() int {
	n := 700 + r.Switch.weight() + len(r.Name) + len(r.Template) + len(r.Snapshot) + len(r.Reason) + len(r.Key)
	n += rawSize(r.Parameters) + rawSize(r.Outputs) + claimsSize(r.Claims)
	n += len(r.Owner.ID) + len(r.Owner.Issuer) + len(r.Owner.Label)
	for _, run := range []*Run{r.Run, r.Then} {
		if run != nil {
			n += run.weight()
		}
	}
	for i := range r.Runs {
		n += r.Runs[i].weight()
	}
	for i := range r.Open {
		n += r.Open[i].weight()
	}
	for i := range r.Events {
		n += 100 + len(r.Events[i].Actor) + len(r.Events[i].Detail)
	}
	for i := range r.Conditions {
		n += 60 + len(r.Conditions[i].Message)
	}
	n += 150*len(r.Notices) + r.Pending.weight() + r.Offer.weight()
	if r.Connection != nil {
		n += 60 + len(r.Connection.URL) + len(r.Connection.Message)
	}
	return n
}

func (s *Switching) weight() int {
	if s == nil {
		return 0
	}
	return 300 + len(s.SaidBy.Issuer) + len(s.SaidBy.Subject) + len(s.SaidBy.Label)
}

func (p *Pending) weight() int {
	if p == nil {
		return 0
	}
	n := 300 + len(p.Why)
	if p.Update != nil {
		n += 500 + rawSize(p.Update.Parameters)
	}
	return n
}

func (g *Gift) weight() int {
	if g == nil {
		return 0
	}
	return 150 + len(g.To.ID) + 2*len(g.To.Issuer) + len(g.To.Label) + len(g.By.Subject) + len(g.By.Label)
}

func (r *Run) weight() int {
	return 500 + len(r.Why) + len(r.Error) + len(r.Cancel) + len(r.Source.Module) + len(r.Source.Chart) + 3*71 + 2*len(r.Plan) + rawSize(r.Parameters)
}

// weight is about how many bytes all records and templates take.
func (d *Document) weight() int {
	n := 200 * len(d.Requests)
	for _, r := range d.Records {
		n += r.weight()
	}
	for _, t := range d.Templates {
		n += 2000 + len(t.Inputs) + len(t.Chart) + len(t.Description)
	}
	return n
}

// size is how many bytes a record takes, but for the parameters of a run and of a change
// that waits for approval.
func (r *Record) size() int {
	body, err := json.Marshal(r)
	if err != nil {
		return maxRecord + 1
	}
	n := len(body)
	if r.Run != nil {
		n -= rawSize(r.Run.Parameters)
	}
	if r.Pending != nil && r.Pending.Update != nil {
		n -= rawSize(r.Pending.Update.Parameters)
	}
	return n
}

// fit drops from a record what is least missed until it is small enough: texts
// of old runs, old events and runs, then outputs, the largest first.
func (r *Record) fit() {
	limit := maxRecord
	if r.isWorkspace() {
		limit = maxWorkspaceSize
	}
	if 2*r.weight() <= limit || r.size() <= limit {
		return
	}
	for i := range r.Runs {
		if i > 0 {
			r.Runs[i].Error = clip(r.Runs[i].Error, 120)
		}
	}
	for _, keep := range []int{6, 3, 1} {
		if r.size() <= limit {
			return
		}
		r.Events = r.Events[:min(len(r.Events), keep)]
		r.Runs = r.Runs[:min(len(r.Runs), keep)]
	}
	if len(r.Outputs) > 0 {
		r.Outputs = maps.Clone(r.Outputs)
	}
	for len(r.Outputs) > 0 && r.size() > limit {
		names := sortedKeys(r.Outputs)
		delete(r.Outputs, slices.MaxFunc(names, func(a, b string) int { return len(r.Outputs[a]) - len(r.Outputs[b]) }))
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
