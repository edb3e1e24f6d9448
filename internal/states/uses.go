// SPDX-License-Identifier: Apache-2.0

package states

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

const (
	usesPause  = time.Second / 3  // after each list of a state, once all were read
	usesEvery  = 5 * time.Minute  // between two rounds over all states
	usesStored = 10 * time.Minute // between two writes of the index
)

// Uses keeps an index of what the newest versions of states are made of: the stored one, which other
// processes write too, and what is new since, with a list of each state now and then and one
// request for each new version. A question makes no request.
type Uses struct {
	s    *States
	wake chan struct{}

	mu      sync.Mutex // guards the fields below
	index   *usage.Index
	deleted map[string]bool // newest versions that have no state, by state and tag
	noted   map[string]bool // states that this process changed
	loaded  bool            // the stored index was read, or there is none
	read    time.Time       // when a round over all states was complete last; zero: never
	behind  bool            // a later round was not
	unsaved bool            // the index has more than is stored
	keep    bool            // the registry accepts no index from this process
	stored  time.Time
}

// Uses returns the index of what these states use. It is empty until [Uses.Run] or [Uses.Refresh].
func (s *States) Uses() *Uses { return s.uses }

func newUses(s *States) *Uses {
	return &Uses{s: s, wake: make(chan struct{}, 1), index: usage.NewIndex(), deleted: map[string]bool{}, noted: map[string]bool{}}
}

// Note makes [Uses.Run] read a state soon, since this process has changed it.
func (u *Uses) Note(name string) {
	u.mu.Lock()
	if len(u.noted) < maxNames {
		u.noted[name] = true
	}
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// Run keeps the index up to date until ctx ends. It is called once per process.
func (u *Uses) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := u.readAll(ctx, true, func() { u.readNoted(ctx) }); err != nil && ctx.Err() == nil {
			u.s.o.Logger.Warn("reading what states use failed", "error", err)
		}
		if err := u.saveIndex(ctx); err != nil && ctx.Err() == nil {
			u.s.o.Logger.Warn("the index of what states use is not stored", "error", err)
		}
		for next := u.s.o.Now().Add(usesEvery); ctx.Err() == nil && u.s.o.Now().Before(next); u.readNoted(ctx) {
			t := time.NewTimer(usesEvery)
			select {
			case <-ctx.Done():
			case <-t.C:
			case <-u.wake:
			}
			t.Stop()
		}
	}
}

// Refresh reads all states once, for a command.
func (u *Uses) Refresh(ctx context.Context) error { return u.readAll(ctx, false, func() {}) }

// readNoted reads the states that this process changed.
func (u *Uses) readNoted(ctx context.Context) {
	u.mu.Lock()
	noted := u.noted
	u.noted = map[string]bool{}
	u.mu.Unlock()
	for name := range noted {
		if err := u.readUsesOf(ctx, name); err != nil && ctx.Err() == nil {
			u.s.o.Logger.Warn("reading what a state uses failed", "state", name, "error", err)
		}
	}
}

// readAll reads the list of each state, and each new version. A state that cannot be read stays as it
// is, and makes the round incomplete. paced waits after each state, but in the first round; between is called after each state.
func (u *Uses) readAll(ctx context.Context, paced bool, between func()) (err error) {
	defer func() {
		u.mu.Lock()
		u.behind = err != nil
		u.mu.Unlock()
	}()
	if err := u.loadStored(ctx); err != nil {
		return err
	}
	names, err := u.s.Names(ctx)
	if err != nil {
		return err
	}
	u.mu.Lock()
	paced = paced && !u.read.IsZero()
	for _, name := range u.index.States() {
		if _, known := slices.BinarySearch(names, name); !known && u.s.whole.Load() {
			u.index.Remove(name, func(*usage.Entry) bool { return true })
			u.unsaved = true
		}
	}
	u.mu.Unlock()
	var mu sync.Mutex // guards failed
	var failed error
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, name := range names {
		if paced && text.Wait(ctx, usesPause) != nil {
			break
		}
		g.Go(func() error {
			if err := u.readUsesOf(gctx, name); err != nil {
				mu.Lock()
				failed = fmt.Errorf("state %s: %w", name, err)
				mu.Unlock()
			}
			return gctx.Err()
		})
		between()
	}
	if err := errors.Join(g.Wait(), ctx.Err()); err != nil {
		return err
	}
	if failed == nil {
		u.mu.Lock()
		u.read = u.s.o.Now()
		u.mu.Unlock()
	}
	return failed
}

// readUsesOf lists one state and reads its new versions.
func (u *Uses) readUsesOf(ctx context.Context, name string) error {
	store, err := u.s.storeByName(name)
	if err != nil {
		return err
	}
	list, err := store.List(ctx)
	if err != nil {
		return err
	}
	there := map[string]bool{} // tag-safe workspaces
	var todo []string
	u.mu.Lock()
	known := map[string]bool{}
	for workspace, e := range u.index.Workspaces(name) {
		known[tagOf(workspace, e.N)] = true
	}
	for _, tag := range list.Newest() {
		t, _ := format.ParseStateTag(tag)
		there[t.Fragment] = true
		if !known[tag] && !u.deleted[name+"\n"+tag] {
			todo = append(todo, tag)
		}
	}
	u.index.Remove(name, func(e *usage.Entry) bool { return !there[format.StateFragment(e.Workspace)] })
	u.mu.Unlock()
	for _, tag := range todo {
		head, document, err := list.Made(ctx, tag)
		if err != nil {
			return err
		}
		u.addVersion(name, tag, head, document)
	}
	return nil
}

func tagOf(workspace string, n int64) string {
	t := format.StateTag{Kind: format.StateNumbered, Fragment: format.StateFragment(workspace), N: n}
	if n == 0 {
		t.Kind = format.StatePointer
	}
	return t.String()
}

func (u *Uses) addVersion(name, tag string, head statebackend.Head, document []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.unsaved = true
	if head.Workspace == "" || head.Empty {
		if len(u.deleted) < maxNames {
			u.deleted[name+"\n"+tag] = true
		}
		t, _ := format.ParseStateTag(tag)
		u.index.Remove(name, func(e *usage.Entry) bool { return format.StateFragment(e.Workspace) == t.Fragment })
		return
	}
	if e := u.index.Workspaces(name)[head.Workspace]; e != nil && e.N > head.N {
		return // an older list
	}
	d, err := usage.Parse(document)
	if err != nil {
		d = nil // as not recorded
	}
	u.index.PutEntry(usage.Entry{State: name, Workspace: head.Workspace, N: head.N, Written: head.Created, By: head.By()}, d)
}

// loadStored reads the stored index once.
func (u *Uses) loadStored(ctx context.Context) error {
	u.mu.Lock()
	loaded := u.loaded
	u.mu.Unlock()
	if loaded {
		return nil
	}
	document, err := artifact.UsesIndex().Read(ctx, u.s.queue, u.s.o.State.Sealer, usage.MaxIndex)
	if errors.Is(err, oci.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	index := usage.NewIndex() // one that cannot be read is made again
	if err == nil {
		if index, err = usage.DecodeIndex(document); err != nil {
			u.s.o.Logger.Warn("the stored index of what states use cannot be read; rebuilding it", "error", err)
			index = usage.NewIndex()
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.index = index
	u.loaded = true
	return nil
}

// saveIndex writes a changed index, not too often.
func (u *Uses) saveIndex(ctx context.Context) error {
	u.mu.Lock()
	if !u.unsaved || u.keep || u.s.o.Now().Sub(u.stored) < usesStored {
		u.mu.Unlock()
		return nil
	}
	document, err := usage.EncodeIndex(u.index)
	u.stored = u.s.o.Now()
	u.unsaved = false
	u.mu.Unlock()
	if err != nil {
		return err
	}
	err = artifact.UsesIndex().Put(ctx, u.s.queue, u.s.o.State.Sealer, document)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keep = errors.Is(err, oci.ErrDenied) || errors.Is(err, oci.ErrUnauthenticated)
	u.unsaved = u.unsaved || err != nil
	if u.keep {
		return nil
	}
	return err
}

// hasRead reports whether all states were read, in the last round too.
func (u *Uses) hasRead() bool { return !u.read.IsZero() && !u.behind && u.s.whole.Load() }

// Ask answers a query for a caller that may read the states for which may is true.
func (u *Uses) Ask(q usage.Query, may func(state, workspace string) bool) usage.Answer {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.index.Ask(q, may)
	a.Complete = u.hasRead() && !a.Cut
	a.Read = u.read
	return a
}

// InUse returns which versions of a module or provider the newest versions of states use, or may: a run that
// changes nothing writes no record for most clients, so a state may have moved up from its version. It is every version, and
// not known, until all states were read, and if one has no record (of a module: no complete one) or does
// not say its version.
func (u *Uses) InUse(address string) (used func(addr.Version) bool, known bool) {
	q, err := usage.ParseQuery(address, false)
	a := u.Ask(q, func(string, string) bool { return true })
	known = err == nil && a.Complete && a.Bare == 0 && (q.Kind == addr.KindProvider || !a.Partial)
	var lowest []addr.Version
	for _, s := range a.States {
		v, err := addr.ParseVersion(s.Version)
		if known = known && err == nil; err == nil && (len(lowest) == 0 || v.Compare(lowest[0]) < 0) {
			lowest = []addr.Version{v.EditionOf()}
		}
	}
	return func(v addr.Version) bool {
		return !known || len(lowest) > 0 && v.EditionOf().Compare(lowest[0]) >= 0
	}, known
}

// CountModules returns how many states use which versions of modules, as [usage.Index.CountModules] does.
func (u *Uses) CountModules(limit int) []usage.Count {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.index.CountModules(limit)
}

// MadeOf returns what the newest version of a workspace is made of; false: it is not known.
func (u *Uses) MadeOf(state, workspace string) (all []usage.UsedBy, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.index.Workspaces(state)[workspace]
	if e == nil {
		return nil, false
	}
	for _, use := range e.Uses {
		all = append(all, usage.UsedBy{State: state, Workspace: workspace, Item: *use.Item, Since: time.Unix(use.Since, 0).UTC()})
	}
	return all, e.Recorded != ""
}

// Outdated returns what the readable states should no longer use, and whether all states were read.
// judge may make requests.
func (u *Uses) Outdated(may func(state, workspace string) bool, judge func(usage.Item) usage.Verdict) (all []usage.Outdated, complete bool) {
	u.mu.Lock()
	items := u.index.Items(may)
	u.mu.Unlock()
	verdicts := map[usage.Item]usage.Verdict{}
	unread := false
	for _, it := range items {
		verdicts[it] = judge(it)
		unread = unread || verdicts[it].Unread
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.index.Outdated(may, verdicts), u.hasRead() && !unread
}
