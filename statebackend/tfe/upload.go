// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/statebackend"
)

const (
	// writeTime bounds the write of a received state.
	writeTime = time.Minute
	// maxDuplicate bounds the readable copy of a state that the tools also send.
	maxDuplicate = 2 << 30
)

type uploads struct {
	gate           *gate
	signer         signer
	writer         stateWriter
	configurations configurations
	memory         *service.Limiter[string] // of received states
	duplicates     *service.Limiter[string] // of the duplicates beside them, which are dropped
	maxState       int64
}

func (s uploads) addRoutes(t table) { t.addLong("PUT", "uploads/{token}", s.receiveUpload) }

type stateWriter struct {
	gate   *gate
	stores *stores
	locker locker
	runs   Runs // nil: there are none
	wrote  func(ctx context.Context, name string) <-chan struct{}
}

// receiveUpload answers 200 once the announced bytes are stored, also for a repeated request.
func (s uploads) receiveUpload(w http.ResponseWriter, r *http.Request) error {
	t, err := s.signer.redeem(r.PathValue("token"))
	if err != nil {
		return err
	}
	if t.Kind == signedConfiguration {
		return s.configurations.storeConfiguration(w, r, t)
	}
	p, _, err := parseWorkspaceID(t.Workspace, s.gate.now())
	right := s.gate.right(rights.Write, p.organization, p.workspace)
	switch {
	case err == nil && t.Kind == signedJSON:
		return s.discardDuplicate(w, r, t, right)
	case err != nil || t.Kind != signedState:
		return errUploadURL()
	}
	if r.ContentLength > s.maxState {
		return stateTooLarge(s.maxState)
	}
	size := r.ContentLength
	if size < 0 {
		size = s.maxState
	}
	release, err := reserveMemory(s.memory, t.Caller(), size)
	if err != nil {
		return err
	}
	defer release()
	g, err := s.gate.kit.Guard.Proven(r, t.Proof, right, "upload address")
	if err != nil {
		return err
	}
	statebackend.SetCaller(r.Context(), "", g.Name()) // the address proves whose lock it is
	state, err := s.readState(w, r)
	if err != nil {
		return err
	}
	if _, err := s.writer.writeSigned(r, g, t, state); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func stateTooLarge(limit int64) error {
	return newRefusal(http.StatusRequestEntityTooLarge, "too large", "the state exceeds %s", text.Size(limit))
}

func (s uploads) readState(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := s.gate.kit.OpenBody(r); err != nil {
		return nil, err
	}
	state, err := readOnce(w, r, s.maxState)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, stateTooLarge(s.maxState)
	}
	if err != nil {
		return nil, malformedError("the upload of the state is incomplete: %w", err)
	}
	return state, nil
}

// fewBytes of a body of unknown length are read before memory for the longest is reserved.
const fewBytes = 1 << 20

// readOnce is [httpserve.ReadBody] that holds a body of unknown length only once: growth by
// doubling takes up to three times the reserved memory.
func readOnce(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength >= 0 {
		return httpserve.ReadBody(w, r, limit)
	}
	body := http.MaxBytesReader(w, r.Body, limit)
	few, err := io.ReadAll(io.LimitReader(body, fewBytes))
	if err != nil || len(few) < fewBytes {
		return few, err
	}
	b := bytes.NewBuffer(append(make([]byte, 0, limit+bytes.MinRead), few...))
	_, err = b.ReadFrom(body)
	return b.Bytes(), err
}

// discardDuplicate reads the duplicate of a state, which is in clear, and discards it.
func (s uploads) discardDuplicate(w http.ResponseWriter, r *http.Request, t signedUpload, right rights.Right) error {
	release, err := reserveMemory(s.duplicates, t.Caller(), 0)
	if err != nil {
		return err
	}
	defer release()
	if r.ContentLength > maxDuplicate {
		return stateTooLarge(maxDuplicate)
	}
	if _, err := s.gate.kit.Guard.Proven(r, t.Proof, right, "upload address"); err != nil {
		return err
	}
	if err := s.gate.kit.OpenBody(r); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxDuplicate))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return stateTooLarge(maxDuplicate)
	}
	if err != nil {
		return malformedError("the upload of the state is incomplete: %w", err)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// recordWrite records that a state was stored, or was not, and what keeps it then.
func recordWrite(g access.Grant, p workspaceRef, c access.Change, v statebackend.Version, err error) {
	status := http.StatusOK
	if err != nil {
		status, _, _ = classifyError(err)
	}
	if v.N > 0 {
		c.Version = strconv.FormatInt(v.N, 10)
		c.Digest = v.Digest
		c.Lock = v.LockID
	}
	g.Record(p.String(), c.Ended(status))
}

func (t signedUpload) asChange() access.Change {
	return access.Change{Action: rights.Write, Lock: t.Lock, Detail: fmt.Sprintf("serial %d", t.Serial)}
}

func (s stateWriter) writeSigned(r *http.Request, g access.Grant, t signedUpload, state []byte) (v statebackend.Version, err error) {
	p, h, err := parseWorkspaceID(t.Workspace, s.gate.now())
	if err != nil {
		return v, err
	}
	c := t.asChange()
	defer func() { recordWrite(g, p, c, v, err) }()
	if err := t.matchState(state); err != nil {
		return v, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(statebackend.WithTool(r.Context(), t.Tool)), writeTime) // the client may disconnect
	defer cancel()
	at, _, mine := s.stores.findHeld(ctx, p, t.Lock)
	if !mine {
		if at, _, err = s.stores.findForCommand(ctx, p, h); err != nil {
			return v, err
		}
	}
	release, err := at.store.Reserve(ctx, int64(len(state)))
	if err != nil {
		return v, err
	}
	defer release()
	ctx = s.recordRun(ctx, p, t.Run)
	do := func(l *statebackend.Lock) (err error) {
		v, c.Found, err = statebackend.PutNext(ctx, l, state, t.Force)
		if c.Found && statebackend.IsRepeated(l, v) {
			c.Found = false
			c.Detail = access.Again
		}
		return err
	}
	err = at.store.Resumed(ctx, at.workspace, t.Lock, do)
	if refused := s.mayWrite(err, h, t); err == nil || refused != nil {
		err = refused
	} else {
		info := s.locker.lockInfo(r, p, h, g)
		info.ID = lockOfWrite(t.Lock, t.Serial)
		info.Info = "write without a lock"
		info.Version = toolVersion(t.Tool)
		err = s.locker.withOwnLock(ctx, p, h, info, do)
	}
	if err == nil && !c.Found {
		s.wrote(ctx, at.name)
	}
	return v, err
}

// recordRun returns a context whose write is recorded with what a run of the workspace was made of; without
// that, with what the state says.
func (s stateWriter) recordRun(ctx context.Context, p workspaceRef, id string) context.Context {
	run, err := parseRunID(id, runPrefix)
	if err != nil || s.runs == nil || run.workspaceRef != p {
		return ctx
	}
	document, err := s.runs.ReadUses(ctx, p.asWorkspace(), run.record, run.n)
	if err != nil || document == nil {
		return ctx
	}
	return statebackend.WithUsage(ctx, usage.RecordKnown(document))
}

func (t signedUpload) matchState(state []byte) error {
	if checksum(state) != t.MD5 {
		return invalidError("the state does not match the announced MD5 sum")
	}
	if err := statebackend.CheckState(state); err != nil {
		return err
	}
	lineage, serial, _ := statebackend.Meta(state)
	if serial != t.Serial || t.Lineage != "" && lineage != t.Lineage {
		return invalidError("the state has serial %d of lineage %q, but %d of %q was announced", serial, printableText(lineage), t.Serial, t.Lineage)
	}
	return nil
}

// withOwnLock runs do under a temporary lock, again if a repeated request has ended that one.
func (s locker) withOwnLock(ctx context.Context, p workspaceRef, h commandID, info statebackend.LockInfo, do func(*statebackend.Lock) error) error {
	var err error
	for range 2 {
		l, _, lockErr := s.takeExisting(ctx, p, h, info, nil)
		if lockErr != nil {
			return lockErr
		}
		err = do(l)
		if unlockErr := unlockAlways(ctx, l); err == nil {
			err = unlockErr
		}
		if !errors.Is(err, statebackend.ErrLockLost) {
			return err
		}
	}
	return err
}

// unlockAlways ends a lock, even if the client has disconnected.
func unlockAlways(ctx context.Context, l *statebackend.Lock) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer cancel()
	return l.Unlock(ctx)
}

// maxUploads bounds the concurrent uploads of one subject.
const maxUploads = 4

// newLimiter returns a limiter of the memory of received states, in total and for each subject. No
// request waits for memory: a slow upload may take hours, and the tools retry after a 503.
//
// A subject has at most half of it, or one larger upload: sending slowly blocks nobody else.
func newLimiter(size int64) *service.Limiter[string] {
	return service.NewLimiter[string](service.Limits{Total: size, Share: max(size/2, 1), Count: maxUploads})
}

// reserveMemory reserves n bytes, at most the whole memory, until release is called, or fails.
func reserveMemory(l *service.Limiter[string], c access.Caller, n int64) (release func(), err error) {
	release, ok := l.Acquire(subjectOf(c), n)
	if !ok {
		return nil, newRefusal(http.StatusServiceUnavailable, "service unavailable", "too much data is being uploaded; try again in a moment")
	}
	return release, nil
}

const (
	// signUpload is the purpose of the signatures of upload addresses.
	signUpload = "okara-tfe-upload-v1"
	// uploadURLTime is how long the address of a state is valid, if its token is as long.
	uploadURLTime = time.Hour
	// maxUploadToken bounds a token before it is decoded, in bytes.
	maxUploadToken = 16 << 10
)

// signedKind is the purpose of a token. A token is valid only for its own kind.
type signedKind string

const (
	signedState signedKind = "state" // receives the bytes of a state
	signedJSON  signedKind = "json"  // receives the readable copy of the state, in clear, and drops it

	signedConfiguration signedKind = "cv"  // receives a configuration; its id is in Workspace
	signedLog           signedKind = "log" // serves a log; the id of the plan or apply is in Workspace
)

// signedUpload is the content of an upload address: all that was decided when it was issued, since
// the request has no token and may reach any replica.
type signedUpload struct {
	Kind      signedKind `json:"k"`
	Workspace string     `json:"w"` // its id, with the command ID if there is one
	Lock      string     `json:"i"` // the id of the lock under which to write
	Serial    uint64     `json:"s"` // this and the next two describe the announced state
	Lineage   string     `json:"l"`
	MD5       string     `json:"m"` // in hex
	Force     bool       `json:"f,omitempty"`
	Tool      string     `json:"t,omitempty"`
	Run       string     `json:"r,omitempty"` // id of the run that announced it

	access.Proof // of the caller that was allowed to do it

	Expires int64 `json:"e"` // Unix time
}

// signer makes and reads the tokens of uploads: "<kid>.<payload>.<mac>".
type signer struct {
	keys      *keyring.Ring
	now       func() time.Time
	publicURL func(r *http.Request) string // Options.PublicURL
}

// issue returns the token of a signed upload, valid for life or until the caller's own token ends.
func (k signer) issue(t signedUpload, c access.Caller, life time.Duration) (string, error) {
	var ends time.Time
	t.Proof, ends = c.Proof()
	t.Expires = k.now().Add(life).Unix()
	if !ends.IsZero() {
		t.Expires = min(t.Expires, ends.Unix())
	}
	b, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	payload := base64.RawURLEncoding.EncodeToString(b)
	id, mac := k.keys.Sign(signUpload, payload)
	return id + "." + payload + "." + mac, nil
}

// errUploadURL says that a token was not made by this server or one with its keys.
func errUploadURL() error {
	return newRefusal(http.StatusForbidden, "forbidden", "this upload address is not valid; run the command again for a new one")
}

// redeem parses a token. The signature comes first: only one that was valid is reported as expired.
func (k signer) redeem(token string) (signedUpload, error) {
	part := strings.Split(token, ".")
	if len(token) > maxUploadToken || len(part) != 3 || !k.keys.Verify(signUpload, part[0], part[2], part[1]) {
		return signedUpload{}, errUploadURL()
	}
	b, ok := parseText(part[1])
	var t signedUpload
	if !ok || json.Unmarshal([]byte(b), &t) != nil {
		return signedUpload{}, errUploadURL()
	}
	if k.now().Unix() >= t.Expires {
		return signedUpload{}, newRefusal(http.StatusGone, "gone", "this upload address has expired; run the command again for a new one")
	}
	return t, nil
}
