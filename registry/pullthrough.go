// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// PullRule lets the front-end fetch versions of some providers from their origin on request.
type PullRule struct {
	Providers string              // glob over HOSTNAME/NAMESPACE/TYPE
	Versions  addr.Constraint     // zero: every release
	Origin    depot.Source        // must not reach hosts that clients must not reach, see upstream.Guard
	Mirror    depot.MirrorOptions // which platforms, and which proof is required
}

func (r PullRule) permitsPlatform(t addr.Platform) bool {
	return len(r.Mirror.Platforms) == 0 || slices.Contains(r.Mirror.Platforms, t)
}

const (
	originBytes = 64 << 20 // of each of the two caches
	// originRetry is how long failures count: of a version, and of an origin with stored versions.
	originRetry = time.Minute
)

// mayPullThrough reports whether versions can fulfil a policy by their author's signature alone.
func mayPullThrough(require trust.Policy) bool {
	return require.Block == "" && !slices.ContainsFunc(require.Require, func(name string) bool { return name != trust.RequireOpenPGP })
}

// pullThrough answers for versions that only an origin has, and stores the packages requested.
type pullThrough struct {
	layout  addr.Layout
	rules   []PullRule
	revoked catalog.RevokedKeys
	// What is required of mirrored providers: nothing, or a signature by one of these keys.
	require trust.Policy

	versions *cache.Cache[*originVersions] // address of the provider
	releases *cache.Cache[*originRelease]  // address and version
	packages pulls                         // being fetched

	client  *oci.Client // of the registry, with the front-end's own credentials
	catalog *catalog.Catalog
	depot   *depot.Depot
	queue   *jobs.Queue
	metrics *Metrics
	audit   *slog.Logger // nil: none
	log     *slog.Logger
	now     func() time.Time
	stall   time.Duration // an origin that sends too little for that long is given up
}

// newPullThrough returns the pull-through into the registry of a view; nil without rules.
func newPullThrough(o Options, v *view, m *Metrics) *pullThrough {
	if len(o.PullThrough) == 0 {
		return nil
	}
	return &pullThrough{
		layout: o.Layout, rules: o.PullThrough, revoked: o.Revoked, require: o.Require[addr.KindMirror],
		versions: cache.New("origin", originBytes, (*originVersions).size, o.Now, m.countLookup),
		releases: cache.New("release", originBytes, (*originRelease).size, o.Now, m.countLookup),
		packages: pulls{limiter: service.NewClientLimiter(maxPulls), disk: semaphore.NewWeighted(maxPulled), running: map[string]*pulled{}},
		client:   v.client, catalog: v.catalog, depot: v.depot, metrics: m, audit: o.Audit, log: o.Logger, now: o.Now, stall: stallTimeout,
	}
}

// originPolicy refreshes a reachable origin's answers in the background after a while.
func originPolicy() cache.Policy {
	return cache.Policy{Fresh: 5 * time.Minute, Grace: cache.Forever, Stale: cache.Forever}
}

// rule returns the first rule for a provider; the front-end's own have none.
func (p *pullThrough) rule(a addr.Provider) (PullRule, bool) {
	if p == nil || a.Hostname == "" {
		return PullRule{}, false
	}
	i := slices.IndexFunc(p.rules, func(r PullRule) bool { return addr.Match(r.Providers, a.String()) })
	if i < 0 {
		return PullRule{}, false
	}
	return p.rules[i], true
}

// originVersions is the list of a provider's versions at its origin that the rule allows.
type originVersions struct {
	versions []addr.Version // highest first
	err      error          // why the list is unknown
	union    atomic.Pointer[catalog.Versions]
}

func (o *originVersions) size() int { return 256 + 128*len(o.versions) }

// withOrigin returns the union of the versions in the registry, if any, and those at the origin.
func (o *originVersions) withOrigin(stored *catalog.Versions) *catalog.Versions {
	if len(o.versions) == 0 && stored != nil {
		return stored
	}
	if u := o.union.Load(); u != nil && u.Of(stored) {
		return u
	}
	u := catalog.Union(stored, o.versions)
	o.union.Store(u)
	return u
}

// providerVersions returns a provider's versions in the registry and those that may be pulled
// through. A slow or absent origin adds nothing, and delays nothing if there are stored versions.
func (v *view) providerVersions(ctx context.Context, p addr.Provider) (*catalog.Versions, error) {
	stored, err := v.catalog.Versions(ctx, p.Item())
	rule, ok := v.pull.rule(p)
	if !ok || err != nil && !v.isAbsent(err) {
		return stored, err
	}
	if err != nil {
		stored = nil
	}
	origin, oerr := v.pull.listOrigin(ctx, rule, p, stored != nil)
	switch {
	case oerr != nil:
		return nil, originError(oerr)
	case origin.err != nil && stored == nil:
		return nil, originError(origin.err)
	case len(origin.versions) == 0 && stored == nil:
		return nil, err
	}
	return origin.withOrigin(stored), nil
}

// originError returns the error for an answer that needs an origin, with the origin's text.
func originError(err error) error {
	own, ok := errors.AsType[*service.Error](err)
	switch {
	case ok:
		return own
	case errors.Is(err, oci.ErrNotFound):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &service.Error{Status: http.StatusGatewayTimeout, Text: "the origin did not respond in time"}
	}
	return &service.Error{Status: http.StatusBadGateway, Text: "invalid response from the origin: " + visibleReason(err)}
}

// visibleReason returns what a client may see of a failure: not the addresses of host names.
func visibleReason(err error) string {
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		return err.Error()
	}
	if errors.Is(err, oci.ErrDenied) {
		return "its address is not public, and not listed as private"
	}
	return "it cannot be reached"
}

// listOrigin lists an origin's versions; with brief it waits briefly. A failure is remembered.
func (p *pullThrough) listOrigin(ctx context.Context, rule PullRule, a addr.Provider, brief bool) (*originVersions, error) {
	key := a.String()
	load := func(ctx context.Context, old *originVersions, has bool) (*originVersions, error) {
		have, err := rule.Origin.Versions(upstream.ReportLeftOut(ctx, func(listed string, why error) {
			p.log.Info("pull-through: skipped", "provider", key, "version", text.Excerpt(listed), "reason", why)
		}), a)
		if err != nil {
			p.log.Warn("pull-through: listing the versions of the origin failed", "provider", key, "error", err)
			return rememberFailure(err, has && old.err == nil, &originVersions{err: err})
		}
		have = slices.DeleteFunc(have, func(v addr.Version) bool { return !rule.Versions.Allows(v) })
		if has && old.err == nil && slices.Equal(old.versions, have) {
			return old, nil
		}
		return &originVersions{versions: have}, nil
	}
	policy := originPolicy()
	if known, ok := p.versions.Peek(key); ok && known.err != nil {
		policy.Fresh = originRetry
		if !brief {
			policy.Fresh = cache.FailureTTL
			policy.Grace = 0
		}
	}
	wait := ctx
	cancel := func() {}
	if brief {
		wait, cancel = context.WithTimeout(ctx, cache.Patience)
	}
	defer cancel()
	o, err := p.versions.Get(wait, key, policy, load)
	if err == nil || ctx.Err() != nil || !brief {
		return o, err
	}
	o = &originVersions{err: err}
	p.versions.Put(key, o)
	return o, nil
}

// rememberFailure returns err if a known value should be kept, else v, which remembers the failure.
func rememberFailure[V any](err error, known bool, v V) (V, error) {
	if known && !errors.Is(err, oci.ErrNotFound) {
		var none V
		return none, err
	}
	return v, nil
}

// originRelease is one version at its origin, or why it is unavailable.
type originRelease struct {
	release *depot.Release
	version *catalog.ProviderVersion // as it would be in the registry, but without sizes
	resumed atomic.Bool              // whether its job was looked for
	err     error
}

func (r *originRelease) size() int {
	if r.err != nil {
		return 256
	}
	return r.version.Size()
}

// providerVersion returns a version of a provider from the registry, or else its origin, unless
// only platforms that may not be pulled through are requested.
func (v *view) providerVersion(ctx context.Context, p addr.Provider, want addr.Version, platforms ...addr.Platform) (*catalog.ProviderVersion, error) {
	pv, err := v.catalog.ProviderVersion(ctx, p, want)
	rule, ok := v.pull.rule(p)
	if err == nil && ok {
		return rule.completeStored(p, pv), nil
	}
	if err == nil || !v.isAbsent(err) {
		return pv, err
	}
	if !ok || len(platforms) > 0 && !slices.ContainsFunc(platforms, rule.permitsPlatform) {
		return nil, err
	}
	if l, ok := v.catalog.PeekProvider(p); ok && l.Withdrawn(want) {
		return nil, err
	}
	r, rerr := v.pull.release(ctx, rule, p, want)
	if rerr != nil {
		return nil, rerr
	}
	v.pull.resume(ctx, r)
	return r.version, nil
}

// completeStored returns a stored version with the platforms that may be pulled through beside it:
// those of the rule in its signed SHA256SUMS. The first request for one adds it to the registry.
func (r PullRule) completeStored(p addr.Provider, stored *catalog.ProviderVersion) *catalog.ProviderVersion {
	if stored.Broken != nil || len(stored.Meta.SignatureBytes) == 0 || !r.Versions.Allows(stored.Version) {
		return stored
	}
	const form = "with what may be pulled"
	if known, ok := stored.Derived.Load(form); ok {
		return known.(*catalog.ProviderVersion)
	}
	sums, err := signing.ParseSums(stored.Meta.ShasumsBytes)
	if err != nil {
		return stored
	}
	all := stored
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		v, t, ok := signing.ParsePackageName(p, name)
		if _, has := stored.Platform(t); !ok || v != stored.Version || has || !r.permitsPlatform(t) {
			continue
		}
		if all == stored {
			all = &catalog.ProviderVersion{ProviderIndex: stored.ProviderIndex, Meta: stored.Meta, Repository: stored.Repository}
			all.Platforms = slices.Clone(stored.Platforms)
		}
		all.Platforms = append(all.Platforms, artifact.ProviderPlatform{Platform: t, Filename: name, Zh: sums[name]})
	}
	stored.Derived.Store(form, all)
	return all
}

// release returns a verified version at its origin. A failure is remembered, not asked for again.
func (p *pullThrough) release(ctx context.Context, rule PullRule, a addr.Provider, v addr.Version) (*originRelease, error) {
	known, ok := p.versions.Peek(a.String())
	if !rule.Versions.Allows(v) || ok && known.err == nil && !slices.Contains(known.versions, v) {
		return nil, fmt.Errorf("provider %s %s: %w", a, v, oci.ErrNotFound)
	}
	key := pullVersion(a, v)
	policy := originPolicy()
	if old, ok := p.releases.Peek(key); ok && old.err != nil {
		policy.Fresh = originRetry
		policy.Grace = 0
		policy.Stale = 0
	}
	r, err := p.releases.Get(ctx, key, policy, func(ctx context.Context, old *originRelease, has bool) (*originRelease, error) {
		release, err := depot.OpenRelease(ctx, rule.Origin, a, v, rule.Mirror)
		if err == nil && len(p.require.Require) > 0 {
			err = release.SignedBy(p.require)
		}
		if err == nil {
			err = p.revoked.Withdraw(&release.Metadata)
		}
		if err != nil {
			p.log.Warn("pull-through: refused", "provider", a.String(), "version", v.String(), "error", err)
			return rememberFailure(err, has && old.err == nil, &originRelease{err: err})
		}
		p.learnDetails(a)
		return &originRelease{release: release, version: atOrigin(release, p.layout.MirrorOf(a))}, nil
	})
	if err != nil {
		return nil, originError(err)
	}
	if r.err != nil {
		return nil, notFound("provider %s %s cannot be pulled from its origin: %s", a, v, visibleReason(r.err))
	}
	return r, nil
}

// learnDetails makes the next list of versions include what is now known of one version.
func (p *pullThrough) learnDetails(a addr.Provider) {
	if o, ok := p.versions.Peek(a.String()); ok {
		if u := o.union.Load(); u != nil {
			u.Learn()
		}
	}
}

// knownRelease returns a version at its origin that was requested before.
func (p *pullThrough) knownRelease(a addr.Provider, v addr.Version) (*catalog.ProviderVersion, bool) {
	if p == nil {
		return nil, false
	}
	r, ok := p.releases.Peek(pullVersion(a, v))
	if !ok || r.err != nil {
		return nil, false
	}
	return r.version, true
}

// atOrigin represents a release as its future index.
func atOrigin(r *depot.Release, repository string) *catalog.ProviderVersion {
	signature := artifact.SignatureVerified
	if len(r.Metadata.SignatureBytes) == 0 {
		signature = artifact.SignatureNone
	}
	return &catalog.ProviderVersion{
		ProviderIndex: artifact.ProviderIndex{Version: r.Version, Protocols: r.Protocols, Signature: signature, Platforms: r.Platforms},
		Meta:          r.Metadata,
		Repository:    repository,
	}
}
