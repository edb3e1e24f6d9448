// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/span"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/description"
)

// target is an instance as it would be after the pending request is approved.
type target struct {
	source     template.Source
	snapshot   string
	parameters map[string]json.RawMessage
}

// pendingDoc is what waits for approval, without values; nil: nothing waits.
func pendingDoc(r *lifecycle.Record) *api.Pending {
	if lifecycle.Awaits(r) == "" {
		return nil
	}
	doc := &api.Pending{What: api.PendingLaunch, By: personDoc(r.CreatedBy), At: r.CreatedAt}
	if p := r.Pending; p != nil {
		doc.By = personDoc(p.By)
		doc.At = p.At
		doc.Reason = p.Why
	}
	switch {
	case r.Phase == lifecycle.Planned:
		doc.What = api.PendingPlan
		doc.By = personDoc(r.Run.By)
		doc.At = r.Run.EndedAt
		doc.Reason = r.Run.Why
		doc.Run = r.Run.N
		if r.Run.First != nil {
			doc.First = personDoc(*r.Run.First)
		}
	case r.Pending == nil || r.Phase == lifecycle.Requested:
		doc.TTL = span.Span(r.TTL)
	case r.Pending.Update != nil:
		doc.What = api.PendingUpdate
	default:
		doc.What = api.PendingExtend
		doc.Ends = r.ExpiresAt
		doc.Until = r.Pending.Until
	}
	return doc
}

// fill adds what the approver is shown: everything that the approval covers.
func fill(doc *api.Pending, r *lifecycle.Record) {
	to := target{r.Source, r.Snapshot, r.Parameters}
	switch {
	case r.Phase == lifecycle.Planned:
		to.take(r.Run.Source, r.Run.Snapshot, r.Run.Parameters)
	case r.Pending != nil && r.Pending.Update != nil:
		u := r.Pending.Update
		to.take(u.Source, u.Snapshot, u.Parameters)
	}
	doc.Source = sourceDoc(to.source)
	doc.Template = to.snapshot
	var before map[string]json.RawMessage
	if !r.ReadyAt.IsZero() {
		was := sourceDoc(r.Source)
		doc.Was = &was
		doc.TemplateWas = r.Snapshot
		before = r.Parameters
	}
	doc.Values = valueChanges(before, to.parameters, r.Sensitive)
}

func (t *target) take(s template.Source, snapshot string, parameters map[string]json.RawMessage) {
	t.source = s
	t.snapshot = cmp.Or(snapshot, t.snapshot)
	if parameters != nil {
		t.parameters = parameters
	}
}

// valueChanges lists all values by name, before and after the change.
func valueChanges(before, after map[string]json.RawMessage, sensitive []string) []api.ValueChange {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	maps.Copy(all, after)
	var rows []api.ValueChange
	for _, name := range slices.Sorted(maps.Keys(all)) {
		row := api.ValueChange{Name: name, Old: before[name], New: after[name]}
		row.Changed = string(row.Old) != string(row.New)
		if slices.Contains(sensitive, name) {
			row.Old = mask(row.Old)
			row.New = mask(row.New)
		}
		rows = append(rows, row)
	}
	return rows
}

func mask(value json.RawMessage) json.RawMessage {
	if value == nil {
		return nil
	}
	return hidden()
}

// optionalReason refuses a reason that is not readable text.
func optionalReason(reason string) error {
	if reason == "" {
		return nil
	}
	return checkReason(reason)
}

const (
	maxChanges = 200             // of a module that are shown
	compareFor = 2 * time.Second // the longest that an answer waits
)

// compare adds the differences between the two versions of the module. Those who see
// them may also read the plan and log of the run, so they learn nothing else of the
// module.
func compare(ctx context.Context, c Catalog, p *api.Pending) error {
	by, ok := c.(Comparer)
	if !ok {
		p.Uncompared = "modules are not read here"
		return nil
	}
	ctx, done := context.WithTimeout(ctx, compareFor)
	defer done()
	all, err := by.Compare(ctx, *p.Was, p.Source)
	if err != nil {
		p.Uncompared = "one of them cannot be read now"
		return err
	}
	slices.SortStableFunc(all, func(a, b description.Difference) int {
		switch {
		case a.Breaking == b.Breaking:
			return 0
		case a.Breaking:
			return -1
		}
		return 1
	})
	p.Left = max(0, len(all)-maxChanges)
	for _, d := range all[:len(all)-p.Left] {
		p.Changes = append(p.Changes, api.ModuleChange(d))
	}
	return nil
}
