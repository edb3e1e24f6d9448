// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/oci"
)

// LockInfo describes who holds a lock, in the field names that OpenTofu and
// Terraform use.
type LockInfo = oci.LockInfo

// Lock is a lock that this process won. It is safe for concurrent use, one
// request after the other.
type Lock struct {
	s     *Store
	x     *session
	claim claimID

	mu        sync.Mutex         // guards the fields below
	beats     *beats             // nil without a lease
	newest    int64              // the head when last seen
	next      int64              // the number of the next write
	head      *oci.StateManifest // of newest, if it was read or written
	wrote     bool
	uncertain bool // a write may still arrive
	beaten    bool // the claim was renewed
	late      bool // a renewal may still arrive
	lost      bool
	released  bool
}

// lockTime bounds one attempt to lock.
const lockTime = 30 * time.Second

// Lock takes the lock of a workspace. If somebody else holds it, the error is a
// *LockedError and nothing was written. A lock of the same id that this process
// holds already is returned again; one that another process holds is taken
// over, for the caller is the same run in another place.
func (s *Store) Lock(ctx context.Context, workspace string, info LockInfo) (*Lock, error) {
	return s.lock(ctx, workspace, info, false)
}

// TakeOver takes the lock whoever holds it. The other holder's next write is
// refused and kept as a version, but what it does to infrastructure meanwhile
// nobody can stop.
func (s *Store) TakeOver(ctx context.Context, workspace string, info LockInfo) (*Lock, error) {
	return s.lock(ctx, workspace, info, true)
}

func (s *Store) lock(ctx context.Context, workspace string, info LockInfo, takeOver bool) (*Lock, error) {
	if workspace == "" {
		return nil, errors.New("workspace without a name")
	}
	if info.ID == "" {
		info.ID = s.o.NewID()
	}
	if info.Created.IsZero() {
		info.Created = s.o.Now().UTC()
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	done, err := s.begin(ctx, workspace, info.ID)
	if err != nil {
		return nil, err
	}
	defer done()
	if l, ok := s.Holding(workspace, info.ID); ok && !takeOver {
		return l, nil
	}
	var over []claimID // leases
	for try := 1; ; try++ {
		x := s.session(workspace, info)
		x.locks, x.takes = true, takeOver
		a := &acquirer{lockID: info.ID, base: rand.Uint32(), takeOver: takeOver, expired: over, can: s.abilities(), rules: s.rules}
		x.run(ctx, a)
		s.learn(a.can)
		if a.result.won {
			return x.won(ctx, a)
		}
		err := x.notWon(ctx, a.result)
		e, ok := errors.AsType[*LockedError](err)
		switch {
		case !ok || try == maxTries:
			return nil, err
		case e.expired:
			over = append(over, a.result.by)
		case !e.gone || s.pause(ctx, again()) != nil:
			return nil, err
		}
	}
}

// maxTries bounds how often an attempt starts anew because the lock that was
// in its way was released before it could be read.
const maxTries = 4

// won makes the lock that an acquirer won.
func (x *session) won(ctx context.Context, a *acquirer) (*Lock, error) {
	l := &Lock{s: x.s, x: x, claim: a.claim, newest: a.result.newest, next: a.result.next}
	if a.result.sealed {
		sealed, err := oci.ParseState(x.sealed)
		if err != nil {
			return nil, err
		}
		l.head = &sealed
	}
	if x.s.o.LockTTL > 0 && !x.date.IsZero() {
		l.startBeats(ctx)
	}
	x.s.mu.Lock()
	x.s.held[x.workspace] = l
	x.s.mu.Unlock()
	return l, nil
}

// begin lets one attempt per workspace and lock id run at a time, so that a
// repeated request finds what the first one won.
func (s *Store) begin(ctx context.Context, workspace, id string) (done func(), err error) {
	key := workspace + "\x00" + id
	for {
		s.mu.Lock()
		other, ok := s.busy[key]
		if !ok {
			mine := make(chan struct{})
			s.busy[key] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.busy, key)
				s.mu.Unlock()
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("locking workspace %q in %s: %w", workspace, s.repo, ctx.Err())
		}
	}
}

// notWon explains why a lock was not won.
func (x *session) notWon(ctx context.Context, res acquired) error {
	if !res.held {
		return fmt.Errorf("locking workspace %q in %s: %w", x.workspace, x.s.repo, res.err)
	}
	err := error(x.lockedBy(ctx, res.by))
	if res.err != nil { // our own claim may still be there
		err = fmt.Errorf("%w\nwithdrawing: %w", err, res.err)
	}
	return err
}

// lockedBy reads who holds a claim; the zero claim is an older tool's marker.
func (x *session) lockedBy(ctx context.Context, c claimID) *LockedError {
	e := &LockedError{Workspace: x.workspace, Repository: x.s.repo.String(), Held: x.foreign.Info}
	if c != (claimID{}) {
		tag := oci.StateTag{Kind: oci.LockClaim, Fragment: x.fragment, N: c.fence, X: c.x}
		l, err := x.s.fetchLock(ctx, tag.String(), x.workspace)
		if err != nil { // a claim that is listed holds, whether or not it can be read
			e.Held = LockInfo{ID: c.x, Info: "unknown, reading the claim " + tag.String() + ": " + err.Error()}
			e.gone = errors.Is(err, oci.ErrNotFound)
			return e
		}
		e.Held, e.expired = l.Info, expired(l, x.date)
	}
	if !e.Held.Created.IsZero() {
		e.Since = max(0, x.s.o.Now().Sub(e.Held.Created))
	}
	return e
}

// Holding returns the lock of that id if this process won it. It sends nothing.
func (s *Store) Holding(workspace, id string) (*Lock, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.held[workspace]
	if !ok || l.x.info.ID != id {
		return nil, false
	}
	return l, true
}

// Resume returns the lock that an earlier request took under this id. If
// another process took it, that one is fenced and the lock acquired anew under
// the same id. Without such a lock the error is a *LockedError or ErrLockLost.
func (s *Store) Resume(ctx context.Context, workspace, id string) (*Lock, error) {
	if l, ok := s.Holding(workspace, id); ok {
		return l, nil
	}
	x := s.session(workspace, LockInfo{})
	v, err := x.list(ctx)
	if err != nil {
		return nil, err
	}
	live := v.live()
	for _, c := range live {
		if oci.ClaimOf(c.x, id) {
			return s.Lock(ctx, workspace, x.infoOf(ctx, c, id))
		}
	}
	if len(live) > 0 {
		return nil, x.lockedBy(ctx, live[0])
	}
	return nil, fmt.Errorf("workspace %q in %s: lock %s is not held: %w", workspace, s.repo, id, ErrLockLost)
}

// infoOf reads the lock information of a claim to carry it on.
func (x *session) infoOf(ctx context.Context, c claimID, id string) LockInfo {
	info := x.lockedBy(ctx, c).Held
	if info.ID != id {
		info = LockInfo{ID: id}
	}
	return info
}

// Info returns who holds the lock.
func (l *Lock) Info() LockInfo { return l.x.info }

// Fence returns the first version number of the lock. It grows from holder to
// holder.
func (l *Lock) Fence() int64 { return l.claim.fence }

// Get returns the current state as the lock knows it, which may be newer than
// what a reader without the lock sees.
func (l *Lock) Get(ctx context.Context) ([]byte, Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, err := l.readHead(ctx)
	if err != nil {
		return nil, Version{}, err
	}
	return l.s.read(ctx, m, m.N)
}

// readHead reads the manifest of the head. state-W has it unless its writer
// died before moving it, or a dead holder's write came late.
func (l *Lock) readHead(ctx context.Context) (oci.StateManifest, error) {
	if l.head != nil {
		return *l.head, nil
	}
	m, err := l.s.fetchState(ctx, l.x.pointer(), l.x.workspace)
	switch {
	case err != nil && !errors.Is(err, oci.ErrNotFound):
		return m, err
	case err == nil && m.N > l.newest:
		return m, fmt.Errorf("workspace %q in %s: state-%s is version %d and the tag list showed %d, lock again: %w",
			l.x.workspace, l.s.repo, l.x.fragment, m.N, l.newest, ErrLockLost)
	case err != nil || m.N < l.newest:
		m, err = l.x.newest(ctx, view{newest: l.newest})
		if errors.Is(err, oci.ErrNotFound) {
			m, err = oci.StateManifest{Workspace: l.x.workspace, Empty: true}, nil // not to be asked again
		}
		if err != nil {
			return m, err
		}
	}
	l.head = &m
	return m, nil
}

// Put writes a state as the next version. When it returns nil, every later
// holder of the lock sees it. ErrLockLost says that the lock was taken over;
// the message names the version that keeps the bytes.
func (l *Lock) Put(ctx context.Context, state []byte) (Version, error) {
	if int64(len(state)) > l.s.o.MaxState {
		return Version{}, fmt.Errorf("state of %d bytes, the limit is %d: %w", len(state), l.s.o.MaxState, oci.ErrTooLarge)
	}
	h := readHead(state)
	return l.write(ctx, state, oci.StateManifest{Lineage: h.lineage, Serial: h.serial})
}

// Delete deletes the workspace: its history stays until it is pruned, and a
// later Put revives the name.
func (l *Lock) Delete(ctx context.Context) error {
	_, err := l.write(ctx, nil, oci.StateManifest{Empty: true, Deleted: true})
	return err
}

func (l *Lock) write(ctx context.Context, state []byte, m oci.StateManifest) (Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released || l.lost {
		return Version{}, l.overtaken(ctx, 0)
	}
	if err := l.prepare(ctx, state, &m); err != nil {
		return Version{}, fmt.Errorf("writing the state of workspace %q to %s: %w", l.x.workspace, l.s.repo, err)
	}
	save := &saver{claim: l.claim, n: m.N, rules: l.s.rules}
	if !l.s.rules.reuseNumber {
		l.next++
	}
	l.x.run(ctx, save)
	l.uncertain = l.uncertain || save.result.uncertain
	return l.settled(ctx, m, save.result)
}

// settled turns the outcome of a saver into that of a write.
func (l *Lock) settled(ctx context.Context, m oci.StateManifest, res saved) (Version, error) {
	kept := int64(0)
	if res.written {
		kept = m.N
	}
	switch {
	case res.lost && errors.Is(res.err, errNumbersUsed):
		l.lost = true
		return Version{}, fmt.Errorf("workspace %q in %s: %w: %w", l.x.workspace, l.s.repo, res.err, ErrLockLost)
	case res.lost:
		l.lost = true
		return Version{}, l.overtaken(ctx, kept)
	case !res.stored && res.written:
		return Version{}, fmt.Errorf("workspace %q in %s: your state was saved as version %d, but it cannot be told whether it counts: %w", l.x.workspace, l.s.repo, kept, res.err)
	case !res.stored:
		return Version{}, fmt.Errorf("writing the state of workspace %q to %s: %w", l.x.workspace, l.s.repo, res.err)
	case res.behind:
		l.s.o.Logger.WarnContext(ctx, "the state was stored, but state-"+l.x.fragment+" could not be moved to it; the next lock repairs this",
			"repository", l.s.repo.String(), "version", m.N, "error", res.err)
	}
	l.wrote, l.newest, l.head = true, m.N, &m
	v := newVersion(m)
	v.Current = true
	return v, nil
}

// prepare encodes a state, pushes its blob and fills the manifest.
func (l *Lock) prepare(ctx context.Context, state []byte, m *oci.StateManifest) error {
	parent, err := l.readHead(ctx)
	if errors.Is(err, ErrLockLost) || errors.Is(err, oci.ErrCorrupt) {
		// The bytes are to be kept all the same, and whether the lock is lost is
		// decided after they are written.
		parent, err = oci.StateManifest{N: l.newest}, nil
	}
	if err != nil {
		return err
	}
	m.Workspace, m.N, m.Fence = l.x.workspace, l.next, l.claim.fence
	m.LockID, m.Tool, m.Created = l.x.info.ID, l.s.o.Tool, l.s.o.Now()
	m.Parent, m.ParentN = parent.Manifest.Digest.String(), parent.N
	m.Origin = oci.StateOrigin{Repository: l.s.repo.String(), Workspace: m.Workspace, Version: m.N, Fence: m.Fence, Parent: m.Parent}
	l.x.blobs = nil
	if !m.Empty {
		e, err := l.s.encode(ctx, state, m.Origin)
		if err != nil {
			return err
		}
		blob := oci.StateLayer(e.encoding, e.bytes)
		if parent.Layer.Digest != blob.Digest { // else the registry has it
			if err := l.s.repo.PushBlob(ctx, blob); err != nil {
				return err
			}
		}
		m.Layer, m.Envelope, m.SHA256 = blob.Descriptor, e.envelope, blob.Digest.Encoded()
		l.x.blobs = []oci.Blob{blob}
	}
	l.x.head, err = oci.NewStateManifest(*m)
	m.Manifest = l.x.head.Descriptor
	return err
}

// overtaken reads who ended our claim, and says where the bytes are.
func (l *Lock) overtaken(ctx context.Context, kept int64) error {
	if l.released {
		return fmt.Errorf("workspace %q in %s: the lock was released: %w", l.x.workspace, l.s.repo, ErrLockLost)
	}
	tag := oci.StateTag{Kind: oci.ForceTombstone, Fragment: l.x.fragment, N: l.claim.fence, X: l.claim.x}
	by, err := l.s.fetchLock(ctx, tag.String(), l.x.workspace)
	if err != nil {
		by = oci.LockManifest{} // the message does without
	}
	return lostError(l.s.repo.String(), l.x.workspace, kept, by)
}

// Unlock releases the lock. It may be called again, with no effect. An error
// means that the workspace may still look locked.
func (l *Lock) Unlock(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil
	}
	if l.wrote && !l.lost {
		l.sweep(ctx)
		l.prune(ctx)
	}
	if l.beats != nil {
		l.beats.end()
		l.beaten, l.late, l.beats = l.beats.sent > 1, l.beats.uncertain, nil
	}
	e := &releaser{
		claim: l.claim, forced: l.uncertain || l.lost, marked: !l.lost, beaten: l.beaten, late: l.late,
		can: l.s.abilities(), rules: l.s.rules,
	}
	if !l.lost || l.x.seen.ended[l.claim] == 0 {
		l.x.run(ctx, e)
		l.s.learn(e.can)
	}
	if e.err != nil {
		return fmt.Errorf("unlocking workspace %q in %s: %w", l.x.workspace, l.s.repo, e.err)
	}
	l.released = true
	l.s.forget(l)
	return nil
}

// maxPruned bounds what one lock cleans up.
const maxPruned = 20

// prune keeps the configured number of versions. It is a courtesy: a failure
// is logged, and the next lock tries again.
func (l *Lock) prune(ctx context.Context) {
	if l.s.o.MaxVersions <= 0 {
		return
	}
	_, err := l.x.prune(ctx, l.x.numbers, l.s.o.MaxVersions, maxPruned)
	if err != nil {
		l.s.o.Logger.WarnContext(ctx, "old versions could not be removed", "repository", l.s.repo.String(), "workspace", l.x.workspace, "error", err)
	}
}

func (s *Store) forget(l *Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[l.x.workspace] == l {
		delete(s.held, l.x.workspace)
	}
}

func (s *Store) abilities() abilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.can
}

// learn keeps what was found out; what is unknown there may be known here.
func (s *Store) learn(can abilities) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if can.byDigest != unknown {
		s.can.byDigest = can.byDigest
	}
	if can.byTag != unknown {
		s.can.byTag = can.byTag
	}
}
