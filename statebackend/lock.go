// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// LockInfo describes the holder of a lock, in the field names of OpenTofu and Terraform.
type LockInfo = format.LockInfo

// Lock is a lock that this process won. It is safe for concurrent use, and serializes its requests.
type Lock struct {
	s          *Store
	x          *session
	heartbeats *heartbeats // nil without a lease

	mu       sync.Mutex            // guards the fields below
	hold     protocol.Hold         // hold.Claim does not change
	head     *format.StateManifest // the newest version, if it was read or written
	wrote    bool
	told     bool  // IsRepeated returned true
	none     bool  // the list by which the lock was won had neither versions nor state-W
	behind   bool  // state-W does not name the head
	opaque   bool  // the tool encrypts the state that was read
	repeat   int64 // the version in whose place the next is written, see [format.OperationRecord]; 0: none
	released bool
	leaves   time.Duration // until when UnlockRetrying tries, by Uptime; 0: not called yet
	owner    string        // the owner that the record named when it was last checked; "": not checked
}

// Info returns the description of the holder.
func (l *Lock) Info() LockInfo { return l.x.info }

// Fence returns the first version number of the lock. It grows from holder to holder.
func (l *Lock) Fence() int64 { return l.hold.Claim.Fence }

// Get returns the current state as the lock knows it: maybe newer than what others see.
func (l *Lock) Get(ctx context.Context) ([]byte, Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, err := l.readHead(ctx)
	if err != nil {
		return nil, Version{}, err
	}
	state, v, err := l.s.vault.readState(ctx, m, m.N)
	l.opaque = EncryptedByTool(state)
	return state, v, err
}

// readHead reads the head. It is not in state-W if its writer died, or a dead one's came late.
func (l *Lock) readHead(ctx context.Context) (format.StateManifest, error) {
	if l.head != nil {
		return *l.head, nil
	}
	m := format.StateManifest{}
	err := error(oci.ErrNotFound)
	if !l.none && (l.hold.Newest == 0 || !l.s.findings.isStuck()) {
		m, err = l.s.manifests.fetchState(ctx, l.x.names.pointerTag(), l.x.names.workspace)
	}
	switch {
	case err != nil && !errors.Is(err, oci.ErrNotFound):
		return m, err
	case err == nil && m.N > l.hold.Newest:
		return m, fmt.Errorf("workspace %q in %s: state-%s is version %d, but the tag list showed %d, lock again: %w",
			l.x.names.workspace, l.s.repo, l.x.names.fragment, m.N, l.hold.Newest, ErrLockLost)
	case err != nil || m.N < l.hold.Newest:
		l.behind = l.hold.Newest > 0
		m, err = l.s.manifests.readNewest(ctx, l.x.names, protocol.Snapshot{Newest: l.hold.Newest})
		if errors.Is(err, oci.ErrNotFound) {
			// cached, so that it is not requested again
			m = format.StateManifest{Workspace: l.x.names.workspace, Empty: true}
			err = nil
		}
		if err != nil {
			return m, err
		}
	}
	l.head = &m
	return m, nil
}

// Put writes a state as the next version. When it returns nil, every later holder sees that
// version. ErrLockLost says that the lock was taken over; message and result name the version that
// keeps the bytes, if any. Later writes are kept, too: a run's last state is the most complete.
func (l *Lock) Put(ctx context.Context, state []byte) (Version, error) {
	if int64(len(state)) > l.s.o.MaxState {
		return Version{}, fmt.Errorf("state of %d bytes, the limit is %d: %w", len(state), l.s.o.MaxState, oci.ErrTooLarge)
	}
	h := readHead(state)
	return l.writeState(ctx, state, format.StateManifest{Lineage: h.lineage, Serial: h.serial})
}

// Delete deletes the workspace. Its history stays until pruned; a later Put restores the name.
func (l *Lock) Delete(ctx context.Context) error {
	_, err := l.writeState(ctx, nil, format.StateManifest{Empty: true, Deleted: true})
	return err
}

func (l *Lock) writeState(ctx context.Context, state []byte, m format.StateManifest) (Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return Version{}, fmt.Errorf("workspace %q in %s: the lock was released: %w", l.x.names.workspace, l.s.repo, ErrLockLost)
	}
	c, err := l.prepare(ctx, state, &m)
	if err != nil {
		return Version{}, fmt.Errorf("writing the state of workspace %q to %s: %w", l.x.names.workspace, l.s.repo, err)
	}
	save := l.hold.Save()
	l.x.runMachine(ctx, save, &c)
	l.hold.Saved(save)
	return l.settleSave(ctx, m, save.Result)
}

func (l *Lock) settleSave(ctx context.Context, m format.StateManifest, res protocol.Saved) (Version, error) {
	var kept Version
	if res.Written {
		kept = newVersion(m)
	}
	switch {
	case res.Lost && errors.Is(res.Err, protocol.ErrNumbersUsed):
		return Version{}, fmt.Errorf("workspace %q in %s: %w: %w", l.x.names.workspace, l.s.repo, res.Err, ErrLockLost)
	case res.Lost && res.Stored: // just before the lock was ended; its holder reads what it wrote
		l.head = &m
		return newVersion(m), nil
	case res.Lost:
		return kept, overtakenError(ctx, l, kept.N, res)
	case !res.Stored && res.Written:
		return kept, fmt.Errorf("workspace %q in %s: your state was saved as version %d, but it is unknown whether it is current: %w", l.x.names.workspace, l.s.repo, kept.N, res.Err)
	case !res.Stored:
		return Version{}, fmt.Errorf("writing the state of workspace %q to %s: %w", l.x.names.workspace, l.s.repo, res.Err)
	case res.Behind:
		l.s.pointers.reportBehind(ctx, l.x.names, m.N, res.Err)
	}
	l.behind = res.Behind
	l.wrote = true
	l.head = &m
	v := newVersion(m)
	v.Current = true
	l.s.catalog.remember(l.x.names, v)
	return v, nil
}

func (l *Lock) prepare(ctx context.Context, state []byte, m *format.StateManifest) (c content, err error) {
	parent, err := l.readHead(ctx)
	if errors.Is(err, ErrLockLost) || errors.Is(err, oci.ErrCorrupt) {
		// The bytes are kept anyway; whether the lock is lost is decided after they are written.
		parent = format.StateManifest{N: l.hold.Newest}
		err = nil
	}
	if err != nil {
		return c, err
	}
	m.Workspace = l.x.names.workspace
	m.N = l.hold.Next
	m.Fence = l.hold.Claim.Fence
	m.LockID = l.x.info.ID
	m.Tool = toolOf(ctx, l.s.o.Tool)
	m.Created = l.s.o.Now()
	m.Who = l.x.info.Who
	m.Caller = callerName(ctx, l.s.repo)
	m.Operation = l.x.info.Operation
	m.Run = runPage(l.x.info.Info)
	m.Parent = parent.Manifest.Digest.String()
	m.ParentN = parent.N
	// Beyond a jump the holder before may still ask whether its last version counts.
	if parent.Operation == format.OperationRecord && m.N == parent.N+1 {
		l.repeat = parent.N
		m.Parent = parent.Parent
		m.ParentN = parent.ParentN
	}
	blob, ok, err := l.s.vault.storeState(ctx, state, m, l.s.vault.usageOf(ctx, state, parent))
	if err != nil {
		return c, err
	}
	if ok {
		if parent.Layer.Digest != blob.Digest { // else the registry has it
			if err := l.s.repo.PushBlob(ctx, blob); err != nil {
				return c, err
			}
		}
		c.blobs = []oci.Blob{blob}
	}
	c.manifest, err = format.NewStateManifest(*m)
	m.Manifest = c.manifest.Descriptor
	return c, err
}

// overtakenError says who ended our claim, which version keeps the bytes and whether it is current.
func overtakenError(ctx context.Context, l *Lock, kept int64, res protocol.Saved) error {
	how := endText(l.x.endOf(ctx, l.hold.Claim))
	if !l.x.snapshot.Has(l.hold.Claim) && l.x.snapshot.Ended[l.hold.Claim] == 0 {
		how = explainMissing(l)
	}
	what := "and the next lock decides whether it is current"
	switch {
	case res.Refused:
		what = "which is not current"
	case res.Next > 0:
		what = fmt.Sprintf("from which version %d continues", res.Next)
	}
	return lostError(l.s.repo.String(), l.x.names.workspace, kept, how, what)
}

// explainMissing says why a list lacks both claim and tombstone. The newest version is never
// removed while the lock is held, so its absence shows a rollback.
func explainMissing(l *Lock) string {
	if l.hold.Newest > 0 && !slices.Contains(l.x.numbers, l.hold.Newest) {
		return fmt.Sprintf("the registry no longer has the lock and version %d: it was rolled back, for example restored from a backup", l.hold.Newest)
	}
	return "the registry no longer has the lock: it was released by another process of this run, its tag was removed, or the registry was rolled back, for example restored from a backup"
}

// Unlock releases the lock, with the claims that other processes of the client made under its id
// before. It may be called again. After an error the workspace may still appear locked.
func (l *Lock) Unlock(ctx context.Context) error {
	sealed, joined := l.sealedBelow()
	if err := l.unlock(ctx); err != nil || !joined {
		return err
	}
	_, err := endLock(ctx, l.s, l.x.names.workspace, l.x.info.ID, sealed, true)
	if _, locked := errors.AsType[*LockedError](err); locked || errors.Is(err, oci.ErrNotFound) {
		return nil // they have been ended already
	}
	return err
}

// WithdrawShared ends the claim of a lock alone if another process of the client had a live one under the
// same id when it was won: for clients whose processes share an id, and must not share a lock. Of two
// at the same moment at least one is told so, and perhaps both.
func WithdrawShared(ctx context.Context, l *Lock) (shared bool, err error) {
	if !l.hold.Beside {
		return false, nil
	}
	return true, l.unlock(ctx)
}

// sealedBelow reports whether the lock was won beside claims of other processes of the client, and
// the number below which these cannot write any more.
func (l *Lock) sealedBelow() (sealed int64, joined bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hold.Sealed(), l.hold.Joined
}

func (l *Lock) unlock(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil
	}
	if l.wrote && !l.hold.Lost && !l.hold.Uncertain && ctx.Err() == nil {
		cleaner{l.s, l.x, l.repeat, l.head != nil && l.head.Operation == format.OperationRecord}.cleanUp(ctx)
	}
	e := l.hold.Release()
	e.Can = l.s.findings.knownAbilities()
	if b := l.heartbeats; b != nil {
		b.stopAndWait()
		e.Renewed = b.sent > 1
		e.Late = b.uncertain
	}
	if !l.hold.Lost || l.x.snapshot.Ended[l.hold.Claim] == 0 {
		l.x.runMachine(ctx, e, nil)
		l.s.findings.learnAbilities(e.Can)
	}
	if e.Err != nil {
		return fmt.Errorf("unlocking workspace %q in %s: %w", l.x.names.workspace, l.s.repo, e.Err)
	}
	l.released = true
	l.s.locks.forgetHeld(l)
	if n := len(l.x.snapshot.Claims); n >= manyClaims {
		l.s.o.Logger.WarnContext(ctx, "the registry does not allow deleting what locks leave behind; a copy of the repository starts without it",
			"repository", l.s.repo.String(), "workspace", l.x.names.workspace, "locks", n)
	}
	return nil
}

// Abandon is Unlock for a caller that does not know the outcome of a write: the next holder skips
// the numbers of this lock, as after a takeover.
func (l *Lock) Abandon(ctx context.Context) error {
	l.mu.Lock()
	l.hold.Uncertain = true
	l.mu.Unlock()
	return l.Unlock(ctx)
}

// Versions returns how many versions the lock last listed: when it was taken, and at each Put.
func (l *Lock) Versions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.x.numbers)
}

// manyClaims is the number of ended locks that triggers a warning: each adds 200 bytes to a list.
const manyClaims = 500

// cleaner removes what ended locks left behind, and old versions, under a lock.
type cleaner struct {
	s        *Store
	x        *session
	repeat   int64 // was replaced; 0: none
	repeated bool  // the newest version repeats the one before, and is not counted
}

// mayDelete reports whether deleting is worth a try. Clean tombstones accumulate only in a registry
// without DELETE, which is not asked again each time.
func (l cleaner) mayDelete() bool {
	switch can := l.s.findings.knownAbilities(); can {
	case protocol.Abilities{}:
		return !slices.Contains(slices.Collect(maps.Values(l.x.snapshot.Ended)), protocol.EndedClean)
	default:
		return can.ByTag != protocol.Unable || can.ByDigest != protocol.Unable
	}
}

func (l cleaner) cleanUp(ctx context.Context) {
	if l.mayDelete() {
		l.cleanUpClaims(ctx)
		l.prune(ctx)
		return
	}
	if n := len(l.x.numbers); l.tooMany() && l.s.findings.isNewWarning("", keepsAll) {
		l.s.o.Logger.WarnContext(ctx, "max_versions has no effect here: the registry does not allow deletion",
			"repository", l.s.repo.String(), "workspace", l.x.names.workspace, "max_versions", l.s.o.MaxVersions, "versions", n)
	}
}

func (l cleaner) tooMany() bool { return l.s.o.MaxVersions > 0 && len(l.x.numbers) > l.limit() }

func (l cleaner) limit() int {
	if l.repeated {
		return l.s.o.MaxVersions + 1
	}
	return l.s.o.MaxVersions
}

const maxPruned = 20

// prune removes surplus versions. A failure is logged, and the next lock retries.
func (l cleaner) prune(ctx context.Context) {
	if l.repeat == 0 && !l.tooMany() {
		return
	}
	p := pruner{l.s.manifests, l.x.names}
	tags, err := l.s.manifests.tags(ctx)
	if err == nil && l.repeat > 0 {
		_, err = p.dropVersions(ctx, tags, []int64{l.repeat})
		l.x.numbers = slices.DeleteFunc(l.x.numbers, func(n int64) bool { return n == l.repeat })
	}
	if err == nil && l.tooMany() {
		_, err = p.prune(ctx, tags, l.x.numbers, l.limit(), maxPruned)
	}
	l.s.catalog.warnUnpruned(ctx, l.x.names, err)
}

// refusalText is the part of an error that does not depend on the object; "" for nil.
func refusalText(err error) string {
	e, ok := errors.AsType[*oci.ResponseError](err)
	switch {
	case ok:
		return fmt.Sprint(e.Status, e.Codes)
	case err != nil:
		return err.Error()
	}
	return ""
}

// warnUnpruned logs why old versions stay, unless the last warning gave the same reason.
func (s *catalog) warnUnpruned(ctx context.Context, l tagNames, err error) {
	if s.findings.isNewWarning(l.fragment, refusalText(err)) {
		s.manifests.o.Logger.WarnContext(ctx, "old versions could not be removed", "repository", s.manifests.repo.String(), "workspace", l.workspace, "error", err)
	}
}

// Resume returns the lock that an earlier request of the same client took under this id, also if
// another process answered that request. That process is fenced by numbers above all that it may
// write, while the claim by which the client won stays live: no other client gets the lock between
// LOCK and UNLOCK, whichever processes answer.
//
// Without such a lock the error is ErrLockEnded where a tombstone says that it was ended, else a
// *LockedError where another client holds it, else ErrNotHeld. Other errors do not change it.
func (s *Store) Resume(ctx context.Context, workspace, id string) (*Lock, error) {
	if l, ok := s.Holding(workspace, id); ok {
		return l, l.checkCaller(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	done, err := s.locks.beginAttempt(ctx, workspace, id)
	if err != nil {
		return nil, fmt.Errorf("reading the lock of workspace %q in %s: %w", workspace, s.repo, err)
	}
	defer done()
	if l, ok := s.Holding(workspace, id); ok {
		return l, l.checkCaller(ctx)
	}
	x := newSession(s, workspace, LockInfo{ID: id, Caller: callerOf(ctx)}, terms{locks: true})
	a := newAcquirer(s, id)
	a.Resume = true
	var seal content
	x.runMachine(ctx, a, &seal)
	s.findings.learnAbilities(a.Can)
	switch res := a.Result; {
	case res.Won:
		return x.makeLock(ctx, a, seal)
	case res.Held:
		return nil, anotherHolder(x.lockedBy(ctx, res.By))
	case res.Ended:
		how, c := x.snapshot.Over(id).Standing(id, protocol.ClaimID{}, 0)
		return nil, x.refusal(ctx, id, how, c)
	default:
		return nil, fmt.Errorf("reading the lock of workspace %q in %s: %w", workspace, s.repo, res.Err)
	}
}

// maxResumes bounds how often a request takes its lock back from other processes of the client.
const maxResumes = 4

// Resumed runs do under the lock of an earlier request of the same client, for servers that keep
// nothing between requests. If another process answered in between, the lock known here cannot
// write any more: it is resumed, and do runs again. Errors of [Store.Resume] are returned
// unchanged, so that a lock never held differs from one that was lost.
func (s *Store) Resumed(ctx context.Context, workspace, id string, do func(*Lock) error) error {
	l, err := s.Resume(ctx, workspace, id)
	if err != nil {
		return err
	}
	for range maxResumes {
		if err = do(l); !errors.Is(err, ErrLockLost) {
			return err
		}
		s.locks.dropHeld(l) // its claim stays, since it belongs to the client
		var resumeErr error
		l, resumeErr = s.Resume(ctx, workspace, id)
		_, locked := errors.AsType[*LockedError](resumeErr)
		switch {
		case locked, errors.Is(resumeErr, ErrLockLost):
			return err // another client took the lock: err names it, and the version that keeps the bytes
		case resumeErr != nil:
			return resumeErr // the client may hold it still
		}
	}
	return fmt.Errorf("workspace %q in %s: %w", workspace, s.repo, protocol.ErrBeside)
}
