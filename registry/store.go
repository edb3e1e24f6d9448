// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Bounds of the caches, in bytes.
const (
	listBytes     = 256 << 20
	manifestBytes = 256 << 20
	blobBytes     = 64 << 20
	sizeBytes     = 8 << 20
)

// maxSmallBlob bounds blobs that are kept in memory: checksums, signatures and
// keys, never archives.
const maxSmallBlob = 1 << 20

// day is how long an answer outlives its registry.
const day = 24 * time.Hour

// store reads the registry through caches. What it returns is shared and never
// changed.
type store struct {
	client  *oci.Client
	layout  addr.Layout
	log     *slog.Logger
	now     func() time.Time
	metrics *Metrics

	lists     *cache.Cache[*listing]         // repository
	modules   *cache.Cache[*moduleVersion]   // repository:tag
	providers *cache.Cache[*providerVersion] // repository:tag
	blobs     *cache.Cache[[]byte]           // hex of the digest
	catalogs  *cache.Cache[*catalog]         // the catalogue repository
	sizes     *cache.Cache[int64]            // repository@hex
	lost      lostVersions
	verdicts  *cache.Cache[verdict] // repository@digest

	require  map[string]depot.VerifyOptions
	revoked  RevokedKeys
	verifier *depot.Depot

	listPolicy, modulePolicy, providerPolicy, blobPolicy cache.Policy
}

func newStore(o Options, m *Metrics) *store {
	count := m.looked
	return &store{
		metrics: m,
		client:  o.Client, layout: o.Layout, log: o.Logger, now: o.Now,
		lists:     cache.New("list", listBytes, (*listing).size, o.Now, count),
		modules:   cache.New("module", manifestBytes, (*moduleVersion).size, o.Now, count),
		providers: cache.New("provider", manifestBytes, (*providerVersion).size, o.Now, count),
		blobs:     cache.New("blob", blobBytes, func(b []byte) int { return len(b) }, o.Now, count),
		catalogs:  cache.New("catalog", listBytes, (*catalog).size, o.Now, count),
		sizes:     cache.New("size", sizeBytes, func(int64) int { return 8 }, o.Now, count),

		verdicts: cache.New("verdict", sizeBytes, func(d verdict) int { return len(d.reason) }, o.Now, count),
		require:  o.Require,
		revoked:  o.Revoked,
		verifier: depot.New(depot.Options{Client: o.Client, Layout: o.Layout}),

		listPolicy:     cache.Policy{Fresh: 30 * time.Second, Grace: 5 * time.Minute, Stale: day},
		modulePolicy:   cache.Policy{Fresh: o.TagTTL, Stale: day},
		providerPolicy: cache.Policy{Fresh: 10 * time.Minute, Grace: cache.Forever, Stale: cache.Forever},
		blobPolicy:     cache.Policy{Fresh: cache.Forever},
	}
}

// ping asks the registry for something that need not exist.
func (s *store) ping(ctx context.Context) error {
	r, err := s.client.Repo(s.layout.CatalogRepo())
	if err != nil {
		return err
	}
	_, err = r.Resolve(ctx, "okara-readiness")
	if errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrDenied) {
		return nil
	}
	return err
}

// listing is the tag list of one repository as of one moment.
type listing struct {
	tags     []string       // sorted
	versions []addr.Version // highest first, editions included, withdrawn and lost ones not
	yanked   map[addr.Version]artifact.StatusEvent
	refused  map[addr.Version]error // by the policy of this server, or because they are lost
	events   []artifact.StatusEvent // in the order in which they count
	learned  atomic.Int64           // how often more became known about a version
	base     *listing               // in a union with the versions of an origin: what is in the registry
	answers
}

// known grows when more becomes known about a version.
func (l *listing) known() int64 {
	n := l.learned.Load()
	if l.base != nil {
		n += l.base.learned.Load()
	}
	return n
}

func (l *listing) size() int {
	// Versions and the encoded answers are about as large again, twice.
	n := 256
	for _, t := range l.tags {
		n += 3*len(t) + 128
	}
	return n
}

// list returns the versions of a repository. A repository without a version
// tag is [oci.ErrNotFound].
func (s *store) list(ctx context.Context, repository string) (*listing, error) {
	return s.lists.Get(ctx, repository, s.listPolicy, func(ctx context.Context, old *listing, has bool) (*listing, error) {
		r, err := s.client.Repo(repository)
		if err != nil {
			return nil, err
		}
		snapshot, err := r.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		tags := slices.Clone(snapshot.Tags)
		slices.Sort(tags)
		same := has && slices.Equal(old.tags, tags)
		if _, _, ok := s.requirement(repository); same && !ok && len(s.lost.in(repository)) == 0 {
			return old, nil
		}
		versions := versionsOf(tags)
		if len(versions) == 0 {
			return nil, fmt.Errorf("%s has no version: %w", repository, oci.ErrNotFound)
		}
		l := &listing{tags: tags}
		if l.events, err = readEvents(ctx, r, tags, old); err != nil {
			return nil, err
		}
		l.split(versions)
		if err := s.screen(ctx, repository, l); err != nil {
			return nil, err
		}
		s.dropLost(ctx, r, repository, l)
		if same && slices.Equal(old.versions, l.versions) {
			return old, nil
		}
		return l, nil
	})
}

// versionsOf returns the tags that are versions, highest first.
func versionsOf(tags []string) []addr.Version {
	var versions []addr.Version
	for _, t := range tags {
		if v, ok := addr.VersionFromTag(t); ok {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, func(a, b addr.Version) int { return b.Compare(a) })
	return versions
}

// moduleVersion is the manifest under the version tag of a module.
type moduleVersion struct {
	artifact.ModuleManifest
	made atomic.Pointer[madeLink] // to the zip
}

type madeLink struct {
	path string
	exp  int64
}

func (m *moduleVersion) size() int { return 2048 }

// link is the path of the zip, signed again only when the end of links moves.
func (m *moduleVersion) link(l *links, b blobName) string {
	made, exp := m.made.Load(), l.expiry()
	if made == nil || made.exp != exp {
		made = &madeLink{path: l.path(b, exp), exp: exp}
		m.made.Store(made)
	}
	return made.path
}

// module returns the manifest under a version tag, if it may be served.
func (s *store) module(ctx context.Context, repository string, v addr.Version) (*moduleVersion, error) {
	m, err := s.anyModule(ctx, repository, v)
	if err != nil {
		return nil, err
	}
	return m, s.admit(ctx, repository, v, m.Manifest, &listing{})
}

// anyModule returns the manifest under a version tag. The tag may move, so it is
// asked for again after the tag TTL; an unchanged digest keeps the value.
func (s *store) anyModule(ctx context.Context, repository string, v addr.Version) (*moduleVersion, error) {
	tag := v.Tag()
	return s.modules.Get(ctx, repository+":"+tag, s.modulePolicy, func(ctx context.Context, old *moduleVersion, has bool) (*moduleVersion, error) {
		r, err := s.client.Repo(repository)
		if err != nil {
			return nil, err
		}
		if has {
			d, err := r.Resolve(ctx, tag)
			if err != nil {
				return nil, err
			}
			if d.Digest == old.Manifest.Digest {
				return old, nil
			}
		}
		raw, err := r.Fetch(ctx, tag)
		if err != nil {
			return nil, err
		}
		m, err := artifact.ParseModule(raw)
		if err != nil {
			return nil, fmt.Errorf("%s:%s: %w", repository, tag, err)
		}
		s.rememberSize(repository, *m.Zip)
		return &moduleVersion{ModuleManifest: m}, nil
	})
}

// rememberSize saves the registry a question when the archive is asked for.
func (s *store) rememberSize(repository string, d oci.Descriptor) {
	s.sizes.Put(repository+"@"+d.Digest.Encoded(), d.Size)
}
