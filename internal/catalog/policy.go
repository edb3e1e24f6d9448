// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

const (
	verdictFresh  = 10 * time.Minute // how long a version that passed is served without another look at it
	refusalFresh  = 30 * time.Second // how soon one that did not is looked at again: its signature may come
	checkParallel = 8                // versions of one list
)

// ValidateRequire refuses a policy that says nothing, or that no version of its
// kind can fulfil.
func ValidateRequire(kind string, o depot.VerifyOptions) error {
	signed := slices.Contains(o.Require, depot.RequireOpenPGP)
	unknown := slices.IndexFunc(o.Require, func(name string) bool {
		return name != depot.RequireOpenPGP && name != depot.RequireCosign && name != depot.RequireScan
	})
	switch {
	case !slices.Contains([]string{addr.KindModule, addr.KindProvider, addr.KindMirror}, kind):
		return fmt.Errorf("require: the kind %q is not module, provider or mirror", kind)
	case unknown >= 0:
		return fmt.Errorf("require %s: unknown requirement %q", kind, o.Require[unknown])
	case len(o.Require) == 0 && o.Block == "":
		return fmt.Errorf("require %s: nothing is required", kind)
	case kind == addr.KindModule && signed:
		return errors.New("require module: modules have no OpenPGP signature; cosign is theirs")
	case signed != (len(o.OpenPGP) > 0):
		return fmt.Errorf("require %s: openpgp and the keys to trust go together", kind)
	case slices.Contains(o.Require, depot.RequireCosign) != (len(o.Cosign) > 0):
		return fmt.Errorf("require %s: cosign and the keys to trust go together", kind)
	}
	return nil
}

// verdict is what came of checking a version against [Options].Require.
type verdict struct {
	reason string // why it is refused; "": it may be served
}

// refused is a [RefusedError]: nobody is served the version, like one that
// was withdrawn.
func (d verdict) refused(v addr.Version) error {
	if d.reason == "" {
		return nil
	}
	return refused("version %s does not fulfil the policy of this server: %s", v, d.reason)
}

// requirement is what versions in a repository have to fulfil.
func (c *Catalog) requirement(repository string) (kind string, o depot.VerifyOptions, ok bool) {
	if len(c.require) == 0 {
		return "", o, false
	}
	item, ok := c.layout.Parse(repository)
	if !ok {
		return "", o, false
	}
	o, ok = c.require[item.Kind]
	return item.Kind, o, ok
}

// admit returns an error for a manifest that does not fulfil the policy, or for
// which nothing is known because the registry fails.
func (c *Catalog) admit(ctx context.Context, repository string, v addr.Version, manifest oci.Descriptor, l *Versions) error {
	kind, o, ok := c.requirement(repository)
	if !ok {
		return nil
	}
	key := verdictKey(repository, v, manifest, l)
	p := cache.Policy{Fresh: verdictFresh, Stale: staleFor}
	if known, ok := c.verdicts.Peek(key); ok && known.reason != "" {
		p = cache.Policy{Fresh: refusalFresh, Stale: cache.Forever}
	}
	d, err := c.verdicts.Get(ctx, key, p, func(ctx context.Context, _ verdict, _ bool) (verdict, error) {
		return c.judge(ctx, kind, repository, v, manifest, l, o)
	})
	if err != nil {
		return err
	}
	return d.refused(v)
}

func verdictKey(repository string, v addr.Version, manifest oci.Descriptor, l *Versions) string {
	return repository + "@" + manifest.Digest.String() + l.resigned(v)
}

func (c *Catalog) judge(ctx context.Context, kind, repository string, v addr.Version, manifest oci.Descriptor, l *Versions, o depot.VerifyOptions) (verdict, error) {
	r, err := c.client.Repo(repository)
	if err != nil {
		return verdict{}, err
	}
	m, err := r.Fetch(ctx, manifest.Digest.String())
	if err != nil {
		return verdict{}, err
	}
	o.Lean, o.AllowYanked, o.Now = true, true, c.now()
	_, err = c.verifier.VerifyManifest(ctx, &depot.Listing{Repository: r, Events: l.Events}, v, m, o)
	if err != nil && (!errors.Is(err, depot.ErrUntrusted) || ctx.Err() != nil || undecided(err)) {
		return verdict{}, err
	}
	if err != nil {
		c.watch.Checked(kind, "refused")
		c.log.Warn("a version does not fulfil the policy and is not served",
			"repository", repository, "tag", v.Tag(), "digest", manifest.Digest, "reason", err)
		return verdict{reason: err.Error()}, nil
	}
	c.watch.Checked(kind, "passed")
	return verdict{}, nil
}

// undecided reports whether it is the registry that failed, not the version.
func undecided(err error) bool {
	return slices.ContainsFunc([]error{oci.ErrUnavailable, oci.ErrRateLimited, oci.ErrDenied, oci.ErrUnauthenticated},
		func(e error) bool { return errors.Is(err, e) })
}

// screen takes the versions out of a list that do not fulfil the policy. One that
// passed earlier stays until somebody asks for it, which has it checked again.
func (c *Catalog) screen(ctx context.Context, repository string, l *Versions) error {
	if _, _, ok := c.requirement(repository); !ok {
		return nil
	}
	reasons := make([]error, len(l.Listed))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(checkParallel)
	for i, v := range l.Listed {
		g.Go(func() (err error) {
			reasons[i], err = c.reason(ctx, repository, v, l)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var served []addr.Version
	for i, v := range l.Listed {
		if reasons[i] == nil {
			served = append(served, v)
			continue
		}
		if _, ghost := errors.AsType[*ghostError](reasons[i]); ghost {
			if c.lost.add(repository, v, "") {
				c.warnGhosts(repository, v.Tag())
			}
			continue
		}
		if l.refused == nil {
			l.refused = map[addr.Version]error{}
		}
		l.refused[v] = reasons[i]
	}
	l.Listed = served
	return nil
}

// reason is why a version of a list is not served, nil if it is. A tag whose manifest
// is lost, or is no module or provider, is no reason to do without the others.
func (c *Catalog) reason(ctx context.Context, repository string, v addr.Version, l *Versions) (reason, err error) {
	manifest, err := c.manifest(ctx, repository, v, l)
	if err == nil {
		if known, ok := c.verdicts.Peek(verdictKey(repository, v, manifest, l)); ok && known.reason == "" {
			return nil, nil
		}
		err = c.admit(ctx, repository, v, manifest, l)
	}
	_, refusal := errors.AsType[*RefusedError](err)
	if _, ghost := errors.AsType[*ghostError](err); ghost || refusal {
		return err, nil
	}
	if errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrCorrupt) {
		c.log.Warn("a version cannot be checked against the policy and is not served", "repository", repository, "tag", v.Tag(), "reason", err)
		return refused("version %s cannot be checked: %v", v, err), nil
	}
	if err != nil {
		return nil, fmt.Errorf("check version %s: %w", v, err)
	}
	return nil, nil
}

// manifest is what is known to be under a version tag.
func (c *Catalog) manifest(ctx context.Context, repository string, v addr.Version, l *Versions) (oci.Descriptor, error) {
	if d, ok := c.knownManifest(repository, v, l); ok {
		return d, nil
	}
	item, _ := c.layout.Parse(repository)
	if item.Kind == addr.KindModule {
		m, err := c.anyModule(ctx, repository, v)
		if err != nil {
			return oci.Descriptor{}, err
		}
		return m.Manifest, nil
	}
	p, err := c.anyProvider(ctx, repository, item.Provider.Type, v, l)
	if err != nil {
		return oci.Descriptor{}, err
	}
	return p.Index, nil
}

func (c *Catalog) knownManifest(repository string, v addr.Version, l *Versions) (oci.Descriptor, bool) {
	if m, ok := c.modules.Peek(repository + ":" + v.Tag()); ok {
		return m.Manifest, true
	}
	p, ok := c.providers.Peek(providerKey(repository, v, l))
	if !ok {
		return oci.Descriptor{}, false
	}
	return p.Index, true
}

// forgetVerdict makes a version be checked again, since a signature of it may
// have come.
func (c *Catalog) forgetVerdict(repository, tag string) {
	l, listed := c.lists.Peek(repository)
	v, version := addr.VersionFromTag(tag)
	if !listed || !version {
		return
	}
	if d, ok := c.knownManifest(repository, v, l); ok {
		c.verdicts.Forget(verdictKey(repository, v, d, l))
	}
}
