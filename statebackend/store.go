// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// Options configure a Store. The zero value works.
type Options struct {
	Compression   string        // "zstd" (default), "gzip" or "none"
	Sealer        Sealer        // encrypts states; nil: stored in clear
	Primary       string        // name, without host, of the repository that this one is a copy of; "": not a copy
	Unsealed      bool          // opens states in clear although there is a Sealer: for a command that seals them
	LockTTL       time.Duration // lease: a lock without a heartbeat for this long may be taken over; 0: never
	Settle        time.Duration // how long a tag list may lag behind; 0: by class of registry
	MaxVersions   int           // pruned on release; 0: keep all
	StrictReads   bool          // reads without a lock list the versions, even if state-W is known to follow them
	DigestDeletes bool          // the registry is known to delete a manifest's tags with it: no list to verify that
	UnsafeLocking bool          // lock on registries that cannot keep a lock safe
	MaxState      int64         // largest state, in bytes; 0: 512 MiB
	Budget        *Budget       // bounds the memory that states take; nil: only MaxState bounds it
	Tool          string        // the writing program, such as "okara/1.0.0"
	Logger        *slog.Logger  // warnings; nil: none
	Now           func() time.Time
	Uptime        func() time.Duration // the clock by which a holder measures the age of its lease; nil: [Uptime]
	NewID         func() string
	// Usage returns the document of what a state to be written was made of, recorded with its
	// version; nil: none. before is the document of the version before, nil if none or sealed.
	Usage func(state, before []byte) []byte
	// Claim returns what a claim says of the holder, again for each heartbeat; nil: Lock's info.
	Claim func(tag string, info LockInfo) LockInfo
	// Maker returns who made the claim under a tag, for a server that has the registry; named, or
	// "", is whom it names, believed if Maker is nil. A claim of unknown maker is nobody's by its
	// id.
	Maker func(repository, tag, named string) string
}

// Store keeps the states of any number of workspaces in one repository, for concurrent use.
type Store struct {
	repo         *oci.Repo
	o            *Options
	manifests    *manifests
	vault        *vault
	pointers     *pointers
	catalog      *catalog
	findings     *findings
	locks        holdings
	observations observations

	maxWorkspaces int
}

// New returns a store on r. It sends no request.
func New(r *oci.Repo, o Options) *Store {
	o.MaxState = cmp.Or(o.MaxState, 512<<20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Uptime == nil {
		o.Uptime = Uptime
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	m := &manifests{repo: r, o: &o}
	f := &findings{warned: map[string]string{}}
	s := &Store{
		repo: r, o: &o, manifests: m, vault: &vault{m, r, &o}, pointers: &pointers{m, f}, findings: f,
		locks:        holdings{held: map[string]*Lock{}, busy: map[string]chan struct{}{}, ended: map[string]time.Time{}},
		observations: observations{last: map[string]map[protocol.ClaimID]protocol.Observation{}},

		maxWorkspaces: maxWorkspaces,
	}
	s.catalog = &catalog{manifests: m, vault: s.vault, findings: f, heads: headCache{kept: map[string]remembered{}}}
	if o.DigestDeletes {
		f.can.ByDigest = protocol.Able
	}
	return s
}

// Repo returns the repository of the store.
func (s *Store) Repo() *oci.Repo { return s.repo }

// Get returns the current state, without a lock; oci.ErrNotFound if there is none or it is deleted.
func (s *Store) Get(ctx context.Context, workspace string) ([]byte, Version, error) {
	return keepState(func(use func([]byte, Version) error) (Version, error) { return s.View(ctx, workspace, use) })
}

// keepState returns the state that view passes, which no longer counts against the budget.
func keepState(view func(use func([]byte, Version) error) (Version, error)) (state []byte, v Version, err error) {
	v, err = view(func(b []byte, _ Version) error {
		state = b
		return nil
	})
	return state, v, err
}

// View is Get for servers: the state counts against the budget, and is valid, until use returns.
func (s *Store) View(ctx context.Context, workspace string, use func(state []byte, v Version) error) (Version, error) {
	m, err := s.pointers.readPointed(ctx, tagNamesOf(workspace))
	if err != nil {
		return Version{}, err
	}
	return s.vault.view(ctx, m, m.N, use)
}

// Newer returns the current state if its version is above n, and otherwise no state. It polls
// state-W with one request, so it may lag behind, and even go back. While it is not known whether
// that tag moves, the versions are listed once a minute.
func (s *Store) Newer(ctx context.Context, workspace string, n int64) ([]byte, Version, error) {
	l := tagNamesOf(workspace)
	look := s.pointers.readPointed
	if s.findings.trustsPointer(s.o.Now()) {
		look = func(ctx context.Context, l tagNames) (format.StateManifest, error) {
			return s.manifests.fetchState(ctx, l.pointerTag(), l.workspace)
		}
	}
	m, err := look(ctx, l)
	if err != nil {
		return nil, Version{}, err
	}
	if m.N <= n {
		return nil, newVersion(m), nil
	}
	return s.vault.readState(ctx, m, m.N)
}

// GetTag returns the state under a tag of a workspace.
func (s *Store) GetTag(ctx context.Context, workspace, tag string) ([]byte, Version, error) {
	m, err := s.manifests.fetchState(ctx, tag, workspace)
	if err != nil {
		return nil, Version{}, err
	}
	return s.vault.readState(ctx, m, 0)
}

// GetVersion returns version n of a workspace; a [*VersionError] if it has only others.
func (s *Store) GetVersion(ctx context.Context, workspace string, n int64) ([]byte, Version, error) {
	return keepState(func(use func([]byte, Version) error) (Version, error) { return s.ViewVersion(ctx, workspace, n, use) })
}

// ViewVersion is GetVersion for servers, as [Store.View] is Get.
func (s *Store) ViewVersion(ctx context.Context, workspace string, n int64, use func(state []byte, v Version) error) (Version, error) {
	m, err := s.manifests.fetchState(ctx, tagNamesOf(workspace).numberedTag(n), workspace)
	if errors.Is(err, oci.ErrNotFound) {
		if newest, cerr := s.Current(ctx, workspace); cerr == nil {
			return Version{}, &VersionError{Repository: s.repo.String(), Workspace: workspace, N: n, Newest: newest.N}
		}
	}
	if err != nil {
		return Version{}, versionError(workspace, n, err)
	}
	return s.vault.view(ctx, m, 0, use)
}

const parallelReads = 4

// Workspaces are the workspaces of a store.
type Workspaces struct{ s *Store }

// Workspaces returns the workspaces of the store. It sends no request.
func (s *Store) Workspaces() Workspaces { return Workspaces{s} }

// All lists the workspaces that have a state, sorted by name.
func (w Workspaces) All(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		l, err := w.s.List(ctx)
		var heads []Head
		if err == nil {
			heads, err = l.Heads(ctx)
		}
		if err != nil {
			yield("", fmt.Errorf("listing workspaces of %s: %w", w.s.repo, err))
			return
		}
		for _, h := range heads {
			if !yield(h.Workspace, nil) {
				return
			}
		}
	}
}

// catalog reads and writes the records and newest versions of the workspaces.
type catalog struct {
	manifests *manifests
	vault     *vault
	findings  *findings
	heads     headCache
}

// headsIn reads the newest version of each workspace with a state, sorted by name.
func (s *catalog) headsIn(ctx context.Context, tags []string) ([]Head, error) {
	newest := newestTags(tags)
	heads := make([]Head, len(newest))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelReads)
	for i, t := range newest {
		g.Go(func() (err error) {
			heads[i], err = s.fetchHead(ctx, t)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	heads = slices.DeleteFunc(heads, func(h Head) bool { return h.Workspace == "" })
	slices.SortFunc(heads, func(a, b Head) int { return strings.Compare(a.Workspace, b.Workspace) })
	return slices.CompactFunc(heads, func(a, b Head) bool { return a.Workspace == b.Workspace }), nil
}

// fetchHead reads a workspace's newest version. No name: no state; with a digest: something else.
func (s *catalog) fetchHead(ctx context.Context, t format.StateTag) (Head, error) {
	h, _, err := s.fetchManifest(ctx, t)
	return h, err
}

// fetchManifest is fetchHead with the manifest, if it is a state's.
func (s *catalog) fetchManifest(ctx context.Context, t format.StateTag) (Head, format.StateManifest, error) {
	m, err := s.manifests.repo.Fetch(ctx, t.String())
	if errors.Is(err, oci.ErrNotFound) { // an unreadable version is still shown
		return Head{s.manifests.workspaceOf(ctx, t.Fragment), Version{N: t.N}}, format.StateManifest{}, nil
	}
	if err != nil {
		return Head{}, format.StateManifest{}, err
	}
	sm, err := format.ParseState(m)
	if err != nil {
		return Head{"", Version{N: t.N, Digest: m.Digest.String()}}, sm, nil // not a state, though its tag looks like one
	}
	if !nameOf(t.Fragment, sm.Workspace) {
		sm.Workspace = t.Fragment
	}
	v := newVersion(sm)
	v.Current = true
	if sm.Empty {
		if _, _, err := s.vault.readState(ctx, sm, 0); errors.Is(err, oci.ErrNotFound) {
			return Head{}, sm, nil // opened first, since a forged manifest must not hide a state
		}
	}
	return Head{sm.Workspace, v}, sm, nil
}

// nameOf checks the workspace name of a fragment: any account that may write can forge annotations.
func nameOf(fragment, workspace string) bool {
	return workspace != "" && (fragment == format.StateFragment(workspace) || fragment == format.OldStateFragment(workspace))
}

// newestTags returns the tag of each workspace's highest version, or a versionless tool's state-W.
func newestTags(tags []string) []format.StateTag {
	heads := map[string]format.StateTag{}
	for _, tag := range tags {
		t, ok := format.ParseStateTag(tag)
		state := t.Kind == format.StateNumbered || t.Kind == format.StatePointer
		if !ok || !state || t.Fragment == format.ProbeFragment {
			continue
		}
		if old, ok := heads[t.Fragment]; !ok || old.N < t.N {
			heads[t.Fragment] = t
		}
	}
	return slices.Collect(maps.Values(heads))
}

// headCache caches records and versions, whose tags are written once. Values must not be changed.
type headCache struct {
	mu   sync.Mutex // guards the fields below
	kept map[string]remembered
	size int // about, in bytes
}

type remembered struct {
	value any // *Record or Head
	size  int
}

const (
	// maxHeadCache is in bytes: 30,000 workspaces, or 2,000 with the largest records.
	maxHeadCache = 32 << 20
	// headSize is about what a Head takes, and the overhead of any entry.
	headSize = 512
)

// keepValue caches a value; where there is no room, it evicts others.
func (m *headCache) keepValue(tag string, value any, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	size += headSize + len(tag)
	m.size += size - m.kept[tag].size
	m.kept[tag] = remembered{value, size}
	for other, r := range m.kept { // in any order
		if m.size <= maxHeadCache {
			return
		}
		if other != tag {
			m.size -= r.size
			delete(m.kept, other)
		}
	}
}

func recallValue[T any](m *headCache, tag string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.kept[tag].value.(T)
	return value, ok
}
