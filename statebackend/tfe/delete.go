// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// deleteWorkspace deletes a workspace under a temporary lock; safe-delete one without resources.
func (s workspaceWrites) deleteWorkspace(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error {
	at, err := s.records.books.stores.locate(r.Context(), p)
	if err != nil {
		return err
	}
	ok, err := at.isPresent(r.Context())
	switch {
	case err != nil:
		return err
	case !ok && at.deletedBy(g, s.gate.now()):
		g.Record(p.String(), access.Change{Action: "delete", Status: http.StatusNoContent, Found: true})
		return noContent(w)
	case !ok:
		return noWorkspace(p)
	}
	if err := notOlder(h, p, at.record); err != nil {
		return err
	}
	end, err := s.records.books.endVariables(r, p, g)
	if err != nil {
		return err
	}
	defer s.locker.recent.forget(p)
	info := s.locker.lockInfo(r, p, h, g)
	info.ID = uuid.NewString()
	info.Operation = "delete"
	v, err := at.removeState(r.Context(), info, authorOf(g.Caller), func(ctx context.Context, l *statebackend.Lock) error {
		if strings.HasSuffix(r.URL.Path, "/actions/safe-delete") {
			if err := checkManagesNothing(ctx, l); err != nil {
				return err
			}
		}
		if s.records.books.runs != nil {
			if err := s.records.books.runs.End(ctx, p.asWorkspace(), g.Caller); err != nil {
				return runError(err)
			}
		}
		return end(ctx)
	})
	if err != nil {
		if _, held := errors.AsType[*statebackend.LockedError](err); held {
			return conflictError("workspace is locked", "%w", err)
		}
		return err
	}
	s.records.wrote(r.Context(), at.name)
	recordWrite(g, p, access.Change{Action: "delete"}, v, nil)
	return noContent(w)
}

// endVariables returns what deletes the variables and settings of a workspace, so that a new one of
// its name has none. If there are some, that needs the right to set them.
func (s *books) endVariables(r *http.Request, p workspaceRef, g access.Grant) (end func(context.Context) error, err error) {
	book, err := s.open(r.Context(), p.organization)
	if err != nil {
		return nil, err
	}
	some, err := book.Variables(r.Context(), p.workspace)
	if err != nil {
		return nil, err
	}
	settings, err := book.Settings(r.Context(), p.workspace)
	if err != nil {
		return nil, err
	}
	if own := settings[p.workspace]; len(some) > 0 || len(own.Options) > 0 {
		_, err = s.gate.allowRef(r, rights.Run, p)
	} else if own.Project != "" {
		err = s.allowProjectChange(r, p, own.Project)
	}
	return func(ctx context.Context) error { return book.EndWorkspace(ctx, p.workspace, authorOf(g.Caller)) }, err
}

// deletedBy reports whether the caller has just deleted the workspace: a repeated request.
func (at located) deletedBy(g access.Grant, now time.Time) bool {
	r := at.record
	return r != nil && r.Deleted && r.By == authorOf(g.Caller) && now.Sub(r.Updated) <= repeated
}

// removeState deletes a workspace, and returns the version that says so, if it had a state.
func (at located) removeState(ctx context.Context, info statebackend.LockInfo, by string, may func(context.Context, *statebackend.Lock) error) (v statebackend.Version, err error) {
	records := at.records
	if !at.split {
		records = nil
	}
	err = at.store.Hold(ctx, at.workspace, info, func(l *statebackend.Lock) error {
		if err := may(ctx, l); err != nil {
			return err
		}
		err := l.DeleteWorkspace(ctx, records, at.workspaceRef.workspace, by)
		if head, _ := l.Head(ctx); head.Deleted && head.LockID == info.ID { // else there was no state
			v = head
		}
		return err
	})
	return v, err
}

// checkManagesNothing refuses a state with resources, and one that cannot be read.
func checkManagesNothing(ctx context.Context, l *statebackend.Lock) error {
	state, _, err := l.Get(ctx)
	if err != nil {
		return oci.IgnoreNotFound(err)
	}
	some, err := states.HasResources(state)
	switch {
	case errors.Is(err, states.ErrEncrypted):
		return conflictError("workspace cannot be safely deleted", "the state is encrypted, so it is unknown here whether the workspace manages resources")
	case err != nil:
		return err
	case some:
		return conflictError("workspace cannot be safely deleted", "the workspace still manages resources: destroy them first, or delete it with -force")
	}
	return nil
}
