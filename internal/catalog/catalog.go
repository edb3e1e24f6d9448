// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

// Bounds of the caches, in bytes.
const (
	listBytes     = 256 << 20
	manifestBytes = 256 << 20
	blobBytes     = 64 << 20
	sizeBytes     = 8 << 20
)

// staleFor is how long an answer outlives its registry.
const staleFor = 24 * time.Hour

// maxSmallBlob bounds blobs that are kept in memory: checksums, signatures and
// keys, never archives.
const maxSmallBlob = 1 << 20

// Options is what a catalog needs. Client is required.
type Options struct {
	Client  *oci.Client // whose credentials decide what there is
	Layout  addr.Layout
	Require map[string]depot.VerifyOptions // by kind: what a version must fulfil to be listed
	Revoked RevokedKeys
	TagTTL  time.Duration // how long the version tag of a module is trusted; 0: 30 s
	Watch   Watch
	Logger  *slog.Logger     // nil: none
	Now     func() time.Time // nil: time.Now
}

// Watch hears what goes on, for metrics. A nil func is not called.
type Watch struct {
	Looked  func(kind, result string)                         // a look-up in memory: hit, miss, stale, coalesced
	Checked func(kind, result string)                         // a version against the policy: passed, refused
	Moved   func()                                            // a version tag of a provider is on other content
	Key     func(repository, keyID string, expires time.Time) // a signing key that is served and will expire
}

// Catalog reads the registry through caches. What it returns is shared and never
// changed; only the Derived slots of values are their readers'. It is safe for
// concurrent use.
type Catalog struct {
	client *oci.Client
	layout addr.Layout
	log    *slog.Logger
	now    func() time.Time
	watch  Watch

	lists     *cache.Cache[*Versions]        // repository
	modules   *cache.Cache[*ModuleVersion]   // repository:tag
	providers *cache.Cache[*ProviderVersion] // repository:tag
	blobs     *cache.Cache[[]byte]           // hex of the digest
	indexes   *cache.Cache[*Index]           // the catalogue repository
	sizes     *cache.Cache[int64]            // repository@hex
	lost      lostVersions
	verdicts  *cache.Cache[verdict] // repository@digest

	require  map[string]depot.VerifyOptions
	revoked  RevokedKeys
	verifier *depot.Depot

	listPolicy, modulePolicy, providerPolicy, blobPolicy cache.Policy
}

// New returns an empty catalog. It makes no request.
func New(o Options) *Catalog {
	if o.TagTTL == 0 {
		o.TagTTL = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	w := o.Watch.withDefaults()
	return &Catalog{
		client: o.Client, layout: o.Layout, log: o.Logger, now: o.Now, watch: w,
		lists:     cache.New("list", listBytes, (*Versions).size, o.Now, w.Looked),
		modules:   cache.New("module", manifestBytes, (*ModuleVersion).size, o.Now, w.Looked),
		providers: cache.New("provider", manifestBytes, (*ProviderVersion).Size, o.Now, w.Looked),
		blobs:     cache.New("blob", blobBytes, func(b []byte) int { return len(b) }, o.Now, w.Looked),
		indexes:   cache.New("catalog", listBytes, (*Index).size, o.Now, w.Looked),
		sizes:     cache.New("size", sizeBytes, func(int64) int { return 8 }, o.Now, w.Looked),

		verdicts: cache.New("verdict", sizeBytes, func(d verdict) int { return len(d.reason) }, o.Now, w.Looked),
		require:  o.Require,
		revoked:  o.Revoked,
		verifier: depot.New(depot.Options{Client: o.Client, Layout: o.Layout}),

		listPolicy:     cache.Policy{Fresh: 30 * time.Second, Grace: 5 * time.Minute, Stale: staleFor},
		modulePolicy:   cache.Policy{Fresh: o.TagTTL, Stale: staleFor},
		providerPolicy: cache.Policy{Fresh: 10 * time.Minute, Grace: cache.Forever, Stale: cache.Forever},
		blobPolicy:     cache.Policy{Fresh: cache.Forever},
	}
}

func (w Watch) withDefaults() Watch {
	if w.Looked == nil {
		w.Looked = func(string, string) {}
	}
	if w.Checked == nil {
		w.Checked = func(string, string) {}
	}
	if w.Moved == nil {
		w.Moved = func() {}
	}
	if w.Key == nil {
		w.Key = func(string, string, time.Time) {}
	}
	return w
}

// Ping asks the registry for something that need not exist.
func (c *Catalog) Ping(ctx context.Context) error {
	r, err := c.client.Repo(c.layout.CatalogRepo())
	if err != nil {
		return err
	}
	_, err = r.Resolve(ctx, "okara-readiness")
	if errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrDenied) {
		return nil
	}
	return err
}

// Changed forgets what a publication through this process made old: the tag of
// a repository.
func (c *Catalog) Changed(repository, tag string) {
	c.forgetVerdict(repository, tag)
	c.lists.Forget(repository)
	c.modules.Forget(repository + ":" + tag)
	c.providers.Forget(repository + ":" + tag)
}

// ChangedIndex forgets the list of all modules, since one more is in it.
func (c *Catalog) ChangedIndex() { c.indexes.Forget(c.layout.CatalogRepo()) }

// RefusedError says why a version that the registry has, or had, is served to
// nobody: it was withdrawn, is lost, or does not fulfil the policy.
type RefusedError struct{ reason string }

func (e *RefusedError) Error() string { return e.reason }

func refused(format string, args ...any) error {
	return &RefusedError{fmt.Sprintf(format, args...)}
}
