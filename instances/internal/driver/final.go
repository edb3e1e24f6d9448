// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// clockNotices is the id of notices that concern no instance.
const clockNotices = "clock"

func (r *Driver) queueNotice(ctx context.Context, e lifecycle.Effect) error {
	if r.o.Queue != nil {
		// for a pool the id is the template
		id := e.Ref.ID
		template := e.Ref.ID
		rec, _, err := r.findRecord(ctx, e.Ref.ID)
		switch {
		case err != nil:
			return err
		case rec != nil:
			template = rec.Template
		case id == clockNotices:
			id = ""
			template = ""
		default:
			id = ""
		}
		if _, err := r.o.Queue.Add(ctx, e.Notice.ID, noticeJob(id, template, e.Notice)); err != nil {
			return err
		}
	}
	return r.report(ctx, lifecycle.Noticed{ID: e.Ref.ID, Notice: e.Notice.ID})
}

// archiveRecord writes the final record of an instance to its repository.
func (r *Driver) archiveRecord(ctx context.Context, id string) error {
	rec, _, err := r.findRecord(ctx, id)
	if err != nil || rec == nil {
		return err
	}
	repo, _, err := repoOf(&r.o, rec.Template, id)
	if err != nil {
		return err
	}
	b, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	err = repo.PutFinal(ctx, id, b)
	if err != nil && !errors.Is(err, oci.ErrExists) { // written by a leader that was cut off before its report
		return err
	}
	return r.report(ctx, lifecycle.Archived{ID: id})
}

// removeTags deletes an ended instance's tags, but its record; an orphan keeps what a run needs.
func (r *Driver) removeTags(ctx context.Context, id string) error {
	rec, _, err := r.findRecord(ctx, id)
	if err != nil || rec == nil {
		return err
	}
	repo, workspace, err := repoOf(&r.o, rec.Template, id)
	if err != nil {
		return err
	}
	if rec.Phase != lifecycle.Orphaned {
		err := untagAll(ctx, repo.Repo, func(tag string) bool { return isTagOf(tag, id, workspace) })
		if err != nil {
			return err
		}
		queue, err := r.o.Client.Repo(r.o.Layout.QueueRepo())
		if err != nil {
			return err
		}
		if err := oci.IgnoreNotFound(queue.Untag(ctx, records.EntryTag(id))); err != nil && !isDeleteRefused(err) {
			return err
		}
	}
	return r.report(ctx, lifecycle.Removed{ID: id})
}

// isTagOf reports whether a tag belongs to an instance and is not its record.
func isTagOf(tag, id, workspace string) bool {
	if strings.HasPrefix(tag, "cv-"+id+"-") { // an upload for a workspace
		return true
	}
	if t, ok := records.ParseInstanceTag(tag); ok {
		return t.ID == id && t.Kind != records.TagFinal
	}
	t, ok := format.ParseStateTag(tag)
	return ok && t.Fragment == workspace
}

// untagAll deletes the tags that match, unless the registry cannot delete tags.
func untagAll(ctx context.Context, r *oci.Repo, match func(tag string) bool) error {
	list, err := r.Snapshot(ctx)
	if err != nil {
		return oci.IgnoreNotFound(err)
	}
	for _, tag := range list.Tags {
		if !match(tag) {
			continue
		}
		err := oci.IgnoreNotFound(r.Untag(ctx, tag))
		if isDeleteRefused(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isDeleteRefused(err error) bool {
	return errors.Is(err, oci.ErrUnsupported) || errors.Is(err, oci.ErrDenied)
}

// auditChanges records what the server itself did since the last call: due decisions, outcomes of
// runs. Requests are recorded when they arrive. The first call as leader records nothing.
func (r *Driver) auditChanges(ctx context.Context, now *lifecycle.Document) {
	before := r.audited
	r.audited = now
	if r.o.Audit == nil || before == nil || before == now {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(now.Records)) {
		was := before.Records[id]
		is := now.Records[id]
		if was == is {
			continue
		}
		if was == nil {
			was = &lifecycle.Record{}
		}
		for _, own := range listOwnActs(was, is) {
			access.RecordOwn(ctx, r.o.Audit, own)
		}
	}
}

// listOwnActs returns what happened between two documents other than by request, oldest first.
func listOwnActs(was, is *lifecycle.Record) []access.Own {
	kind := rights.Kind(addr.KindInstance)
	address := is.Template + "/" + is.ID // as in the records of package portal
	if is.Workspace != "" {
		kind = rights.Kind(addr.KindState)
		address = is.Organization() + "/" + is.Workspace
	}
	var acts []access.Own
	for _, run := range addedTo(was.Runs, is.Runs, func(u lifecycle.Run) any { return u.N }) {
		if !run.Applied && run.Kind != lifecycle.RunApply && run.Kind != lifecycle.RunDestroy {
			continue
		}
		own := access.Own{Action: rights.Action("run-" + string(run.Kind)), Kind: kind, Address: address, Version: run.Source.Version, Digest: run.Source.Digest, Outcome: access.Failed}
		if run.Result == lifecycle.Done {
			own.Outcome = access.Done
		}
		own.Run = run.N
		own.Detail = string(run.Result)
		own.For = access.Caller{Subject: run.By.Subject, Issuer: run.By.Issuer}
		acts = append(acts, own)
	}
	for _, h := range addedTo(was.Events, is.Events, func(h lifecycle.History) any { return h }) {
		if h.Actor == "" && h.Run == 0 {
			acts = append(acts, access.Own{Action: rights.Action(h.Action), Kind: kind, Address: address, Version: is.Source.Version, Detail: h.Detail, Outcome: access.Done})
		}
	}
	return acts
}

// addedTo returns what a list, newest first, has more than its earlier version, oldest first.
func addedTo[T any](was, is []T, key func(T) any) []T {
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
