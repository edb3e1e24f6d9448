// SPDX-License-Identifier: Apache-2.0

package ledger

import (
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

// workspace is where the document is in its repository.
const workspace = "ledger"

const (
	// lease is how long a leader counts as one that has sent no beat.
	lease = 30 * time.Second
	// tryEvery is how often a replica tries to lead. It is less than the time
	// between two beats: who looks less often has not seen that there was none.
	tryEvery = 8 * time.Second
	// pollEvery is how often a follower asks for a newer document.
	pollEvery = 2 * time.Second
	// askTime bounds what is asked of the registry at once: a commit, or reading
	// the document.
	askTime = 30 * time.Second
	// endTime bounds how long the end of a leader's time may take.
	endTime = 10 * time.Second
	// maxDocument is the largest document that is read.
	maxDocument = 64 << 20
	// fullDocument is how large a document may be before it takes no new records.
	fullDocument = 16 << 20
)

// Options configure a [Ledger]. Repo and Machine are needed.
type Options struct {
	// Repo returns the repository of the ledger with that number, from 1 on.
	Repo    func(number int) (*oci.Repo, error)
	Machine *lifecycle.Machine
	Sealer  statebackend.Sealer // of the state keys; nil: there are none
	// InClear lets a replica lead without state keys. Who may write to the
	// registry owns what instances own.
	InClear bool
	// BuiltIn says that the registry is this server's own: nobody else writes to
	// it, and its clock is ours.
	BuiltIn bool
	// Folder is where the newest serial is remembered; "": only in memory.
	Folder string
	// Entries reports whether instances were made here before, though the ledger is
	// empty; nil: they were not.
	Entries func(context.Context) (bool, error)
	// Effects begins what a commit decided, and what a new leader finds
	// outstanding, in order and one call at a time. ctx ends with the leader's
	// time, and so has Effects to. Nil: nothing is begun.
	Effects func(ctx context.Context, effects []lifecycle.Effect)
	// Committed hears how long each commit took; nil: nobody.
	Committed func(time.Duration)

	// Address is where this replica can be reached by the others; "": nowhere. It
	// is told under each of AddressKeys, which those have who may lead, and under
	// each of PortalKeys. Only an address under one of AddressKeys is believed: a
	// portal has its own key there, and names nobody to others with it.
	Address     string
	AddressKeys [][]byte
	PortalKeys  [][]byte
	// Portal follows the address of the leader alone: it never leads, and reads
	// no document.
	Portal bool

	Limits Limits
	Tool   string       // who writes, such as "okara/1.0.0"
	Logger *slog.Logger // nil: none
	Now    func() time.Time
	Uptime func() time.Duration // nil: [statebackend.Uptime]
	NewID  func() string
}

// Limits are when a leader tidies up. A zero field is the number beside it.
type Limits struct {
	Keep  int // 50 versions are kept
	Prune int // after 1,000 commits
	Renew int // the lock is taken anew after 50,000
	Roll  int // another repository is begun at 5,000 versions, where none can be removed
}

func (n Limits) withDefaults() Limits {
	for _, f := range [...]struct {
		field *int
		value int
	}{{&n.Keep, 50}, {&n.Prune, 1000}, {&n.Renew, 50_000}, {&n.Roll, 5000}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return n
}

// Ledger keeps the document of all instances. It is safe for concurrent use.
type Ledger struct {
	o    Options
	book *chain // of repositories

	mu       sync.Mutex    // guards the fields below
	seen     snapshot      // the newest document that is known to count
	tenure   *tenure       // nil: this replica does not lead
	leader   string        // address of who does, "" if unknown
	empty    time.Time     // when there was no document; zero: there was one, or nobody could tell
	refused  error         // why this replica does not lead though nobody does
	changed  chan struct{} // closed when any of the above changes
	serials  *serials
	dangling []*statebackend.Lock // whose end the registry has not confirmed
}

// snapshot is a document as it was committed.
type snapshot struct {
	page    page
	number  int   // of the repository
	version int64 // in it; 0: nothing was read
	asOf    time.Time
}

// New returns a ledger that does nothing until [Ledger.Run].
func New(o Options) (*Ledger, error) {
	o.Limits = o.Limits.withDefaults()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
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
	l.book = newChain(l)
	return l, nil
}

// Run follows the ledger, and leads it whenever it can, until ctx ends; then it
// lets the next one lead.
func (l *Ledger) Run(ctx context.Context) error {
	if l.o.Portal {
		<-ctx.Done()
		return nil
	}
	l.book.begin(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { l.follow(ctx) })
	for ctx.Err() == nil {
		wait := l.try(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// View returns the document as it was committed last, and the leader. A replica
// that does not lead may be a while behind; AsOf says when the document was the
// newest. Without any document the error is lifecycle.ErrNoLeader.
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
	if t := l.tenure; t != nil && t.fresh() {
		return lifecycle.View{Document: t.committed.doc, AsOf: t.clock.now(), Leading: true}, nil
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

// Leader returns the address of who leads, "" if it is not known; here says that
// it is this replica.
func (l *Ledger) Leader(ctx context.Context) (address string, here bool) {
	v, err := l.View(ctx)
	if err != nil {
		return v.Leader, false
	}
	return v.Leader, v.Leading
}

// Changed returns a channel that is closed when View would return something
// else than now.
func (l *Ledger) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// notify tells who waits for a change. l.mu is held.
func (l *Ledger) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Status is how a ledger is.
type Status struct {
	Leading bool
	Leader  string // address of who leads, "" if unknown or here
	Refused error  // why this replica does not lead though nobody does; nil: it may
	Number  int    // of the repository
	Version int64
	Serial  uint64
	Held    string            // why expiry waits; "": it does not
	Aside   map[string]string // records that are kept but not looked at, by id: why
}

// Status returns how the ledger is, as far as this replica knows.
func (l *Ledger) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{
		Leading: l.tenure != nil && l.tenure.fresh(), Leader: l.leader, Refused: l.refused,
		Number: l.seen.number, Version: l.seen.version, Serial: l.seen.page.Serial, Aside: l.seen.page.reasons(),
	}
	if d := l.seen.page.doc; d != nil {
		s.Held = d.Clock.Held
	}
	return s
}

// Do returns when a command is committed, or refused. Where that is not known
// the error is lifecycle.ErrNoLeader, and the command may be sent again under its
// key.
func (l *Ledger) Do(ctx context.Context, c lifecycle.Command) (lifecycle.Answer, error) {
	l.mu.Lock()
	t := l.tenure
	if t == nil || !t.fresh() {
		err := l.noLeader()
		l.mu.Unlock()
		return lifecycle.Answer{}, err
	}
	w, err := t.take(c)
	fresh := t.fresh()
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

// noLeader says why nothing is answered here. l.mu is held.
func (l *Ledger) noLeader() error {
	if l.refused != nil {
		return fmt.Errorf("%w: %w", lifecycle.ErrNoLeader, l.refused)
	}
	return lifecycle.ErrNoLeader
}

// try leads, if nobody else does, until that ends. It returns after how long to
// try again.
func (l *Ledger) try(ctx context.Context) time.Duration {
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
			l.o.Logger.WarnContext(ctx, "no leader here", "error", err)
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
