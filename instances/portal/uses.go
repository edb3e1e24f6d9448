// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/usage"
)

// FindUsers returns the instances that have, or may have, resources of a module, as far as the list of instances
// shows them to a caller, and the number of owners of the others: one owner cannot fill an answer.
func FindUsers(d *lifecycle.Document, g access.Grant, groupAge time.Duration, module string) (seen []usage.UsedBy, others int) {
	c, ok := callerOf(g, groupAge)
	as := c.judgeFor(d)
	hidden := map[template.Owner]bool{}
	for _, r := range d.Records {
		used := usesOf(r, module)
		switch {
		case len(used) == 0 || !r.Phase.Live() && r.Phase != lifecycle.Orphaned:
		case ok && as.role(r)&reads != 0:
			seen = append(seen, used...)
		default:
			hidden[template.Owner{Kind: r.Owner.Kind, Issuer: r.Owner.Issuer, ID: r.Owner.ID}] = true
		}
	}
	return seen, len(hidden)
}

// usesOf returns the versions of a module in an instance: the one that was applied, and those of later runs that
// may have changed something. A request uses nothing until an apply of it begins.
func usesOf(r *lifecycle.Record, module string) (all []usage.UsedBy) {
	since := map[string]time.Time{}
	runs := r.Runs
	if r.Run != nil {
		runs = append([]lifecycle.Run{*r.Run}, runs...)
	}
	if r.Source.Module == module && (r.Applied || r.Phase == lifecycle.Provisioning) {
		since[r.Source.Version] = r.CreatedAt
	}
	settled := false
	for _, u := range runs {
		its := u.Source.Module == r.Source.Module && u.Source.Version == r.Source.Version
		if u.Applied && settled && !its { // an earlier version
			break
		}
		if u.Applied && u.Source.Module == module {
			since[u.Source.Version] = u.StartedAt
		}
		settled = settled || u.Applied && its && u.Result == lifecycle.Done
	}
	by := r.Owner.Label
	if by == "" && r.Owner.ID != "" {
		by = r.Owner.Kind + ":" + r.Owner.ID
	}
	for version, at := range since {
		all = append(all, usage.UsedBy{Instance: r.ID, Item: usage.ModuleItem(module, version), Since: at, Written: at, By: by, Recorded: usage.Partial})
	}
	return all
}
