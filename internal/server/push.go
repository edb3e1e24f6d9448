// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
	"github.com/seed-141914ff/okara/statebackend"
	probe "github.com/seed-141914ff/okara/statebackend/doctor"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// push is a request that changes the built-in registry: a manifest tagged or attached, or a
// deletion. A blob alone, or a manifest that only others refer to, is none.
type push struct {
	f          *Front
	grant      access.Grant
	ctx        context.Context
	repo       *oci.Repo
	repository string
	reference  string
	it         addr.Item
	known      bool // it is valid
	delete     bool
	blob       bool         // what is deleted is one
	manifest   oci.Manifest // before the change; zero: there was none, or it could not be read
	caller     string
	workspace  string   // name of the one that the tag is about; "": none
	claim      string   // ID of the lock whose claim was there before; "": none
	over       bool     // that claim had ended
	beside     []string // tags of the live claims of the workspace, if this is one more
	sealed     string   // workspace whose lock another caller ends, so that its state is copied; "": none
	at         time.Time
	later      func() // records what takes long, and needs no turn; nil: nothing
}

// pushOf returns the change that a request is about to make, nil if it makes none.
func (f *Front) pushOf(g access.Grant, r *http.Request) *push {
	if r.Method != http.MethodPut && r.Method != http.MethodDelete {
		return nil
	}
	p := &push{f: f, grant: g, ctx: context.WithoutCancel(r.Context()), delete: r.Method == http.MethodDelete, at: time.Now()}
	p.repository = embedded.RepositoryOf(r.URL.Path)
	what, reference, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"+p.repository+"/"), "/")
	deletedBlob := what == "blobs" && p.delete && !strings.HasPrefix(reference, "uploads/")
	if !ok || what != "manifests" && !deletedBlob {
		return nil
	}
	p.reference = reference
	p.blob = deletedBlob
	p.it, p.known = f.o.Layout.Parse(p.repository)
	p.caller = g.Identity()
	if repo, err := f.o.Client.Repo(p.repository); err == nil {
		p.repo = repo
		if what == "manifests" {
			p.manifest, _ = repo.Fetch(p.ctx, reference) // if it is missing, so is what would be deleted
		}
	}
	return p
}

// recordChange writes the change to the audit log, or keeps it as a step of an act.
func (p *push) recordChange(rec *httpserve.Response) {
	if p == nil || rec.Status()/100 == 3 { // sent elsewhere
		return
	}
	c := access.Change{Action: "push", Detail: "tag " + p.reference, Status: rec.Status(), At: p.at}
	if p.delete {
		c.Action = "delete"
	}
	byDigest := strings.Contains(p.reference, ":")
	if byDigest {
		c.Digest = p.reference
		c.Detail = ""
	}
	subject := rec.Header().Get("OCI-Subject")
	switch {
	case byDigest && !p.delete && subject == "":
		return
	case byDigest && !p.delete:
		c.Action = "attach"
		c.Detail = "to " + subject
	}
	if access.Outcome(c.Status) == access.Done {
		if !p.delete {
			c.Digest = rec.Header().Get("Docker-Content-Digest")
		} else if p.manifest.Digest != "" {
			c.Digest = p.manifest.Digest.String()
		}
		if !p.delete && c.Digest == p.manifest.Digest.String() {
			return // it is there
		}
	}
	m, read := p.storedManifest(c)
	switch {
	case read && p.isProbe(m) && !p.delete:
		p.f.o.acts.noteStep(p.placeIn("probe"), p.writeChange, c)
	case read && p.isProbe(m) && (p.f.o.acts.undoMark(p.placeIn("probe"), c.Digest) || byDigest):
	case format.IsVerdictTag(p.reference) && !p.delete:
		c.Action = "examine"
		c.Detail = ""
		p.writeChange(c)
	case p.known && p.it.Kind == addr.KindState:
		p.recordState(c, m, read)
	case p.known && p.it.Published():
		p.recordVersion(c, m, subject)
	default:
		p.grant.Record(p.repository, c)
	}
}

// writeChange records a change of the object that the right is for.
func (p *push) writeChange(c access.Change) { p.grant.Record(p.grant.Address(), c) }

func (p *push) placeIn(of string) place { return place{p.caller, p.repository, of} }

// storedManifest returns a manifest as it was stored, whatever the tag has become since.
func (p *push) storedManifest(c access.Change) (oci.Manifest, bool) {
	if p.delete {
		return p.manifest, p.manifest.Digest != ""
	}
	if p.repo == nil || access.Outcome(c.Status) != access.Done {
		return oci.Manifest{}, false
	}
	m, err := p.repo.Fetch(p.ctx, c.Digest)
	return m, err == nil
}

// isProbe reports whether `okara admin doctor` tries the registry out. What it leaves is recorded.
func (p *push) isProbe(m oci.Manifest) bool {
	if !probe.IsProbe(m) {
		return false
	}
	t, ok := format.ParseStateTag(p.reference)
	return strings.Contains(p.reference, ":") || strings.HasPrefix(p.reference, probe.ProbePrefix) || ok && t.Fragment == format.ProbeFragment
}

// recordVersion records a change of modules, providers and templates.
func (p *push) recordVersion(c access.Change, m oci.Manifest, subject string) {
	v, version := addr.VersionFromTag(p.reference)
	done := access.Outcome(c.Status) == access.Done
	switch {
	case version:
		c.Version = v.String()
		c.Detail = ""
		if !p.delete {
			c.Action = rights.Publish
		}
		if done {
			p.f.o.acts.noteAct(p.placeIn(""), c.Digest)
		}
	case evidence.IsStatusTag(p.reference) && !p.delete:
		c.Action = "status"
		p.readStatus(&c, m)
		if done {
			p.f.o.acts.noteAct(p.placeIn("latest"), "status") // which may move
		}
	case done && !p.delete && evidence.IsCosignTag(p.reference+".sig"): // what is attached to a manifest
		p.f.o.acts.noteStep(p.placeIn(p.reference+".sig"), p.writeChange, c)
		return
	case done && !p.delete && evidence.IsCosignTag(p.reference) && evidence.OnlySignatures(m):
		c.Action = "sign"
		c.Detail = "of " + strings.TrimSuffix(strings.Replace(p.reference, "-", ":", 1), ".sig")
		p.f.o.acts.dropStep(p.placeIn(p.reference))
	case done && p.reference == "latest" && p.f.o.acts.isPart(p.placeIn("latest"), "status") && (p.delete || p.isVersion(m)):
		return
	case done && depot.IsMark(p.reference):
		if !p.delete {
			p.f.o.acts.noteStep(p.placeIn(""), p.writeChange, c)
			return
		}
		if p.f.o.acts.undoMark(p.placeIn(""), c.Digest) {
			return
		}
	case done && !p.delete && (p.reference == "latest" && p.f.o.acts.isPart(p.placeIn(""), c.Digest) || p.f.o.acts.isPart(p.placeIn(""), subject)):
		return
	}
	p.writeChange(c)
}

func (p *push) isVersion(m oci.Manifest) bool {
	v, err := artifact.ParseModule(m)
	if err != nil {
		return false
	}
	d, err := p.repo.Resolve(p.ctx, v.Version.Tag())
	return err == nil && d.Digest == m.Digest
}

// readStatus copies action, version and message of a status event to the change, if it is valid.
func (p *push) readStatus(c *access.Change, m oci.Manifest) {
	if e, err := evidence.ParseStatusEvent(p.reference, m); err == nil {
		c.Action = rights.Action(e.Action)
		c.Version = e.Version
		c.Detail = e.Message
	}
}

// recordState records a change of a state repository: versions, and locks.
func (p *push) recordState(c access.Change, m oci.Manifest, there bool) {
	t, ok := format.ParseStateTag(p.reference)
	if p.delete && there && strings.Contains(p.reference, ":") {
		t, ok = p.tagOf(m)
	}
	if !ok || !there || access.Outcome(c.Status) != access.Done {
		if ok {
			c = p.unreadChange(t, c)
		}
		if c.Action != "" {
			p.writeTo(t, c)
		}
		return
	}
	switch t.Kind {
	case format.StateNumbered:
		p.recordNumbered(t, m, c)
	case format.StatePointer:
		if p.delete || !p.isNewest(t.Fragment, c.Digest) {
			p.writeTo(t, c)
		}
	case format.LockClaim, format.LockMarker, format.UnlockMarker, format.LockTombstone, format.ForceTombstone:
		p.recordLock(t, m, c)
	default:
		p.writeTo(t, c)
	}
}

// unreadChange returns the change for a request that failed, or for a manifest that is gone.
func (p *push) unreadChange(t format.StateTag, c access.Change) access.Change {
	switch {
	case t.Kind == format.StateNumbered:
		c.Version = strconv.FormatInt(t.N, 10)
		c.Detail = ""
		c.Action = prune
		if !p.delete {
			c.Action = rights.Write
		}
	case t.Kind == format.ForceTombstone:
		c.Action = "force-unlock"
	case access.Outcome(c.Status) != access.Done:
		c.Action = "" // a refused step of a lock
	}
	return c
}

// tagOf returns the tag that a manifest was written for.
func (p *push) tagOf(m oci.Manifest) (t format.StateTag, ok bool) {
	if s, err := format.ParseState(m); err == nil && s.N > 0 {
		return format.StateTag{Kind: format.StateNumbered, Fragment: format.StateFragment(s.Workspace), N: s.N}, true
	}
	l, err := format.ParseLock(m)
	if err != nil || l.Kind != format.KindClaim && l.Kind != format.KindTombstone || len(l.Nonce) != 16 {
		return t, false
	}
	t = format.StateTag{Kind: format.LockClaim, Fragment: format.StateFragment(l.Workspace), N: l.Fence, X: l.Nonce}
	if l.Kind == format.KindTombstone { // whose tag may be the other one as well
		t.Kind = format.ForceTombstone
	}
	return t, true
}

// writeTo records a change of the workspace that a tag is about.
func (p *push) writeTo(t format.StateTag, c access.Change) {
	if t.Fragment == "" {
		p.writeChange(c)
		return
	}
	p.grant.Record(rights.StateRight(p.f.o.Layout, rights.Write, p.it.State, cmp.Or(p.workspace, t.Fragment)).Address, c)
}

// prune removes versions, whose workspace stays.
const prune rights.Action = "prune"

// recordNumbered records that a version was written, restored, deleted, resealed or removed.
func (p *push) recordNumbered(t format.StateTag, m oci.Manifest, c access.Change) {
	c.Version = strconv.FormatInt(t.N, 10)
	c.Detail = ""
	write := func(c access.Change) { p.writeTo(t, c) }
	if p.delete {
		c.Action = prune
		if !p.f.o.acts.isPart(p.placeIn("resealed "+c.Digest), c.Digest) || !p.isThere(t) {
			p.f.o.acts.collect(p.placeIn("prune "+t.Fragment), write, c)
		}
		return
	}
	c.Action = rights.Write
	s, err := format.ParseState(m)
	if err != nil || s.N != t.N || format.StateFragment(s.Workspace) != t.Fragment && s.Workspace != "" {
		c.Action = "push" // readers take it for no version of this workspace
		c.Detail = "tag " + p.reference
		write(c)
		return
	}
	if old := p.manifest.Digest.String(); p.reseals(s) {
		c.Action = "push"
		c.Detail = "in place of the version, not compared"
		p.f.o.acts.noteAct(p.placeIn("resealed "+old), old)
		p.f.o.acts.noteWrite(p.caller, p.repository, t, 0)
		p.later = func() {
			if p.isSameState(s) {
				c.Action = "rekey"
				c.Detail = ""
			}
			p.f.o.acts.collect(p.placeIn(string(c.Action)+" "+t.Fragment), write, c)
		}
		return
	}
	c.Lock = format.ShownID(s.LockID)
	c.Detail = statebackend.Version{Operation: s.Operation, Parent: s.ParentN}.Why()
	var fence int64 // of a lock that was taken over
	from, restored := strings.CutPrefix(c.Detail, "restore of version ")
	switch {
	case p.takesOver(t, s):
		fence = s.Fence
	case s.Deleted:
		c.Action = "delete"
		c.Detail = ""
	case restored:
		c.Action = "restore"
		c.From = from
		c.Detail = ""
	case !p.isNewest(t.Fragment, c.Digest):
		c.Detail = access.NotCurrent
	}
	if !p.f.o.acts.noteWrite(p.caller, p.repository, t, fence) {
		write(c)
	}
}

// isNewest reports whether a digest is that of the newest version of a workspace.
func (p *push) isNewest(fragment, digest string) bool {
	list, err := p.repo.Snapshot(p.ctx)
	if err != nil {
		return false
	}
	newest := format.StateTag{Kind: format.StateNumbered, Fragment: fragment, N: statebackend.SummaryOf(list.Tags, fragment).Newest}
	d, err := p.repo.Resolve(p.ctx, newest.String())
	return err == nil && d.Digest.String() == digest
}

// reseals reports whether a version replaces one that differs in its sealed bytes only.
func (p *push) reseals(s format.StateManifest) bool {
	old, err := format.ParseState(p.manifest)
	if err != nil || old.Manifest.Digest == s.Manifest.Digest || len(old.Envelope) == 0 || len(s.Envelope) == 0 {
		return false
	}
	s.Manifest, s.Layer, s.Envelope, s.SHA256 = old.Manifest, old.Layer, old.Envelope, old.SHA256
	return reflect.DeepEqual(old, s)
}

// isSameState reports whether a version and what it replaces, both readable by our keys, are one
// state.
func (p *push) isSameState(s format.StateManifest) bool {
	store, err := p.openStore()
	old, perr := format.ParseState(p.manifest)
	return errors.Join(err, perr) == nil && statebackend.IsSame(p.ctx, store, old, s)
}

// takesOver reports whether a version is the copy of the one before with which a takeover begins.
// What only says so is a write.
func (p *push) takesOver(t format.StateTag, s format.StateManifest) bool {
	if s.Operation != format.OperationTakeover || s.ParentN == 0 {
		return false
	}
	list, err := p.repo.Snapshot(p.ctx)
	if err != nil {
		return false
	}
	var before format.StateTag
	for _, tag := range list.Tags {
		if o, ok := format.ParseStateTag(tag); ok && o.Kind == format.StateNumbered && o.Fragment == t.Fragment && o.N < t.N && o.N > before.N {
			before = o
		}
	}
	m, err := p.repo.Fetch(p.ctx, before.String())
	if err != nil || before.N != s.ParentN {
		return false
	}
	parent, err := format.ParseState(m)
	return err == nil && parent.Empty == s.Empty && (s.Empty || parent.Layer.Digest == s.Layer.Digest)
}

// recordLock records the begin or end of a lock. Its marker is for readers and older tools.
func (p *push) recordLock(t format.StateTag, m oci.Manifest, c access.Change) {
	l, err := format.ParseLock(m)
	of := format.StateTag{Kind: format.LockClaim, Fragment: t.Fragment, N: t.N, X: t.X}
	if t.Kind == format.LockMarker {
		of.N = l.Fence
		of.X = l.Nonce
	}
	claims := err == nil && l.Kind == format.KindClaim && l.Fence == of.N && l.Nonce == of.X && l.Nonce != ""
	old := err == nil && l.Kind != format.KindUnlocked && l.Nonce == "" && t.Kind == format.LockMarker // by an older tool
	at := p.claimAt(of)
	told := c
	told.Digest = ""
	told.Lock = l.Info.ID
	told.Detail = statebackend.Version{Operation: l.Info.Operation}.Why()
	write := func(c access.Change) { p.writeTo(t, c) }
	lock := told
	lock.Action = "lock"
	ends := t.Kind == format.LockTombstone || t.Kind == format.ForceTombstone
	switch {
	case ends && p.delete && p.isThere(of): // the lock would be held again
		write(c)
	case ends && (p.delete || p.over), claims && p.delete && t.Kind == format.LockMarker, p.delete && p.hasEnded(of):
		// recorded already
	case ends && err == nil:
		forced := l.Reason.IsTakeover() || l.Reason == format.ReasonAbandoned
		told.Detail = string(l.Reason)
		p.recordEnd(t, at, forced, told)
	case claims && p.delete:
		p.recordEnd(t, at, false, told)
	case claims && t.Kind == format.LockMarker:
		if !p.f.o.acts.noteWin(at) {
			if p.isHeld(at) { // since before the server started
				c = lock
			}
			write(c)
		}
	case claims && p.claim == "" && !p.over:
		command := l.Info.Operation != "" && !strings.HasPrefix(l.Info.Operation, "OperationType")
		made := &claim{waiting: waiting{write: write, change: lock}, caller: p.caller, beside: p.beside, command: command}
		p.f.o.acts.noteClaim(at, place{"", p.repository, l.Root}, made)
	case claims:
		// a heartbeat
	case err == nil && l.Kind == format.KindUnlocked && p.f.o.acts.isPart(p.placeIn("end "+t.Fragment), "end"):
		// of the lock that was ended before
	case old && p.delete:
		told.Action = "unlock"
		write(told)
	case old:
		write(lock)
	default:
		write(c)
	}
}

// recordEnd records that a claim ended, as far as no other record tells of that.
func (p *push) recordEnd(t format.StateTag, at place, forced bool, c access.Change) {
	how := p.f.o.acts.endClaim(at, forced)
	p.f.o.acts.noteAct(p.placeIn("end "+t.Fragment), "end")
	c.Lock = cmp.Or(c.Lock, p.claim)
	switch how {
	case endSilent:
		return
	case endUnlock:
		c.Action = "unlock"
		c.Detail = ""
	case endForced:
		c.Action = "force-unlock"
	case endLost: // a decision: nothing was changed
		c.Action = "lock"
		c.Status = http.StatusConflict
	}
	p.writeTo(t, c)
}
