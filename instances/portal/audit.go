// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
)

// audit records what the server did to instances by itself since it looked last: what
// the machine decided when something was due, and what came of runs. What people asked
// for is recorded where they asked. The first look, after the start of a leader, finds
// nothing: the leader before it has recorded that.
func (r *Reconciler) audit(ctx context.Context, now *lifecycle.Document) {
	before := r.audited
	r.audited = now
	if r.o.Audit == nil || before == nil || before == now {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(now.Records)) {
		was, is := before.Records[id], now.Records[id]
		if was == is {
			continue
		}
		if was == nil {
			was = &lifecycle.Record{}
		}
		for _, own := range ownActs(was, is) {
			access.RecordOwn(ctx, r.o.Audit, own)
		}
	}
}

// ownActs are what happened to a record between two documents that no request did,
// oldest first.
func ownActs(was, is *lifecycle.Record) []access.Own {
	kind, address := access.Kind(addr.KindInstance), recordAddress(is)
	if is.Workspace != "" {
		kind, address = access.Kind(addr.KindState), strings.TrimPrefix(is.Template, addr.TemplateReserved+"/")+"/"+is.Workspace
	}
	var acts []access.Own
	for _, run := range fresh(was.Runs, is.Runs, func(u lifecycle.Run) any { return u.N }) {
		if !run.Applied && run.Kind != lifecycle.RunApply && run.Kind != lifecycle.RunDestroy {
			continue
		}
		own := access.Own{Action: access.Action("run-" + string(run.Kind)), Kind: kind, Address: address, Version: run.Source.Version, Digest: run.Source.Digest, Outcome: access.Failed}
		if run.Result == lifecycle.Done {
			own.Outcome = access.Done
		}
		own.Detail = fmt.Sprintf("run %d: %s", run.N, run.Result)
		own.For = access.Caller{Subject: run.By.Subject, Issuer: run.By.Issuer}
		acts = append(acts, own)
	}
	for _, h := range fresh(was.Events, is.Events, func(h lifecycle.History) any { return h }) {
		if h.Actor == "" && h.Run == 0 {
			acts = append(acts, access.Own{Action: access.Action(h.Action), Kind: kind, Address: address, Version: is.Source.Version, Detail: h.Detail, Outcome: access.Done})
		}
	}
	return acts
}

// fresh are the elements of a list, newest first, that are not in it as it was; they
// are returned oldest first.
func fresh[T any](was, is []T, key func(T) any) []T {
	had := map[any]bool{}
	for _, e := range was {
		had[key(e)] = true
	}
	var added []T
	for _, e := range slices.Backward(is) {
		if !had[key(e)] {
			added = append(added, e)
		}
	}
	return added
}
