// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"bytes"
	"context"
	"crypto/md5" // the protocol's checksum, against damage, not against attackers
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const (
	// maxInline bounds the body that announces a state, with its outputs or, before 1.6, all of it.
	maxInline = 32 << 20
	// inlineCopies is how often it is in memory: the body itself, and twice its content.
	inlineCopies = 3
	// maxCommandAge is how long a command that never locked may write: a lock that was ended by
	// force may have left no trace after that.
	maxCommandAge = 6 * 24 * time.Hour
	maxLineage    = 256
)

type announcement struct {
	Serial  *uint64
	Lineage string
	MD5     string
	Force   bool
	// State is the state itself, unless it is uploaded. The document may hold more of its content,
	// in clear even if the tool encrypts the state; that is not read.
	State []byte
}

type announcementDoc struct {
	Data struct {
		Attributes    announcement
		Relationships struct {
			Run struct{ Data ref } // that executes the tool
		}
	}
}

func (a announcement) check() error {
	sum, err := hex.DecodeString(a.MD5)
	switch {
	case a.Serial == nil:
		return invalidError("serial is missing")
	case err != nil || len(sum) != md5.Size:
		return invalidError("md5 must be the 32 hex digits of the MD5 sum of the state")
	case a.Lineage != "" && !validLabel(a.Lineage, maxLineage):
		return invalidError("lineage must be at most %d characters, without invisible ones", maxLineage)
	}
	return nil
}

type versionWrites struct {
	gate     *gate
	signer   signer
	writer   stateWriter
	memory   *service.Limiter[string]
	maxState int64
}

func (s versionWrites) addRoutes(t table) {
	t.addLong("POST", "workspaces/{id}/state-versions", t.sendSnapshots(t.gate.workspaceHandler(rights.Write, s.createVersion)))
	t.onWorkspace("PATCH", "workspaces/{id}/state-versions", manage, s.rollback)
}

// createVersion begins the write of a state, or completes it if the state is in the body. All
// possible checks are here: the tools print this answer's text but not that of a failed upload.
func (s versionWrites) createVersion(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error {
	var d announcementDoc
	release, err := s.readAnnouncement(w, r, g, &d)
	if err != nil {
		return err
	}
	defer release()
	a := d.Data.Attributes
	if err := a.check(); err != nil {
		return err
	}
	t := signedUpload{
		Workspace: p.workspaceID(h), Lock: lockIDOf(h, g.Caller), Serial: *a.Serial, Lineage: a.Lineage, MD5: strings.ToLower(a.MD5), Force: a.Force,
		Tool: sendingTool(r), Run: d.Data.Relationships.Run.Data.ID,
	}
	if len(a.State) > 0 {
		v, err := s.writer.writeSigned(r, g, t, a.State)
		if err != nil {
			return err
		}
		return sendDocument(w, http.StatusCreated, document{Data: s.signer.versionOf(r, p, h, v)})
	}
	if s.signer.publicURL(r) == "" { // without it the tools send the state in the body
		return newRefusal(http.StatusBadRequest, "param is missing or the value is empty: state", "this server does not know its public URL; set public_url, or send the state in the body")
	}
	r, cancel := limitTime(r)
	defer cancel()
	if err := s.mayUpload(r.Context(), p, h, t); err != nil {
		recordWrite(g, p, t.asChange(), statebackend.Version{}, err)
		return err
	}
	data, err := s.pendingVersion(r, p, h, g, t)
	if err != nil {
		return err
	}
	return sendDocument(w, http.StatusCreated, document{Data: data})
}

// readAnnouncement reads the body; the caller calls release to free its memory.
func (s versionWrites) readAnnouncement(w http.ResponseWriter, r *http.Request, g access.Grant, d *announcementDoc) (release func(), err error) {
	if r.ContentLength > maxInline {
		return nil, newRefusal(http.StatusRequestEntityTooLarge, "too large", "the body exceeds %d MiB: upload in two steps", maxInline>>20)
	}
	release = func() {}
	if size := r.ContentLength; size < 0 || size > smallBody {
		if size < 0 {
			size = maxInline
		}
		if release, err = reserveMemory(s.memory, g.Caller, inlineCopies*size); err != nil {
			return nil, err
		}
	}
	if err := s.gate.readBody(w, r, maxInline, d); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (s versionWrites) pendingVersion(r *http.Request, p workspaceRef, h commandID, g access.Grant, t signedUpload) (resource, error) {
	a := versionAttributes{Serial: t.Serial, Lineage: t.Lineage, Status: statusPending, Processed: true}
	for kind, to := range map[signedKind]*string{signedState: &a.Upload, signedJSON: &a.JSONUpload} {
		t.Kind = kind
		token, err := s.signer.issue(t, g.Caller, uploadURLTime)
		if err != nil {
			return resource{}, err
		}
		*to = s.signer.address(r, "uploads/"+token)
	}
	return resource{Type: versionKind, ID: p.pendingID(t.Serial, h), Attributes: a}, nil
}

// mayUpload checks whether an announced state could be stored now; the upload checks that again.
func (s versionWrites) mayUpload(ctx context.Context, p workspaceRef, h commandID, t signedUpload) error {
	if at, l, mine := s.writer.stores.findHeld(ctx, p, t.Lock); mine {
		if err := at.store.Check(ctx, at.workspace, t.Lock); err != nil || t.Force {
			return err
		}
		if head, err := l.Head(ctx); !errors.Is(err, statebackend.ErrLockLost) {
			return at.followsHead(ctx, head, err, t)
		}
	}
	at, states, err := s.writer.stores.findForCommand(ctx, p, h)
	if err != nil {
		return err
	}
	if err := s.writer.mayWrite(states.Check(ctx, at.workspace, t.Lock), h, t); err != nil || t.Force {
		return err
	}
	head, err := at.describeHead(ctx, states)
	return at.followsHead(ctx, head, err, t)
}

// mayWrite is nil if the lock of a signed upload is held, or none was taken and it is free.
func (s stateWriter) mayWrite(err error, h commandID, t signedUpload) error {
	locked, isLocked := errors.AsType[*statebackend.LockedError](err)
	switch {
	case isLocked && h != "" && locked.Held.ID == lockOfWrite(t.Lock, t.Serial):
		return nil // the lock of this same write, from a process that may be gone
	case h == "" && (errors.Is(err, statebackend.ErrNotHeld) || errors.Is(err, statebackend.ErrLockEnded)):
		return conflictError("workspace not locked", "lock the workspace first")
	case !errors.Is(err, statebackend.ErrNotHeld):
		return err
	case s.gate.now().Sub(h.createdAt()) > maxCommandAge:
		return conflictError("lock lost", "this command started days ago and holds no lock: run it again")
	}
	return nil
}

func lockOfWrite(lock string, serial uint64) string {
	return lock + "-w" + strconv.FormatUint(serial, 10)
}

// followsHead decides from manifests whether the announced state may follow the head, which is read
// with err. An equal state is a repetition.
func (at located) followsHead(ctx context.Context, head statebackend.Version, err error, t signedUpload) error {
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return nil
	case err != nil:
		return err
	case head.Lineage != "" && t.Lineage != "" && head.Lineage != t.Lineage:
		return fmt.Errorf("lineage %q does not match %q of the current state, it belongs to another configuration: %w", t.Lineage, head.Lineage, statebackend.ErrStale)
	case t.Serial > head.Serial:
		return nil
	case t.Serial == head.Serial:
		same := false
		_, err := at.view(ctx, head.N, func(state []byte) error {
			same = checksum(state) == t.MD5
			return nil
		})
		if err != nil || same {
			return err
		}
	}
	return fmt.Errorf("serial %d does not follow the current %d: %w", t.Serial, head.Serial, statebackend.ErrStale)
}

func checksum(state []byte) string {
	sum := md5.Sum(state)
	return hex.EncodeToString(sum[:])
}

// rollback stores an earlier state again, under the lock of the request or else a temporary one.
func (s versionWrites) rollback(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error {
	var d struct {
		Data struct {
			Relationships struct {
				To struct{ Data ref } `json:"rollback-state-version"`
			}
		}
	}
	if err := s.gate.readBody(w, r, smallBody, &d); err != nil {
		return err
	}
	to, err := parseVersionID(d.Data.Relationships.To.Data.ID, s.gate.now())
	if err != nil || to.pending || to.workspaceRef != p {
		return invalidError("rollback-state-version must be a stored version of this workspace")
	}
	release, err := reserveMemory(s.memory, g.Caller, s.maxState)
	if err != nil {
		return err
	}
	defer release()
	v, err := s.restore(r, g, p, h, to.n)
	if err != nil {
		return err
	}
	return sendDocument(w, http.StatusOK, document{Data: s.signer.versionOf(r, p, h, v)})
}

func (s versionWrites) restore(r *http.Request, g access.Grant, p workspaceRef, h commandID, n int64) (v statebackend.Version, err error) {
	ctx := r.Context()
	lock := lockIDOf(h, g.Caller)
	c := access.Change{Action: "restore", From: strconv.FormatInt(n, 10), Lock: lock}
	defer func() { recordWrite(g, p, c, v, err) }()
	at, _, err := s.writer.stores.findForCommand(ctx, p, h)
	if err != nil {
		return v, err
	}
	var old []byte
	if _, err := at.view(ctx, n, func(state []byte) error {
		old = bytes.Clone(state)
		return nil
	}); err != nil {
		return v, absentState(p, n, err)
	}
	restored := fmt.Sprintf("restore of version %d", n)
	ctx = statebackend.WithUsageOf(ctx, at.store, at.workspace, n)
	err = at.store.Resumed(ctx, at.workspace, lock, func(l *statebackend.Lock) (err error) {
		v, err = l.Restore(ctx, old, false)
		return err
	})
	if errors.Is(err, statebackend.ErrNotHeld) || h == "" && errors.Is(err, statebackend.ErrLockEnded) {
		info := s.writer.locker.lockInfo(r, p, h, g)
		info.ID = newCommandID(s.gate.now()).lockID()
		info.Operation = restored
		err = s.writer.locker.withOwnLock(ctx, p, h, info, func(l *statebackend.Lock) error {
			// okara wrote the operation of the version, so it reveals a repeated request.
			if v, err = l.Head(ctx); err == nil && v.Operation == restored {
				c.Found = true
				return nil
			}
			v, err = l.Restore(ctx, old, false)
			return err
		})
	}
	if err == nil {
		s.writer.wrote(ctx, at.name)
	}
	return v, err
}
