// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// Values of the field Locking of format.Verdict.
const (
	LockingExact   = "exact"   // a tag list shows a finished push
	LockingSettle  = "settle"  // a tag list shows it after a short wait
	LockingRefused = "refused" // a tag list may not show it
)

// Verdicts are the results of checks of a registry, stored in a repository.
type Verdicts struct {
	manifests *manifests
	findings  *findings
}

// Verdicts returns the verdicts on the registry of the store.
func (s *Store) Verdicts() Verdicts { return Verdicts{s.manifests, s.findings} }

// Newest reads the last verdict, above what is known of the host; oci.ErrNotFound without one.
func (s Verdicts) Newest(ctx context.Context) (format.Verdict, error) {
	tags, err := s.manifests.tags(ctx)
	if err != nil {
		return format.Verdict{}, err
	}
	return s.manifests.verdictIn(ctx, tags)
}

// Verdict is [Verdicts.Newest] from this list. Without a verdict it sends no request.
func (l *Listing) Verdict(ctx context.Context) (format.Verdict, error) {
	return l.s.manifests.verdictIn(ctx, l.tags)
}

func (r *manifests) verdictIn(ctx context.Context, tags []string) (format.Verdict, error) {
	tag := format.NewestVerdict(tags)
	if tag == "" {
		return format.Verdict{}, fmt.Errorf("verdict on %s: %w", r.repo, oci.ErrNotFound)
	}
	m, err := r.repo.Fetch(ctx, tag)
	if err != nil {
		return format.Verdict{}, fmt.Errorf("verdict on %s: %w", r.repo, err)
	}
	v, err := format.ParseVerdict(m)
	if err != nil {
		return v, fmt.Errorf("verdict on %s: %w", r.repo, err)
	}
	return v, nil
}

// Record stores a verdict, under a separate tag from now on if that of an older one cannot move.
func (s Verdicts) Record(ctx context.Context, v format.Verdict) error {
	m, err := format.NewVerdict(v)
	if err != nil {
		return err
	}
	tags, err := s.manifests.tags(ctx)
	if err != nil && !errors.Is(err, ErrUnsafe) { // a list from a cache, which the verdict may report
		return err
	}
	later := format.LaterVerdictTag(s.manifests.o.Now())
	if newest := format.NewestVerdict(tags); newest == "" || newest == format.TagVerdict {
		err = s.manifests.putOrPush(ctx, format.TagVerdict, m)
		if newest != "" && refusesForGood(err) {
			err = s.manifests.putOrPush(ctx, later, m)
		}
	} else {
		err = s.manifests.putOrPush(ctx, later, m)
	}
	if err != nil {
		return fmt.Errorf("recording the verdict in %s: %w", s.manifests.repo, err)
	}
	s.findings.reset()
	return nil
}

// refusesForGood reports whether moving a tag is refused so that a retry does not help. An
// anonymous client that may only push new tags is asked to log in.
func refusesForGood(err error) bool {
	return errors.Is(err, oci.ErrExists) || errors.Is(err, oci.ErrDenied) || errors.Is(err, oci.ErrUnsupported) || errors.Is(err, oci.ErrUnauthenticated)
}

func abilitiesOf(v format.Verdict) protocol.Abilities {
	if !v.Examined() {
		return protocol.Abilities{}
	}
	can := protocol.Abilities{ByDigest: protocol.Unable, ByTag: protocol.Unable}
	if v.DeleteDigest && v.DigestDropsTags {
		can.ByDigest = protocol.Able
	}
	if v.DeleteTag {
		can.ByTag = protocol.Able
	}
	return can
}

// judgement is the finding of the first lock of a store.
type judgement struct {
	settle time.Duration
	err    error
}

// findings are the facts that this process has learned about its registry.
type findings struct {
	mu        sync.Mutex // guards the fields below
	can       protocol.Abilities
	judgement *judgement        // nil until a lock needs it
	pointer   format.Pointer    // "": not known
	asked     time.Time         // the last listing for frequent readers, see trustsPointer
	warned    map[string]string // the last warning of each subject
}

// keepsAll is the warning about a registry that does not delete.
const keepsAll = "keeps all"

// isNewWarning reports whether a warning about a subject differs from the last one. A success is
// reported as "", so that the same warning is new after it.
func (f *findings) isNewWarning(subject, warning string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.warned[subject] != warning && warning != ""
	f.warned[subject] = warning
	return first
}

// isStuck reports whether state-W is known to stay at the first version.
func (f *findings) isStuck() bool { return f.pointerIs() == format.PointerStuck }

func (f *findings) pointerIs() format.Pointer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pointer
}

// trustsPointer reports whether state-W may be polled: it moves, or was checked within [trustTime].
func (f *findings) trustsPointer(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.pointer {
	case format.PointerMoves:
		return true
	case format.PointerStuck:
		return false
	}
	recent := !f.asked.IsZero() && now.Sub(f.asked) < trustTime
	if !recent {
		f.asked = now
	}
	return recent
}

// trustTime is how long a tag with unknown behaviour is trusted to move.
const trustTime = time.Minute

// learnPointer records how state-W behaves, and reports whether that is new.
func (f *findings) learnPointer(p format.Pointer) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed = p != "" && f.pointer != p
	if changed {
		f.pointer = p
	}
	return changed
}

func (f *findings) knownAbilities() protocol.Abilities {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.can
}

// learnAbilities records abilities; an unknown one does not replace a known one.
func (f *findings) learnAbilities(can protocol.Abilities) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if can.ByDigest != protocol.Unknown {
		f.can.ByDigest = can.ByDigest
	}
	if can.ByTag != protocol.Unknown {
		f.can.ByTag = can.ByTag
	}
}

// reset makes the next lock read the verdict again.
func (f *findings) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.judgement = nil
	f.pointer = ""
}

// judgeRepository decides once whether the repository can be locked: by its verdict, else the host.
func (f *findings) judgeRepository(ctx context.Context, r *manifests, tags []string) (judgement, error) {
	f.mu.Lock()
	known := f.judgement
	f.mu.Unlock()
	if known != nil {
		return *known, known.err
	}
	verdict := HostVerdict(r.repo.Host())
	v, err := r.verdictIn(ctx, tags)
	switch {
	case err == nil:
		verdict = v
		f.learnAbilities(abilitiesOf(v))
		f.learnPointer(v.Pointer)
	case !errors.Is(err, oci.ErrNotFound):
		return judgement{}, err
	}
	j := judgement{settle: r.o.Settle}
	if j.settle == 0 && verdict.Locking == LockingSettle {
		j.settle = settleTime
	}
	if verdict.Locking != LockingExact && verdict.Locking != LockingSettle {
		j.err = &RemediedError{
			Remedy{Kind: RemedyProbe, Repository: r.repo.String()},
			fmt.Errorf("a lock in %s would not be safe: %s: %w", r.repo, verdict.Reason, ErrUnsafe),
		}
	}
	if j.err != nil && r.o.UnsafeLocking {
		r.o.Logger.WarnContext(ctx, "locking although two runs may hold the lock at once", "repository", r.repo.String(), "reason", verdict.Reason)
		j.err = nil
	}
	f.mu.Lock()
	f.judgement = &j
	f.mu.Unlock()
	return j, j.err
}

// settleTime is the wait on hosted registries not proven to list a finished push at once.
const settleTime = 2 * time.Second

// HostVerdict returns what is known of a host. Others should show their own writes; locks check it.
func HostVerdict(host string) format.Verdict {
	for _, known := range [...]struct{ pattern, locking, reason string }{
		{"docker.io", LockingRefused, "Docker Hub serves tag lists from caches and limits pulls"},
		{"*.docker.io", LockingRefused, "Docker Hub serves tag lists from caches and limits pulls"},
		{"mirror.gcr.io", LockingRefused, "it is a mirror"},
		{"*.azurecr.io", LockingRefused, "a registry of this service may be replicated to other regions, whose lists lag behind"},
		{"quay.io", LockingSettle, ""},
		{"ghcr.io", LockingSettle, ""},
		{"registry.gitlab.com", LockingSettle, ""},
		{"*.dkr.ecr.*.amazonaws.com", LockingSettle, ""},
		{"*-docker.pkg.dev", LockingSettle, ""},
	} {
		if ok, err := path.Match(known.pattern, host); err == nil && ok {
			return format.Verdict{Locking: known.locking, Reason: known.reason}
		}
	}
	return format.Verdict{Locking: LockingExact}
}

// Check asks with one LIST whether the lock of that id is held: a claim of it is live, also another
// process's, and, where this process won it, no version is above its own. It reserves nothing: Put
// checks again. The errors, ErrLockLost or as of [Store.Resume], may cost another request.
func (s *Store) Check(ctx context.Context, workspace, id string) error {
	l, err := s.List(ctx)
	if err != nil {
		return fmt.Errorf("reading the lock of workspace %q in %s: %w", workspace, s.repo, err)
	}
	return l.Check(ctx, workspace, id)
}

// Check is [Store.Check] from this list, for a lock that was taken before the list.
func (l *Listing) Check(ctx context.Context, workspace, id string) error {
	x := newSession(l.s, workspace, LockInfo{}, terms{})
	x.snapshot = protocol.NewSnapshot(l.tags, x.names.fragment)
	x.date = l.date
	var own protocol.ClaimID
	var known int64
	if mine, ok := l.s.Holding(workspace, id); ok {
		if err := mine.checkCaller(ctx); err != nil {
			return err
		}
		own = mine.hold.Claim
		known = mine.topVersion()
	}
	how, c := x.snapshot.Standing(id, own, known)
	x.info = LockInfo{ID: id, Caller: callerOf(ctx)}
	if how == protocol.StandsHeld && c != own && x.info.Caller != "" {
		_, _, foreign, err := x.readClaim(ctx, c)
		switch {
		case err != nil && !errors.Is(err, oci.ErrNotFound):
			return err
		case foreign:
			return anotherHolder(x.lockedBy(ctx, c))
		}
	}
	return x.refusal(ctx, id, how, c)
}

// Check asks with one request whether the lock is still held. The error is ErrLockLost if it was
// taken over, also under its id, forced or removed, or there is a higher version. Put checks again.
func (l *Lock) Check(ctx context.Context) error {
	_, err := l.List(ctx)
	return err
}

// List is Check, and also returns the list that it requested.
func (l *Lock) List(ctx context.Context) (*Listing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil, fmt.Errorf("workspace %q in %s: the lock was released: %w", l.x.names.workspace, l.s.repo, ErrLockLost)
	}
	list, err := l.s.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the lock of workspace %q in %s: %w", l.x.names.workspace, l.s.repo, err)
	}
	if !l.hold.Lost && l.hold.Stands(protocol.NewSnapshot(list.tags, l.x.names.fragment)) {
		return list, nil
	}
	return nil, fmt.Errorf("workspace %q in %s: the lock was taken over or removed: %w", l.x.names.workspace, l.s.repo, ErrLockLost)
}

// topVersion is hold.Known; a lost or released lock is below every version.
func (l *Lock) topVersion() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hold.Lost || l.released {
		return -1
	}
	return l.hold.Known()
}

// refusal returns why the lock of id does not stand; nil if it stands.
func (x *session) refusal(ctx context.Context, id string, how protocol.Standing, c protocol.ClaimID) error {
	switch how {
	case protocol.StandsHeld:
		return nil
	case protocol.StandsOther:
		return x.lockedBy(ctx, c)
	case protocol.StandsLost:
		return fmt.Errorf("workspace %q in %s: the lock was taken over or removed: %w", x.names.workspace, x.s.repo, ErrLockLost)
	case protocol.StandsEnded:
		return fmt.Errorf("workspace %q in %s: %s: %w", x.names.workspace, x.s.repo, endText(x.endOf(ctx, c)), ErrLockEnded)
	}
	return fmt.Errorf("workspace %q in %s: lock %s is %w: lock first", x.names.workspace, x.s.repo, format.ShownID(id), ErrNotHeld)
}

// endOf reads the tombstone of a claim; the zero value if it cannot be read.
func (x *session) endOf(ctx context.Context, c protocol.ClaimID) format.LockManifest {
	t := format.StateTag{Kind: format.LockTombstone, Fragment: x.names.fragment, N: c.Fence, X: c.X}
	if x.snapshot.Ended[c] == protocol.EndedForced {
		t.Kind = format.ForceTombstone
	}
	by, err := x.s.manifests.fetchLock(ctx, t.String(), x.names.workspace)
	if err != nil {
		return format.LockManifest{} // the message omits the details
	}
	return by
}
