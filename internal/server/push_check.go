// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// This file decides whether a push may change a lock or what it protects.

// checkLock refuses what would take a workspace's lock from the caller that made its claim, by tag,
// digest or end, except by force-unlock; and what would change the state under it.
func (p *push) checkLock(mediaType string, manifest []byte) error {
	if p != nil && p.blob && (p.known && !p.it.Versioned() || p.f.o.Layout.BelowState(p.repository)) {
		p.grant.Record(p.repository, access.Change{Action: "delete", Digest: p.reference, Status: http.StatusConflict, At: p.at})
		return refuseChange("stored content may use this blob", "delete the content that is no longer needed: garbage collection then frees its blobs")
	}
	if p == nil || p.repo == nil || !p.known || p.it.Kind != addr.KindState {
		return nil
	}
	t, ok := format.ParseStateTag(p.reference)
	if p.delete && strings.Contains(p.reference, ":") {
		t, ok = p.tagOf(p.manifest)
	}
	put := oci.Manifest{Descriptor: oci.Descriptor{MediaType: mediaType}, Bytes: manifest}
	p.workspace = workspaceOf(t, put)
	if p.delete {
		p.workspace = workspaceOf(t, p.manifest)
	}
	switch {
	case !ok:
	case t.Kind == format.StateNumbered, t.Kind == format.StatePointer:
		return p.checkWrite(t)
	case t.Kind == format.LockClaim, t.Kind == format.LockTombstone, t.Kind == format.ForceTombstone:
		return p.checkClaim(t, put)
	}
	return nil
}

// workspaceOf returns a tag's workspace, in full by its manifest, else as the tag has it.
func workspaceOf(t format.StateTag, m oci.Manifest) string {
	s, _ := format.ParseState(m)
	l, _ := format.ParseLock(m)
	for _, name := range []string{s.Workspace, l.Workspace} {
		if name != "" && format.StateFragment(name) == t.Fragment {
			return name
		}
	}
	return t.Fragment
}

func (p *push) checkClaim(t format.StateTag, put oci.Manifest) error {
	kind := t.Kind
	t.Kind = format.LockClaim
	m, err := p.repo.Fetch(p.ctx, t.String())
	there := err == nil
	if !there && kind == format.LockClaim && !p.delete {
		list, err := p.repo.Snapshot(p.ctx)
		if oci.IgnoreNotFound(err) != nil {
			return err
		}
		p.beside = statebackend.SummaryOf(list.Tags, t.Fragment).Claims
		if p.f.o.acts.mayClaim(p.caller, p.isHeld) {
			return nil
		}
		return &service.Error{Status: http.StatusTooManyRequests, Text: fmt.Sprintf("this caller already holds or requests %d locks\nhint: release some, see okara state locks", maxClaims)}
	}
	p.over = there && p.hasEnded(t)
	removes := p.delete && p.caller != ""
	switch {
	case removes && there && kind != format.LockClaim:
		return refuseChange("the claim would hold the lock again", "delete "+t.String()+" first")
	case removes && (kind == format.ForceTombstone || p.over) && p.unsealed(t) > t.N:
		return refuseChange("a write by the holder, whose lock was force-unlocked, could become current", "lock the workspace first, which copies its state")
	case !there, p.over, p.delete && kind != format.LockClaim:
		return nil
	}
	l, _ := format.ParseLock(m) // what cannot be read names nobody
	p.claim = cmp.Or(l.Info.ID, t.X)
	maker := p.f.o.acts.makerOf(p.repository, t.String(), l.Info.Caller)
	if maker == "" || p.caller == "" || maker == p.caller {
		return nil
	}
	if kind == format.ForceTombstone && p.isForce(t, l, put) {
		p.sealed = l.Workspace
		return nil
	}
	p.writeTo(t, access.Change{Action: "force-unlock", Lock: l.Info.ID, Status: http.StatusConflict, At: p.at})
	return refuseChange(fmt.Sprintf("lock %s of workspace %q is held by another caller", l.Info.ID, l.Workspace), "release it with okara state unlock --id "+l.Info.ID)
}

func refuseChange(why, hint string) error {
	return &service.Error{Status: http.StatusConflict, Text: why + "\nhint: " + hint}
}

// isForce reports whether a manifest ends another caller's lock: by force, after its lease, or as a
// claim that joined a lock which has ended.
func (p *push) isForce(of format.StateTag, claim format.LockManifest, put oci.Manifest) bool {
	l, err := format.ParseLock(put)
	if err != nil || l.Kind != format.KindTombstone || l.Fence != of.N || l.Nonce != of.X || format.StateFragment(claim.Workspace) != of.Fragment {
		return false
	}
	root, joined := format.ParseStateTag(claim.Root)
	return l.Reason.IsTakeover() || l.Reason == format.ReasonOrphan && joined && !p.isHeld(p.claimAt(root))
}

// checkWrite refuses what would change the current state, or a version, under another's lock, or
// after the own was ended by force and before the copy above. A new version below the current is
// kept aside.
func (p *push) checkWrite(t format.StateTag) error {
	list, err := p.repo.Snapshot(p.ctx)
	if err != nil {
		return oci.IgnoreNotFound(err)
	}
	now := statebackend.SummaryOf(list.Tags, t.Fragment)
	for _, tag := range now.Claims {
		m, _ := p.repo.Fetch(p.ctx, tag) // what cannot be read names nobody
		l, _ := format.ParseLock(m)
		if p.f.o.acts.mayHold(place{p.caller, p.repository, tag}, l.Info.Caller, now.Claims) {
			return nil
		}
	}
	numbered := t.Kind == format.StateNumbered
	fenced := numbered && !p.delete && t.N < now.Unsealed-1 // that number is free for a copy
	aside := numbered && t.N < now.Newest && (p.delete || !slices.Contains(list.Tags, t.String()))
	if aside || len(now.Claims) == 0 && !fenced {
		return nil
	}
	c := access.Change{Action: "push", Detail: "tag " + p.reference, Status: http.StatusConflict, At: p.at}
	p.writeTo(t, p.unreadChange(t, c))
	if len(now.Claims) == 0 {
		return refuseChange("the lock for version "+strconv.FormatInt(t.N, 10)+" was force-unlocked", "keep the state, and lock the workspace again")
	}
	return refuseChange("another caller holds the lock of the workspace, whose state "+t.String()+" would change", "lock the workspace first")
}

// unsealed returns the first number that no holder of a forced lock can write, 0 once copied above.
func (p *push) unsealed(t format.StateTag) int64 {
	list, err := p.repo.Snapshot(p.ctx)
	if oci.IgnoreNotFound(err) != nil {
		return math.MaxInt64
	}
	return statebackend.SummaryOf(list.Tags, t.Fragment).Unsealed
}

// openStore returns the store of the repository, with the keys of the server.
func (p *push) openStore() (*statebackend.Store, error) {
	if p.f.o.Stores == nil {
		return statebackend.New(p.repo, statebackend.Options{Logger: p.f.o.Logger}), nil
	}
	return p.f.o.Stores(p.ctx, p.it.State)
}

// finishLater does what other writes need not wait for, and completes a force-unlock.
func (p *push) finishLater(rec *httpserve.Response) {
	if p != nil && p.later != nil {
		p.later()
	}
	if p == nil || p.sealed == "" || rec.Status() != http.StatusCreated {
		return
	}
	store, err := p.openStore()
	var list *statebackend.Listing
	if err == nil {
		list, err = store.List(p.ctx)
	}
	if err == nil {
		list.Seal(p.ctx, p.sealed)
	} else {
		p.f.o.Logger.Warn("lock was force-unlocked, but its state could not be copied", "repository", p.repository, "workspace", p.sealed, "error", err)
	}
}

// isHeld reports whether a claim is there and has not ended.
func (p *push) isHeld(at place) bool {
	q := *p
	var err error
	q.repo, err = p.f.o.Client.Repo(at.repository)
	t, ok := format.ParseStateTag(at.of)
	return err == nil && ok && q.isThere(t) && !q.hasEnded(t)
}

// claimAt is the place of a claim, which its maker and others act on.
func (p *push) claimAt(t format.StateTag) place { return place{"", p.repository, t.String()} }

func (p *push) isThere(t format.StateTag) bool {
	_, err := p.repo.Resolve(p.ctx, t.String())
	return err == nil
}

// hasEnded reports whether a claim has a tombstone.
func (p *push) hasEnded(t format.StateTag) bool {
	return slices.ContainsFunc([]format.StateTagKind{format.LockTombstone, format.ForceTombstone}, func(end format.StateTagKind) bool {
		t.Kind = end
		return p.isThere(t)
	})
}
