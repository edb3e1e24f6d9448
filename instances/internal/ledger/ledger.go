// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// workspace is the name of the document's workspace in its repository.
const workspace = "ledger"

const (
	// lease is how long a leader without heartbeats still counts as leader.
	lease = 30 * time.Second
	// tryEvery is how often a replica tries to lead, more often than heartbeats come.
	tryEvery = 8 * time.Second
	// pollEvery is how often a follower checks for a newer document.
	pollEvery = 2 * time.Second
	// askTime bounds one operation on the registry.
	askTime = 30 * time.Second
	// endTime bounds how long the end of a leader's term may take.
	endTime = 10 * time.Second
	// maxDocument is the largest document that is read.
	maxDocument = 64 << 20
	// fullDocument is the size from which a document takes no new records.
	fullDocument = 16 << 20
)

// Options configure a [Ledger]. Repo and Machine are required.
type Options struct {
	// Repo returns the repository of the ledger with that number, from 1 on.
	Repo    func(number int) (*oci.Repo, error)
	Machine *lifecycle.Machine
	Sealer  statebackend.Sealer // of the state keys; nil: there are none
	// InClear lets a replica lead without state keys. Any writer to the registry then
	// controls whatever the instances control.
	InClear bool
	// BuiltIn reports that the registry is in this server: no other writer, and our clock.
	BuiltIn bool
	// Folder is where the newest serial is stored; "": only in memory.
	Folder string
	// Entries reports whether instances were made here before, although the ledger is
	// empty; nil: they were not.
	Entries func(context.Context) (bool, error)
	// Effects carries out what a commit decided, and what a new leader finds, in order, one call at a
	// time. It must return when ctx, the leader's term, ends. nil: effects are dropped.
	Effects func(ctx context.Context, effects []lifecycle.Effect)
	// Committed is called with the duration of each commit; nil: no call.
	Committed func(time.Duration)

	// Address is where other replicas reach this one; "": nowhere. It is signed with each of
	// AddressKeys, which all that may lead have, and of PortalKeys. Only AddressKeys are trusted: a
	// portal cannot name a leader.
	Address     string
	AddressKeys [][]byte
	PortalKeys  [][]byte
	// Portal only follows the leader's address: it never leads, and reads no document.
	Portal bool

	Limits Limits
	Tool   string       // writer of the lock information, such as "okara/1.0.0"
	Logger *slog.Logger // nil: none
	Now    func() time.Time
	Uptime func() time.Duration // nil: [statebackend.Uptime]
	NewID  func() string
}

// Limits say when a leader cleans up. A zero field means the number in its comment.
type Limits struct {
	Keep  int // versions to keep: 50
	Prune int // commits between two clean-ups: 1,000
	Renew int // commits until the lock is taken anew: 50,000
	Roll  int // versions at which another repository is begun if none can be removed: 5,000
}

func (n Limits) withDefaults() Limits {
	return Limits{
		Keep: cmp.Or(max(n.Keep, 0), 50), Prune: cmp.Or(max(n.Prune, 0), 1000),
		Renew: cmp.Or(max(n.Renew, 0), 50_000), Roll: cmp.Or(max(n.Roll, 0), 5000),
	}
}

// Ledger stores the document of all instances. It is safe for concurrent use.
type Ledger struct {
	o    Options
	book *chain // of repositories

	mu       sync.Mutex    // guards the fields below
	seen     snapshot      // the newest valid document known
	tenure   *tenure       // nil: this replica does not lead
	leader   string        // address of the leader, "" if unknown
	empty    time.Time     // when there was no document; zero: there was one, or it is unknown
	refused  error         // why this replica does not lead although no other does
	changed  chan struct{} // closed when any of the above changes
	serials  *serials
	dangling []*statebackend.Lock // locks whose release the registry has not confirmed
}

// snapshot is a document as of a commit.
type snapshot struct {
	page    page
	number  int   // of the repository
	version int64 // in it; 0: nothing was read
	asOf    time.Time
}

// New returns a ledger that does nothing until [Ledger.Run].
func New(o Options) (*Ledger, error) {
	o.Limits = o.Limits.withDefaults()
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Uptime == nil {
		o.Uptime = statebackend.Uptime
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	m, err := newSerials(o.Folder)
	if err != nil {
		return nil, err
	}
	l := &Ledger{o: o, serials: m, changed: make(chan struct{})}
	l.book = &chain{l: l, number: 1, stores: map[int]*statebackend.Store{}, asking: make(chan struct{}, 1)}
	return l, nil
}

// Run follows and, where it can, leads the ledger until ctx ends; then it releases the lock.
func (l *Ledger) Run(ctx context.Context) error {
	if l.o.Portal {
		<-ctx.Done()
		return nil
	}
	l.book.findCurrent(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { l.followLeader(ctx) })
	for ctx.Err() == nil {
		wait := l.tryToLead(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// View returns the last committed document, and the leader. AsOf is when it was last known to be
// the newest. Without a document the error is lifecycle.ErrNoLeader.
func (l *Ledger) View(ctx context.Context) (lifecycle.View, error) {
	if l.o.Portal {
		address, err := l.book.address(ctx)
		if err != nil {
			return lifecycle.View{}, fmt.Errorf("%w: %w", lifecycle.ErrNoLeader, err)
		}
		return lifecycle.View{Leader: address}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.tenure; t != nil && t.isFresh() {
		return lifecycle.View{Document: t.committed.doc, AsOf: t.clock.clockTime(), Leading: true}, nil
	}
	v := lifecycle.View{Document: l.seen.page.doc, AsOf: l.seen.asOf, Leader: l.leader}
	switch {
	case v.Document != nil:
	case v.Leader != "" && !l.empty.IsZero(): // the leader has committed nothing yet
		v.Document = &lifecycle.Document{Version: 1}
		v.AsOf = l.empty
	default:
		return v, l.noLeader()
	}
	return v, nil
}

// Leader returns the leader's address, or "", and whether it is this replica.
func (l *Ledger) Leader(ctx context.Context) (address string, here bool) {
	v, err := l.View(ctx)
	if err != nil {
		return v.Leader, false
	}
	return v.Leader, v.Leading
}

// Changed returns a channel that is closed when View would return a different result.
func (l *Ledger) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// notify wakes those that wait for a change. l.mu is held.
func (l *Ledger) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Status describes the state of a ledger.
type Status struct {
	Leading bool
	Leader  string // address of the leader, "" if unknown or here
	Refused error  // why this replica does not lead although no other does; nil: it may
	Number  int    // of the repository
	Version int64
	Serial  uint64
	Held    string            // why expiry is held; "": it is not
	Aside   map[string]string // records that are kept but ignored, by ID: the reason
}

// Status returns the state of the ledger, as far as this replica knows.
func (l *Ledger) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{
		Leading: l.tenure != nil && l.tenure.isFresh(), Leader: l.leader, Refused: l.refused,
		Number: l.seen.number, Version: l.seen.version, Serial: l.seen.page.Serial, Aside: l.seen.page.reasons(),
	}
	if d := l.seen.page.doc; d != nil {
		s.Held = d.Clock.Held
	}
	return s
}

// Do returns when a command is committed or refused. If the outcome is unknown, the error
// is lifecycle.ErrNoLeader, and the command may be sent again with its key.
func (l *Ledger) Do(ctx context.Context, c lifecycle.Command) (lifecycle.Answer, error) {
	l.mu.Lock()
	t := l.tenure
	if t == nil || !t.isFresh() {
		err := l.noLeader()
		l.mu.Unlock()
		return lifecycle.Answer{}, err
	}
	w, err := t.takeCommand(c)
	fresh := t.isFresh()
	l.mu.Unlock()
	switch {
	case err != nil && fresh:
		return lifecycle.Answer{}, err
	case err != nil:
		return lifecycle.Answer{}, lifecycle.ErrNoLeader
	}
	select {
	case <-w.done:
		return w.answer, w.err
	case <-ctx.Done():
		return lifecycle.Answer{}, fmt.Errorf("%w: %w", lifecycle.ErrNoLeader, ctx.Err())
	}
}

// noLeader returns the error for the lack of a leader. l.mu is held.
func (l *Ledger) noLeader() error {
	if l.refused != nil {
		return fmt.Errorf("%w: %w", lifecycle.ErrNoLeader, l.refused)
	}
	return lifecycle.ErrNoLeader
}

// tryToLead leads until its term ends, if no other does. It returns the wait before the next try.
func (l *Ledger) tryToLead(ctx context.Context) time.Duration {
	err := l.lead(ctx)
	locked, held := errors.AsType[*statebackend.LockedError](err)
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.leader
	switch {
	case held:
		l.leader = l.book.addressOf(locked.Tag, locked.Held)
		l.refused = nil
	case errors.Is(err, errMoved), errors.Is(err, errOver):
		l.leader = ""
		l.refused = nil
	case err != nil:
		l.leader = ""
		if l.refused == nil || l.refused.Error() != err.Error() {
			l.o.Logger.WarnContext(ctx, "this server cannot become the leader", "error", err)
		}
		l.refused = err
	}
	if was != l.leader {
		l.notify()
	}
	if errors.Is(err, errMoved) || errors.Is(err, errOver) {
		return time.Second
	}
	return tryEvery
}
