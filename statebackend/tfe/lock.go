// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const operation = "tfe.v2"

// lockBody is the tools' body, which some versions of go-tfe do not wrap in a document.
type lockBody struct {
	Reason string `json:"reason"`
	Data   struct {
		Attributes struct {
			Reason string `json:"reason"`
		} `json:"attributes"`
	} `json:"data"`
}

type locks struct {
	gate   *gate
	docs   workspaceDocs
	locker locker
	runs   Runs
}

func (s locks) addRoutes(t table) {
	t.onWorkspace("POST", "workspaces/{id}/actions/lock", rights.Write, s.lock)
	t.onWorkspace("POST", "workspaces/{id}/actions/unlock", rights.Write, s.unlock)
	t.onWorkspace("POST", "workspaces/{id}/actions/force-unlock", manage, s.forceUnlock)
}

type locker struct {
	gate   *gate
	stores *stores
	recent *recent
	signer signer
}

// lock takes the lock of a workspace. One that is held is 409: at 423 the tools never wait.
func (s locks) lock(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error {
	var body lockBody
	if err := s.gate.readBody(w, r, smallBody, &body); err != nil {
		return err
	}
	info := s.locker.lockInfo(r, p, h, g)
	info.Info = strings.TrimPrefix(printableText(body.Reason+body.Data.Attributes.Reason)+", "+info.Info, ", ")
	known := s.locker.recent.get(readerOf(r, p, g), s.gate.now()).list
	if h == "" {
		known = nil // another list, since the workspace must be checked for locks before the claim
	}
	l, fresh, err := s.locker.takeExisting(r.Context(), p, h, info, known)
	if err != nil {
		return err
	}
	c := access.Change{Action: "lock", Lock: info.ID, Status: http.StatusOK, Found: !fresh}
	if statebackend.IsRepeated(l, statebackend.Version{}) {
		c.Detail = access.Again
	}
	g.Record(p.String(), c)
	return s.answerLock(w, r, p, h, g, &statebackend.Held{Info: info})
}

func (s locker) lockInfo(r *http.Request, p workspaceRef, h commandID, g access.Grant) statebackend.LockInfo {
	return statebackend.LockInfo{
		ID: lockIDOf(h, g.Caller), Operation: operation, Created: s.gate.now().UTC(), Who: s.holderName(r, g.Caller), Info: s.runPage(r, p, g),
		Version: clipText(printableText(r.Header.Get("Terraform-Version")), maxShort),
		Path:    clipText(printableText(p.String()), 2*maxShort),
	}
}

// runPage returns the page of the run that calls, on this server or in a CI system; else "".
func (s locker) runPage(r *http.Request, p workspaceRef, g access.Grant) string {
	base := s.signer.publicURL(r)
	if id, n, ok := runOf(g.Caller); ok && base != "" {
		return strings.TrimSuffix(base, "/") + "/ui/runs/" + url.PathEscape(p.organization) + "/" + url.PathEscape(p.workspace) + "/" + id + "." + n
	}
	return printableText(g.Origin["run"])
}

// runOf returns the run that a token is for: its subject is ID/NUMBER/ATTEMPT.
func runOf(c access.Caller) (id, number string, ok bool) {
	part := strings.Split(c.Subject, "/")
	if c.Mode != "run" || len(part) != 3 {
		return "", "", false
	}
	return part[0], part[1], true
}

// maxShort bounds, in characters, a field of the lock information, whose size is limited.
const maxShort = 64

// holderName names a caller, with the address that the request comes from.
func (s locker) holderName(r *http.Request, c access.Caller) string {
	name := nameOf(c)
	if _, n, ok := runOf(c); ok {
		name = "run " + n
	}
	return clipText(name, 2*maxShort) + "@" + clipText(printableText(s.gate.kit.Guard.ClientIP(r)), maxShort)
}

// takeExisting takes the lock of an existing workspace. known is a recent list or nil. fresh is
// false if this server had the lock already.
func (s locker) takeExisting(ctx context.Context, p workspaceRef, h commandID, info statebackend.LockInfo, known *statebackend.Listing) (l *statebackend.Lock, fresh bool, err error) {
	s.recent.forget(p)
	store, err := s.stores.openNamed(ctx, p.organization)
	if err != nil {
		return nil, false, err
	}
	if reserved, _ := s.gate.split(p.organization); !reserved {
		return s.takeIn(ctx, store, known, p.workspace, h, info, func(ctx context.Context, l *statebackend.Listing) error {
			at, err := s.stores.locateIn(ctx, p, store, l)
			if err != nil {
				return err
			}
			return at.mayLock(ctx, h)
		})
	}
	at, err := s.stores.locate(ctx, p)
	if err != nil {
		return nil, false, err
	}
	if err := at.mayLock(ctx, h); err != nil {
		return nil, false, err
	}
	return s.takeIn(ctx, at.store, nil, at.workspace, h, info, func(context.Context, *statebackend.Listing) error { return nil })
}

// mayLock refuses a workspace that does not exist, or no longer exists for this command.
func (at located) mayLock(ctx context.Context, h commandID) error {
	if err := at.mustExist(ctx); err != nil {
		return err
	}
	return notOlder(h, at.workspaceRef, at.record)
}

// takeIn locks if fit accepts the first list. A command may repeat the request for its lock. A
// script whose subject has the lock is refused: another script of that subject took it.
func (s locker) takeIn(ctx context.Context, store *statebackend.Store, known *statebackend.Listing, workspace string, h commandID, info statebackend.LockInfo, fit func(context.Context, *statebackend.Listing) error) (l *statebackend.Lock, fresh bool, err error) {
	lockWhen := store.LockWhen
	if known != nil {
		lockWhen = known.LockWhen
	}
	l, err = lockWhen(ctx, workspace, info, func(ctx context.Context, l *statebackend.Listing) error {
		fresh = true
		if err := fit(ctx, l); err != nil || h != "" {
			return err
		}
		return lockFree(ctx, l, workspace)
	})
	if _, held := errors.AsType[*statebackend.LockedError](err); held {
		return nil, false, conflictError("workspace already locked", "%w", err)
	}
	taken := err == nil && h == "" && !fresh
	if err == nil && h == "" && fresh { // another script of the subject may have asked another server
		if taken, err = statebackend.WithdrawShared(context.WithoutCancel(ctx), l); err != nil {
			return nil, false, err
		}
	}
	if taken {
		return nil, false, conflictError("workspace already locked", "workspace %q is already locked by you, possibly by another script: unlock it first", workspace)
	}
	return l, fresh, err
}

func lockFree(ctx context.Context, l *statebackend.Listing, workspace string) error {
	held, err := l.Held(ctx, workspace)
	if err != nil || held == nil {
		return err
	}
	return conflictError("workspace already locked", "workspace %q is locked by %s since %s, lock id %s", workspace, orUnknown(held.Info.Who), formatTime(held.Info.Created), held.Info.ID)
}

// answerLock answers with the workspace and its lock only: enough for clients, without a request.
func (s locks) answerLock(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant, held *statebackend.Held) error {
	d := s.docs.workspaceResource(p, h, g, nil).withLock(held)
	delete(d.Relationships, "project")
	return sendDocument(w, http.StatusOK, document{Data: s.docs.forClient(r, d)})
}

// unlock ends the lock of the command, or of the subject for a stable id. If another client holds
// the next lock, the request of a command is a repetition and succeeds, since no other client has
// its lock id. A script's is refused, since scripts of one subject share an id.
func (s locks) unlock(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error {
	at, err := s.locker.findLocked(r.Context(), p)
	if err != nil {
		return err
	}
	defer s.locker.recent.forget(p)
	id := lockIDOf(h, g.Caller)
	ended, err := at.store.Release(r.Context(), at.workspace, id)
	if e, ok := errors.AsType[*statebackend.LockedError](err); ok && !errors.Is(err, statebackend.ErrAnother) {
		if h == "" {
			return conflictError("workspace is locked by User "+orUnknown(e.Held.Who), "%w", err)
		}
		return s.answerLock(w, r, p, h, g, &statebackend.Held{Info: e.Held})
	}
	if err != nil {
		return err
	}
	g.Record(p.String(), access.Change{Action: "unlock", Lock: id, Status: http.StatusOK, Found: !ended})
	return s.answerLock(w, r, p, h, g, nil)
}

// findLocked finds the locks of a workspace, existing or not, if possible without a request.
func (s locker) findLocked(ctx context.Context, p workspaceRef) (located, error) {
	if reserved, _ := s.gate.split(p.organization); reserved {
		return s.stores.locate(ctx, p)
	}
	store, err := s.stores.openNamed(ctx, p.organization)
	return located{workspaceRef: p, name: p.organization, store: store, workspace: p.workspace}, err
}

// checkNotExecuting refuses to end a lock that may belong to an executing run.
func (s locks) checkNotExecuting(ctx context.Context, p workspaceRef) error {
	if s.runs == nil {
		return nil
	}
	view, err := s.runs.View(ctx, p.asWorkspace())
	if err != nil {
		return runError(err)
	}
	for _, run := range view.Runs {
		if run.Status.isExecuting() {
			id := runID{p, view.Record, run.N}
			return conflictError(fmt.Sprintf("workspace is locked by Run %s", id), "run %s of workspace %q is %s\nhint: cancel the run instead", id, p, run.Status)
		}
	}
	return nil
}

// forceUnlock ends the lock, whichever client holds it. The holder's next write is refused.
func (s locks) forceUnlock(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error {
	if err := s.checkNotExecuting(r.Context(), p); err != nil {
		return err
	}
	at, err := s.locker.findLocked(r.Context(), p)
	if err != nil {
		return err
	}
	list, err := at.store.List(r.Context())
	if err != nil {
		return err
	}
	held, err := list.Held(r.Context(), at.workspace)
	if err != nil {
		return err
	}
	if held == nil {
		return conflictError("workspace is not locked", "workspace %q is not locked", p)
	}
	defer s.locker.recent.forget(p)
	err = at.store.ForceUnlock(r.Context(), at.workspace, held.Info.ID)
	if errors.Is(err, oci.ErrNotFound) { // released meanwhile
		return conflictError("workspace is not locked", "workspace %q is not locked", p)
	}
	if err != nil {
		return err
	}
	g.Record(p.String(), access.Change{Action: "force-unlock", Lock: held.Info.ID, Status: http.StatusOK})
	return s.answerLock(w, r, p, h, g, nil)
}
