// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// clockNotices is the id that notices have which are of no instance.
const clockNotices = "clock"

// notify hands a notice to the queue, and says so.
func (r *Reconciler) notify(ctx context.Context, e lifecycle.Effect) error {
	if r.o.Queue != nil {
		id, template := e.Ref.ID, e.Ref.ID // of a pool it is the template
		rec, _, err := r.record(ctx, e.Ref.ID)
		switch {
		case err != nil:
			return err
		case rec != nil:
			template = rec.Template
		case id == clockNotices:
			id, template = "", ""
		default:
			id = ""
		}
		if _, err := r.o.Queue.Add(ctx, e.Notice.ID, noticeJob(id, template, e.Notice)); err != nil {
			return err
		}
	}
	return r.tell(ctx, lifecycle.Noticed{ID: e.Ref.ID, Notice: e.Notice.ID})
}

// archive writes what is kept of a final record.
func (r *Reconciler) archive(ctx context.Context, id string) error {
	rec, _, err := r.record(ctx, id)
	if err != nil || rec == nil {
		return err
	}
	repo, _, err := r.sources().repo(rec.Template, id)
	if err != nil {
		return err
	}
	b, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	err = repo.PutFinal(ctx, id, b)
	if err != nil && !errors.Is(err, oci.ErrExists) { // a leader that was cut off wrote it
		return err
	}
	return r.tell(ctx, lifecycle.Archived{ID: id})
}

// remove deletes the tags of an instance that has ended, where the registry can,
// but for its record. One that is left to people keeps what they need to go on.
func (r *Reconciler) remove(ctx context.Context, id string) error {
	rec, _, err := r.record(ctx, id)
	if err != nil || rec == nil {
		return err
	}
	repo, workspace, err := r.sources().repo(rec.Template, id)
	if err != nil {
		return err
	}
	if rec.Phase != lifecycle.Orphaned {
		err := untagAll(ctx, repo.Repo, func(tag string) bool { return ofInstance(tag, id, workspace) })
		if err != nil {
			return err
		}
		queue, err := r.o.Client.Repo(r.o.Layout.QueueRepo())
		if err != nil {
			return err
		}
		if err := untag(ctx, queue, records.EntryTag(id)); err != nil && !cannotDelete(err) {
			return err
		}
	}
	return r.tell(ctx, lifecycle.Removed{ID: id})
}

// ofInstance reports whether a tag is of an instance, and not its record.
func ofInstance(tag, id, workspace string) bool {
	if strings.HasPrefix(tag, "cv-"+id+"-") { // an upload for a workspace
		return true
	}
	if t, ok := records.ParseInstanceTag(tag); ok {
		return t.ID == id && t.Kind != records.TagFinal
	}
	t, ok := format.ParseStateTag(tag)
	return ok && t.Fragment == workspace
}

// untagAll deletes the tags that match, unless the registry deletes none.
func untagAll(ctx context.Context, r *oci.Repo, match func(tag string) bool) error {
	list, err := r.Snapshot(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, tag := range list.Tags {
		if !match(tag) {
			continue
		}
		err := untag(ctx, r, tag)
		if cannotDelete(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func untag(ctx context.Context, r *oci.Repo, tag string) error {
	err := r.Untag(ctx, tag)
	if errors.Is(err, oci.ErrNotFound) {
		return nil
	}
	return err
}

func cannotDelete(err error) bool {
	return errors.Is(err, oci.ErrUnsupported) || errors.Is(err, oci.ErrDenied)
}
