// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
)

// Bounds of the caches, in bytes.
const (
	listBytes     = 256 << 20
	manifestBytes = 256 << 20
	blobBytes     = 64 << 20
	sizeBytes     = 8 << 20
)

// staleFor is how long an answer is served while its registry is unavailable.
const staleFor = 24 * time.Hour

// listPolicy is the policy of lists, which change with each publication.
func listPolicy() cache.Policy {
	return cache.Policy{Fresh: 30 * time.Second, Grace: 5 * time.Minute, Stale: staleFor}
}

// Options configure a [Catalog]. Client is required.
type Options struct {
	Client  *oci.Client // its credentials decide what is visible
	Layout  addr.Layout
	Require map[string]trust.Policy // by kind: the policy that a version must fulfil to be listed
	Revoked RevokedKeys
	TagTTL  time.Duration // how long the version tag of a module is trusted; 0: 30 s
	Watch   Watch
	Logger  *slog.Logger     // nil: no log
	Now     func() time.Time // nil: time.Now
}

// Watch has the callbacks for metrics. A nil func is not called.
type Watch struct {
	Looked  func(kind, result string)                         // a look-up in memory: hit, miss, stale, coalesced
	Checked func(kind, result string)                         // a version against the policy: passed, refused
	Moved   func()                                            // the version tag of a provider has other content now
	Key     func(repository, keyID string, expires time.Time) // a signing key that is served and will expire
}

// Catalog reads the registry through caches. The values that it returns are shared and
// never changed, except for their Derived slots, which belong to the callers. It is safe
// for concurrent use.
//
// Catalog itself has the lists. Separate types handle the rest: the content of a tag,
// whether it may be served, missing content, and blobs.
type Catalog struct {
	Blobs  *Blobs
	client *oci.Client
	layout addr.Layout

	lists     *cache.Cache[*Versions]  // repository
	published *cache.Cache[*Published] // the catalog repository

	manifests *manifests
	policy    *policy
	lost      *lostVersions
	evidence  *evidenceCache
	news      news
	docs      *cache.Cache[*ProviderDocs] // repository@digest of the layer

	entries  atomic.Pointer[depot.Catalog] // as last read, even in part: entries never change
	progress progress                      // of reading the list
	finder   *Finder                       // searches this catalog; nil: none
}

// New returns an empty catalog. It makes no request.
func New(o Options) *Catalog {
	o.TagTTL = cmp.Or(o.TagTTL, 30*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	w := o.Watch.withDefaults()
	lists := cache.New("list", listBytes, (*Versions).size, o.Now, w.Looked)
	blobs := &Blobs{
		client: o.Client,
		sizes:  cache.New("size", sizeBytes, func(int64) int { return 8 }, o.Now, w.Looked),
		bytes:  cache.New("blob", blobBytes, func(b []byte) int { return len(b) }, o.Now, w.Looked),
	}
	lost := &lostVersions{blobs: blobs, log: o.Logger}
	found := &manifests{
		client: o.Client, layout: o.Layout, revoked: o.Revoked, log: o.Logger, now: o.Now, watch: w, tagTTL: o.TagTTL,
		blobs: blobs, lists: lists,
		modules:   cache.New("module", manifestBytes, (*ModuleVersion).size, o.Now, w.Looked),
		providers: cache.New("provider", manifestBytes, (*ProviderVersion).Size, o.Now, w.Looked),
	}
	return &Catalog{
		Blobs: blobs, client: o.Client, layout: o.Layout, lists: lists, manifests: found, lost: lost,
		evidence:  newEvidence(o.Now, w.Looked),
		docs:      cache.New("docs", docsBytes, (*ProviderDocs).size, o.Now, w.Looked),
		published: cache.New("catalog", listBytes, (*Published).size, o.Now, w.Looked),
		policy: &policy{
			client: o.Client, layout: o.Layout, require: o.Require, manifests: found, lost: lost, log: o.Logger, now: o.Now, checked: w.Checked,
			verdicts: cache.New("verdict", sizeBytes, func(d verdict) int { return len(d.reason) }, o.Now, w.Looked),
		},
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

// Layout returns the layout of the registry.
func (c *Catalog) Layout() addr.Layout { return c.layout }

// Ping asks for a tag that need not exist. 403 counts as an answer; a 401 that means denied says
// that the project is missing, or closed to the account.
func (c *Catalog) Ping(ctx context.Context) error {
	r, err := c.client.Repo(c.layout.CatalogRepo())
	if err != nil {
		return err
	}
	_, err = r.Resolve(ctx, "okara-readiness")
	e, ok := errors.AsType[*oci.ResponseError](err)
	if errors.Is(err, oci.ErrNotFound) || ok && e.Status == http.StatusForbidden {
		return nil
	}
	return err
}

// Changed drops cached values after a reference was written or deleted: a version's, event's or
// signature's tag, or a digest. A version deleted by digest is cached as long as its tag.
func (c *Catalog) Changed(repository, reference string) {
	c.policy.forgetVerdict(repository, reference)
	c.evidence.forgetEvidence(repository, reference)
	c.lists.Forget(repository)
	c.manifests.forgetTag(repository, reference)
	c.news.notify()
	if c.finder != nil {
		c.finder.recordChange(repository, true)
	}
}

// AddedVersion is called after a version was published: what reads it is dropped, and the list of all items,
// which may have a new one.
func (c *Catalog) AddedVersion(repository, tag string) {
	c.Changed(repository, tag)
	c.ChangedPublished()
}

// ChangedPublished drops the list of all items, since an item was added.
func (c *Catalog) ChangedPublished() {
	c.published.Forget(c.layout.CatalogRepo())
	c.news.notify()
	if c.finder != nil {
		c.finder.recordChange("", true)
	}
}

// RefusedError is why a version is not served: withdrawn, lost, or against the policy.
type RefusedError struct{ reason string }

func (e *RefusedError) Error() string { return e.reason }

func newRefused(format string, args ...any) error {
	return &RefusedError{fmt.Sprintf(format, args...)}
}

// news notifies waiting callers that this process has published or withdrawn something.
type news struct {
	mu      sync.Mutex // guards changed
	changed chan struct{}
}

func (n *news) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

func (n *news) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// News returns a channel closed at the next change: earlier lists may be outdated.
func (c *Catalog) News() <-chan struct{} { return c.news.wait() }
