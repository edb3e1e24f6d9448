// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// machine is an acquirer, a saver, a releaser or a forcer.
type machine interface {
	Next(protocol.Reply) protocol.Request
}

// session performs the requests of the machines on the registry, for one workspace and one lock.
type session struct {
	s     *Store
	names tagNames
	info  LockInfo
	terms terms
	ttl   time.Duration // the lease of own claims; 0: none

	snapshot protocol.Snapshot                 // the last list
	numbers  []int64                           // the versions in it, newest first
	date     time.Time                         // of the list, by the registry's clock
	fresh    bool                              // the repository is empty
	first    bool                              // the repository was empty until this lock
	copy     copyCheck                         // whether the repository is a replica
	claims   map[protocol.ClaimID]oci.Manifest // own claims, as written
	claimed  timestamp                         // taken before the last claim was sent
	undated  bool                              // the registry does not send its time
	foreign  format.LockManifest               // the marker an older tool wrote
}

type content struct {
	manifest oci.Manifest
	blobs    []oci.Blob // what it refers to, pushed again if the registry lost it
}

func newSession(s *Store, workspace string, info LockInfo, on terms) *session {
	return &session{s: s, names: tagNamesOf(workspace), info: info, terms: on, ttl: s.o.LockTTL, claims: map[protocol.ClaimID]oci.Manifest{}}
}

// runMachine performs requests until m is done. c is the version that m writes, or gets its seal.
func (x *session) runMachine(ctx context.Context, m machine, c *content) {
	var r protocol.Reply
	for {
		req := m.Next(r)
		if req.Op == protocol.OpDone {
			return
		}
		if r.MayPass() && req.Op != protocol.OpWait {
			_ = sleepFor(ctx, protocol.Again()) // a cancelled wait ends the requests as well
		}
		r = x.perform(ctx, req, c)
	}
}

// cleanupTime bounds each request that undoes something after the caller has given up.
const cleanupTime = 10 * time.Second

func (x *session) perform(ctx context.Context, req protocol.Request, c *content) protocol.Reply {
	if ctx.Err() != nil && cleansUp(req.Op) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
	}
	r := protocol.Reply{}
	switch req.Op {
	case protocol.OpList:
		r.Snapshot, r.Settle, r.Err = x.listToLock(ctx)
		r.Promoted = x.copy == copyPromoted
	case protocol.OpReadMarker:
		r.Owner, r.Err = x.readMarker(ctx)
	case protocol.OpReadClaim:
		r.Joined, r.Beside, r.Foreign, r.Err = x.readClaim(ctx, req.Claim)
	case protocol.OpReadOwner:
		_, _, r.Foreign, r.Err = x.readClaim(ctx, req.Claim)
	case protocol.OpReadTombstone:
		r.Reason, r.Err = x.readTombstone(ctx, req.Claim)
	case protocol.OpReadPointer:
		r.Owner, r.Err = x.readPointer(ctx, req.N, c)
	case protocol.OpReadParent:
		r.Parent, r.Final, r.Err = x.readParent(ctx, req.N)
	case protocol.OpWait:
		r.Err = sleepFor(ctx, req.Wait)
	default:
		r.Err = x.writeRequested(ctx, req, c)
	}
	r.Status = statusOf(r.Err)
	if e, ok := errors.AsType[*oci.ResponseError](r.Err); ok {
		r.After = e.RetryAfter
	}
	return r
}

func cleansUp(o protocol.Op) bool {
	switch o {
	case protocol.OpPutTombstone, protocol.OpPutUnlocked, protocol.OpDelete, protocol.OpUntagMarker, protocol.OpUntagClaim:
		return true
	}
	return false
}

// statusOf classifies an error: uncertain unless the request is known to have had no effect.
func statusOf(err error) protocol.Status {
	switch {
	case err == nil:
		return protocol.StatusDone
	case errors.Is(err, oci.ErrUncertain), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return protocol.StatusUncertain
	case errors.Is(err, oci.ErrUnsupported):
		return protocol.StatusUnsupported
	case errors.Is(err, oci.ErrNotFound):
		return protocol.StatusMissing
	}
	return protocol.StatusRefused
}

// versionWithoutState returns a tag that is a version, as of a module, if no tag is of a state: who
// may read modules is not asked whether he may read states. "": there is none, or there are states.
func versionWithoutState(tags []string) (version string) {
	for _, tag := range tags {
		if _, ok := format.ParseStateTag(tag); ok {
			return ""
		}
		if part := strings.SplitN(strings.TrimPrefix(tag, "v"), ".", 3); len(part) == 3 && version == "" {
			_, err := strconv.Atoi(part[0] + part[1])
			if err == nil && part[2] != "" && part[2][0] >= '0' && part[2][0] <= '9' {
				version = tag
			}
		}
	}
	return version
}

// listToLock lists; its first list decides whether lists of this repository are fit for locking.
func (x *session) listToLock(ctx context.Context) (protocol.Snapshot, time.Duration, error) {
	l := x.terms.known
	known := l != nil
	x.terms.known = nil
	if !known {
		var err error
		if l, err = x.s.List(ctx); err != nil {
			return protocol.Snapshot{}, 0, err
		}
	}
	tags := l.tags
	if x.terms.locks {
		if version := versionWithoutState(tags); version != "" {
			return protocol.Snapshot{}, 0, fmt.Errorf("%s already has version %s of something else, and no state: %w\nhint: keep states in a repository of their own, such as HOST/state/NAME, since rights go by it", x.s.repo, version, oci.ErrExists)
		}
		if err := x.checkNumbers(tags); err != nil {
			return protocol.Snapshot{}, 0, err
		}
	}
	x.date = l.date
	var j judgement
	if x.terms.locks {
		var err error
		if j, err = x.s.findings.judgeRepository(ctx, x.s.manifests, tags); err != nil {
			return protocol.Snapshot{}, 0, err
		}
		if err := x.checkCopy(ctx, tags); err != nil {
			return protocol.Snapshot{}, 0, err
		}
	}
	if fit := x.terms.fit; fit != nil {
		if !known {
			x.terms.fit = nil
		}
		if err := fit(ctx, l); err != nil {
			return protocol.Snapshot{}, 0, err
		}
	}
	x.fresh = len(tags) == 0
	x.snapshot = protocol.NewSnapshot(tags, x.names.fragment)
	x.numbers = versionNumbers(tags, x.names.fragment)
	return x.snapshot, j.settle, nil
}

// maxNumber leaves room for two takeovers in the 12 digits of a tag. Normal use never comes near.
const maxNumber = 1_000_000_000_000 - 2*protocol.Jump

// checkNumbers refuses a number, surely forged, above which the next does not sort or fit.
func (x *session) checkNumbers(tags []string) error {
	for _, tag := range tags {
		if t, ok := format.ParseStateTag(tag); ok && t.Fragment == x.names.fragment && t.N >= maxNumber {
			return fmt.Errorf("tag %s of %s has a number that okara did not write and that leaves no room for the next: %w\nhint: find out who wrote it, and remove the tag", tag, x.s.repo, oci.ErrCorrupt)
		}
	}
	return nil
}

type copyCheck uint8

const (
	copyUnknown  copyCheck = iota
	copyNone               // the repository is no copy
	copyPromoted           // the repository was a copy until this lock
)

// checkCopy refuses to lock a replica; a takeover promotes it instead.
func (x *session) checkCopy(ctx context.Context, tags []string) error {
	if x.copy != copyUnknown || !slices.Contains(tags, format.TagReplica) {
		return nil // an unmarked repository may become a copy before the next list
	}
	x.copy = copyNone
	err := x.s.manifests.checkReplica(ctx, tags)
	if !errors.Is(err, ErrReplica) || !x.terms.takeOver {
		return err
	}
	x.copy = copyPromoted
	return x.s.manifests.promote(ctx)
}

func (x *session) writeRequested(ctx context.Context, req protocol.Request, c *content) error {
	repo := x.s.repo
	tag := func(k format.StateTagKind) string {
		return format.StateTag{Kind: k, Fragment: x.names.fragment, N: req.Claim.Fence, X: req.Claim.X}.String()
	}
	switch req.Op {
	case protocol.OpPutClaim:
		m, err := x.claim(req)
		if err != nil {
			return err
		}
		if x.fresh { // the blob that every lock manifest refers to is not there yet
			if err := repo.PushBlob(ctx, oci.EmptyBlob()); err != nil {
				return fmt.Errorf("%v: %w", err, definiteError(err))
			}
			x.fresh = false
			x.first = true
		}
		x.claimed = newTimestamp(x.s.o)
		return x.s.manifests.putOrPush(ctx, tag(format.LockClaim), m)
	case protocol.OpPutTombstone:
		kind := format.LockTombstone
		if req.Forced {
			kind = format.ForceTombstone
		}
		m, err := x.newTombstone(req)
		if err != nil {
			return err
		}
		err = x.s.manifests.putOrPush(ctx, tag(kind), m)
		if refusesForGood(err) {
			if _, rerr := repo.Resolve(ctx, tag(kind)); rerr == nil {
				return nil // an earlier attempt whose answer was lost
			}
		}
		return err
	case protocol.OpPutSeal:
		if err := x.sealTakeover(ctx, req, c); err != nil {
			return err
		}
		return x.s.manifests.putOrPush(ctx, x.names.numberedTag(req.N), c.manifest, c.blobs...)
	case protocol.OpPutMarker:
		return x.s.manifests.putOrPush(ctx, tag(format.LockMarker), x.claims[req.Claim])
	case protocol.OpPutUnlocked:
		return x.putUnlocked(ctx, tag(format.LockMarker), tag(format.UnlockMarker))
	case protocol.OpDelete:
		return repo.Delete(ctx, x.claims[req.Claim].Descriptor)
	case protocol.OpUntagMarker:
		return repo.Untag(ctx, tag(format.LockMarker))
	case protocol.OpUntagClaim:
		return repo.Untag(ctx, tag(format.LockClaim))
	case protocol.OpPutVersion:
		return x.s.manifests.putOnce(ctx, x.names.numberedTag(req.N), c.manifest, c.blobs...)
	case protocol.OpPutPointer:
		return x.s.manifests.putOrPush(ctx, x.names.pointerTag(), c.manifest, c.blobs...)
	}
	return fmt.Errorf("unknown request %d", req.Op)
}

// putOrPush writes a manifest with one request; refused for lack of blobs, again after these.
func (r *manifests) putOrPush(ctx context.Context, tag string, m oci.Manifest, blobs ...oci.Blob) error {
	err := r.repo.PutTag(ctx, tag, m)
	if err == nil || !oci.MissesBlob(err) {
		return err
	}
	for _, b := range append([]oci.Blob{oci.EmptyBlob()}, blobs...) {
		if perr := r.repo.PushBlob(ctx, b); perr != nil {
			// Not ErrUncertain: the tag was refused, even if the push of the blob is uncertain.
			return fmt.Errorf("%v, and pushing what it needs: %v: %w", err, perr, definiteError(perr))
		}
	}
	return r.repo.PutTag(ctx, tag, m)
}

// putOnce is putOrPush for a tag with one writer: immutable tags refuse a repeated push.
func (r *manifests) putOnce(ctx context.Context, tag string, m oci.Manifest, blobs ...oci.Blob) error {
	err := r.putOrPush(ctx, tag, m, blobs...)
	if !refusesForGood(err) {
		return err
	}
	if d, rerr := r.repo.Resolve(ctx, tag); rerr == nil && d.Digest == m.Digest {
		return nil
	}
	return err
}

// definiteError returns the sentinel of err that matters to a caller and leaves no outcome open.
func definiteError(err error) error {
	for _, e := range [...]error{oci.ErrUnauthenticated, oci.ErrDenied, oci.ErrTooLarge, oci.ErrRateLimited} {
		if errors.Is(err, e) {
			return e
		}
	}
	return oci.ErrUnavailable
}

func (x *session) claim(req protocol.Request) (oci.Manifest, error) {
	c := req.Claim
	x.undated = x.date.IsZero()
	info := x.info
	if say := x.s.o.Claim; say != nil {
		info = say(x.names.claimTag(c), info)
		info.ID = x.info.ID
		info.Caller = x.info.Caller
	}
	heartbeat := x.date
	if x.ttl <= 0 {
		heartbeat = time.Time{}
	}
	m, err := format.NewLockManifest(format.LockManifest{
		Kind: format.KindClaim, Workspace: x.names.workspace, Info: info, Fence: c.Fence, Nonce: c.X,
		Heartbeat: heartbeat, TTL: x.ttl, Root: x.names.nameOf(req.Root), Beside: x.names.nameOf(req.Beside),
	})
	if err == nil {
		x.claims[c] = m
	}
	return m, err
}

// nameOf is claimTag, but "" for the zero claim.
func (l tagNames) nameOf(c protocol.ClaimID) string {
	if c == (protocol.ClaimID{}) {
		return ""
	}
	return l.claimTag(c)
}

// claimNamed undoes nameOf; zero: none.
func (l tagNames) claimNamed(tag string) (c protocol.ClaimID) {
	t, ok := format.ParseStateTag(tag)
	if !ok || t.Kind != format.LockClaim || t.Fragment != l.fragment {
		return c
	}
	return protocol.ClaimID{Fence: t.N, X: t.X}
}

// readClaim adopts the holder's description from a claim of our id. joined says that it joined
// another one, beside which one it was made; foreign that it has another owner.
func (x *session) readClaim(ctx context.Context, c protocol.ClaimID) (joined bool, beside protocol.ClaimID, foreign bool, err error) {
	l, err := x.s.manifests.fetchLock(ctx, x.names.claimTag(c), x.names.workspace)
	if err != nil {
		return false, beside, false, err
	}
	if of := x.s.o.Maker; of != nil {
		l.Info.Caller = of(x.s.repo.Name(), x.names.claimTag(c), l.Info.Caller)
	}
	id := x.info.ID
	foreign = l.Info.ID != format.ShownID(id) || isAnother(x.s.o, l.Info.Caller, x.info.Caller)
	if !foreign {
		x.info = l.Info
		x.info.ID = id
	}
	return x.names.claimNamed(l.Root) != protocol.ClaimID{}, x.names.claimNamed(l.Beside), foreign, nil
}

func (x *session) readTombstone(ctx context.Context, c protocol.ClaimID) (format.LockReason, error) {
	t := format.StateTag{Kind: format.ForceTombstone, Fragment: x.names.fragment, N: c.Fence, X: c.X}
	l, err := x.s.manifests.fetchLock(ctx, t.String(), x.names.workspace)
	return l.Reason, err
}

func (x *session) newTombstone(req protocol.Request) (oci.Manifest, error) {
	return format.NewLockManifest(format.LockManifest{
		Kind: format.KindTombstone, Workspace: x.names.workspace, Fence: req.Claim.Fence, Nonce: req.Claim.X,
		Reason: req.Reason, Who: x.info.Who, Created: x.s.o.Now(),
	})
}

// putUnlocked marks for people and older tools; unlocked-W is written only if it is not there yet.
func (x *session) putUnlocked(ctx context.Context, locked, unlocked string) error {
	m, err := format.NewLockManifest(format.LockManifest{Kind: format.KindUnlocked, Workspace: x.names.workspace, Nonce: "0"})
	if err != nil {
		return err
	}
	if err := x.s.manifests.putOrPush(ctx, locked, m); err != nil || x.snapshot.Written {
		return err
	}
	return x.s.manifests.putOrPush(ctx, unlocked, m)
}

// readMarker reports whether an older tool holds locked-W; with unlocked-W's manifest, none does.
func (x *session) readMarker(ctx context.Context) (protocol.Owner, error) {
	l, err := x.s.manifests.fetchLock(ctx, format.StateTag{Kind: format.LockMarker, Fragment: x.names.fragment}.String(), x.names.workspace)
	if err != nil {
		return protocol.OwnerNobody, err
	}
	if l.Nonce != "" || l.Kind == format.KindUnlocked {
		return protocol.OwnerOurs, nil
	}
	if x.snapshot.Written {
		d, err := x.s.repo.Resolve(ctx, format.StateTag{Kind: format.UnlockMarker, Fragment: x.names.fragment}.String())
		if err == nil && d.Digest == l.Manifest.Digest {
			return protocol.OwnerOurs, nil
		}
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return protocol.OwnerNobody, err
		}
	}
	x.foreign = l
	return protocol.OwnerForeign, nil
}

// readPointer reports who wrote state-W after an uncertain write of n.
func (x *session) readPointer(ctx context.Context, n int64, c *content) (protocol.Owner, error) {
	m, err := x.s.manifests.fetchState(ctx, x.names.pointerTag(), x.names.workspace)
	switch {
	case err != nil:
		return protocol.OwnerNobody, err
	case m.Manifest.Digest == c.manifest.Digest:
		return protocol.OwnerOurs, nil
	case m.N > n:
		return protocol.OwnerForeign, nil
	}
	return protocol.OwnerBefore, nil
}

// readParent returns the version that n was made from, and whether n is a force-unlock's copy.
func (x *session) readParent(ctx context.Context, n int64) (parent int64, final bool, err error) {
	m, err := x.s.manifests.fetchState(ctx, x.names.numberedTag(n), x.names.workspace)
	return m.ParentN, strings.HasPrefix(m.LockID, sealerLockID), err
}

// definiteRead keeps a failed read from being classified as an uncertain write.
func definiteRead(err error) error {
	if errors.Is(err, oci.ErrUncertain) {
		return fmt.Errorf("%v: %w", err, oci.ErrUnavailable)
	}
	return err
}

// sleepFor waits for p, or returns the context's error.
func sleepFor(ctx context.Context, p protocol.Pause) error {
	d := p.Min
	if p.Max > p.Min {
		d += rand.N(p.Max - p.Min)
	}
	return text.Wait(ctx, d)
}
