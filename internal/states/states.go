// SPDX-License-Identifier: Apache-2.0

package states

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
)

// Bounds of the caches, in bytes, and of the number of names.
const (
	listBytes     = 32 << 20
	versionBytes  = 16 << 20
	documentBytes = 64 << 20
	maxNames      = 10_000
	parallel      = 4
)

func listPolicy() cache.Policy {
	return cache.Policy{Fresh: 5 * time.Second, Grace: time.Minute, Stale: time.Hour}
}

func foreverPolicy() cache.Policy { return cache.Policy{Fresh: cache.Forever} }

// Options configure [States]. Client is required.
type Options struct {
	Client *oci.Client
	Layout addr.Layout
	State  statebackend.Options // how states are opened, with their keys; MaxState is set here
	Names  []string             // known in addition to those that are found
	Logger *slog.Logger         // nil: none
	Now    func() time.Time     // nil: time.Now
}

// States are the states of a server. It is safe for concurrent use.
type States struct {
	whole  atomic.Bool // the newest list of names has all states: the registry lists repositories
	o      Options
	queue  *oci.Repo
	survey survey
	uses   *Uses
	cursor atomic.Int64 // where the next Glance starts to renew

	names      *cache.Cache[[]string]
	entries    *cache.Cache[string] // the name in an entry of the queue, by the entry's tag; "": none
	lists      *cache.Cache[*statebackend.Listing]
	heads      *cache.Cache[*Summary]
	workspaces *cache.Cache[*Workspace]
	versions   *cache.Cache[statebackend.Version]
	documents  *cache.Cache[*VersionView]

	mu     sync.Mutex // guards the fields below
	stores map[string]*statebackend.Store
	wrote  map[string]chan struct{} // names with an entry, as far as this process knows; closed when the write was tried
	writes map[string]int           // how often this process stored a state under a name
}

// New returns the states of a registry. It sends no request.
func New(o Options) (*States, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	for _, name := range o.Names {
		if _, err := o.Layout.StateRepo(name); err != nil {
			return nil, err
		}
	}
	queue, err := o.Client.Repo(o.Layout.QueueRepo())
	if err != nil {
		return nil, err
	}
	s := &States{
		o: o, queue: queue, survey: survey{marks: map[string]Marks{}},
		names:      newCache("state-names", listBytes, func(l []string) int { return 64 * len(l) }, o.Now),
		entries:    newCache("state-entry", listBytes, func(s string) int { return len(s) + 64 }, o.Now),
		lists:      newCache("state-list", listBytes, (*statebackend.Listing).Size, o.Now),
		heads:      newCache("state-heads", listBytes, (*Summary).size, o.Now),
		workspaces: newCache("state-workspace", listBytes, (*Workspace).size, o.Now),
		versions:   newCache("state-version", versionBytes, func(statebackend.Version) int { return 1 << 10 }, o.Now),
		documents:  newCache("state-document", documentBytes, (*VersionView).size, o.Now),
		stores:     map[string]*statebackend.Store{}, wrote: map[string]chan struct{}{}, writes: map[string]int{},
	}
	s.uses = newUses(s)
	return s, nil
}

func newCache[V any](kind string, limit int, size func(V) int, now func() time.Time) *cache.Cache[V] {
	return cache.New(kind, limit, size, now, func(string, string) {})
}

// Host returns the name by which this server addresses the registry.
func (s *States) Host() string { return s.o.Client.Host() }

// Layout returns where the states are stored.
func (s *States) Layout() addr.Layout { return s.o.Layout }

// Open returns the store of a name, which knows the source that it may be a replica of. A
// name that no repository can have is not found, without a request.
func Open(c *oci.Client, l addr.Layout, name string, o statebackend.Options) (*statebackend.Store, error) {
	repository, err := l.StateRepo(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", oci.ErrNotFound, err)
	}
	r, err := c.Repo(repository)
	if err != nil { // too long for the name of a repository
		return nil, fmt.Errorf("%w: %w", oci.ErrNotFound, err)
	}
	if o.Primary, err = l.StatePrimaryRepo(name); err != nil {
		return nil, fmt.Errorf("%w: %w", oci.ErrNotFound, err)
	}
	return statebackend.New(r, o), nil
}

// storeByName opens the store of a name once and keeps it.
func (s *States) storeByName(name string) (*statebackend.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if store := s.stores[name]; store != nil {
		return store, nil
	}
	o := s.o.State
	o.MaxState = maxState
	o.StrictReads = true
	o.Logger = s.o.Logger
	store, err := Open(s.o.Client, s.o.Layout, name, o)
	if err == nil && len(s.stores) < maxNames { // names come from URLs, so their number is bounded
		s.stores[name] = store
	}
	return store, err
}

// Repository returns the repository of a state, without host.
func (s *States) Repository(name string) (string, error) {
	store, err := s.storeByName(name)
	if err != nil {
		return "", err
	}
	return store.Repo().Name(), nil
}

// Names returns the known states, sorted.
func (s *States) Names(ctx context.Context) ([]string, error) {
	return s.names.Get(ctx, "", cache.Policy{Fresh: 30 * time.Second, Grace: 10 * time.Minute, Stale: 24 * time.Hour}, func(ctx context.Context, _ []string, _ bool) ([]string, error) {
		known := map[string]bool{}
		for _, name := range s.o.Names {
			known[name] = true
		}
		listed, whole := s.listedNames(ctx)
		for _, name := range listed {
			known[name] = true
		}
		entered, err := s.enteredNames(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range entered {
			known[name] = true
		}
		names := slices.Sorted(maps.Keys(known))
		s.whole.Store(whole && len(names) <= maxNames)
		return names[:min(len(names), maxNames)], nil
	})
}

// listedNames returns the states that the registry lists, and whether these are all. Most registries have no
// such list.
func (s *States) listedNames(ctx context.Context) (names []string, whole bool) {
	repositories, partial, err := s.o.Client.ListRepositories(ctx)
	if err != nil {
		return nil, false
	}
	for _, repository := range repositories {
		if it, ok := s.o.Layout.Parse(repository); ok && it.Kind == addr.KindState {
			names = append(names, it.State)
		}
	}
	return names, !partial
}

// enteredNames returns the states that have an entry in the queue.
func (s *States) enteredNames(ctx context.Context) ([]string, error) {
	list, err := s.queue.Snapshot(ctx)
	if err != nil {
		return nil, oci.IgnoreNotFound(err)
	}
	tags := slices.DeleteFunc(list.Tags, func(tag string) bool { return !artifact.IsCatalogTag(tag) })
	tags = tags[:min(len(tags), maxNames)]
	names := make([]string, len(tags))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, tag := range tags {
		g.Go(func() (err error) {
			names[i], err = s.entries.Get(ctx, tag, foreverPolicy(), s.readEntry(tag))
			return oci.IgnoreNotFound(err) // the next list decides
		})
	}
	err = g.Wait()
	return slices.DeleteFunc(names, func(name string) bool { return name == "" }), err
}

// readEntry loads the name of an entry, which counts only if it names its tag's repository.
func (s *States) readEntry(tag string) cache.Loader[string] {
	return func(ctx context.Context, _ string, _ bool) (string, error) {
		e, err := artifact.ReadCatalogEntry(ctx, s.queue, tag)
		if errors.Is(err, oci.ErrCorrupt) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		it, ok := s.o.Layout.Parse(e.Repository)
		if !ok || it.Kind != addr.KindState || artifact.CatalogTag(e.Repository) != tag {
			return "", nil
		}
		return it.State, nil
	}
}

// entryTime bounds the write of a state's entry, which runs in the background.
const entryTime = 30 * time.Second

// Wrote follows each stored state: it drops the cached list and, in the background, writes a
// missing entry, after a failure at the next call. The channel is closed after the try.
func (s *States) Wrote(ctx context.Context, name string) <-chan struct{} {
	s.mu.Lock()
	tried, known := s.wrote[name]
	if !known {
		tried = make(chan struct{})
	}
	if len(s.wrote) < maxNames {
		s.wrote[name] = tried
		s.writes[name]++
	}
	s.mu.Unlock()
	s.lists.Forget(name)
	s.uses.Note(name)
	if known {
		return tried
	}
	go func() {
		defer close(tried)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), entryTime)
		defer cancel()
		if err := s.enterName(ctx, name); err != nil {
			s.o.Logger.Warn("a state is not listed yet", "state", name, "error", err)
			s.mu.Lock()
			delete(s.wrote, name)
			s.mu.Unlock()
		}
	}()
	return tried
}

// Renew makes the next call of [States.Names] read the entries of other servers again.
func (s *States) Renew() { s.names.Forget("") }

func (s *States) enterName(ctx context.Context, name string) error {
	repository, err := s.Repository(name)
	if err != nil {
		return err
	}
	if err := artifact.AddCatalogEntry(ctx, s.queue, artifact.CatalogEntry{Kind: addr.KindState, Address: name, Repository: repository}); err != nil {
		return err
	}
	s.names.Forget("")
	return nil
}
