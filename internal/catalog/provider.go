// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// ProviderVersion is a provider's index, with checksums, signature and keys.
type ProviderVersion struct {
	artifact.ProviderIndex
	Meta       artifact.ProviderMetadata
	Lost       []addr.Platform // whose archives the registry has lost
	Broken     error           // why the index cannot be used; then only Index is set
	Repository string          // without host
	Derived    sync.Map        // values that callers derive from this version, by form
}

// Size returns the approximate memory of the version and its answers, in bytes.
func (p *ProviderVersion) Size() int {
	// The index, its inline metadata, and one encoded answer per platform.
	n := 4096 + len(p.Meta.ShasumsBytes)
	for _, k := range p.Meta.Keys {
		n += len(k.ASCIIArmor)
	}
	return n * (1 + len(p.Platforms))
}

// Platform returns the package for a platform.
func (p *ProviderVersion) Platform(target addr.Platform) (artifact.ProviderPlatform, bool) {
	i := slices.IndexFunc(p.Platforms, func(t artifact.ProviderPlatform) bool { return t.Platform == target })
	if i < 0 {
		return artifact.ProviderPlatform{}, false
	}
	return p.Platforms[i], true
}

// without returns p without the platforms whose archives are lost.
func (p *ProviderVersion) without(lost []string) *ProviderVersion {
	isLost := func(t artifact.ProviderPlatform) bool { return slices.Contains(lost, t.Zh) }
	if !slices.ContainsFunc(p.Platforms, isLost) {
		return p
	}
	left := &ProviderVersion{ProviderIndex: p.ProviderIndex, Meta: p.Meta, Lost: slices.Clip(p.Lost), Broken: p.Broken, Repository: p.Repository}
	left.Platforms = nil
	for _, t := range p.Platforms {
		if isLost(t) {
			left.Lost = append(left.Lost, t.Platform)
		} else {
			left.Platforms = append(left.Platforms, t)
		}
	}
	return left
}

// extendsVersion reports whether p has every package of old unchanged.
func (p *ProviderVersion) extendsVersion(old *ProviderVersion) bool {
	for _, t := range old.Platforms {
		if now, ok := p.Platform(t.Platform); !ok || now.Zh != t.Zh {
			return false
		}
	}
	return true
}

// unsignedHost is the one host of which clients install unsigned providers.
const unsignedHost = "registry.opentofu.org"

// Installable fails if clients would refuse the version from a registry; a mirror may be unsigned.
func (p *ProviderVersion) Installable(a addr.Provider) error {
	switch {
	case p.Broken != nil:
		return p.Broken
	case len(p.Meta.ShasumsBytes) == 0:
		return errors.New("no SHA256SUMS; add them with okara sign")
	case p.Signature == "none" && a.Hostname == unsignedHost:
		return nil
	case p.Meta.Signature.Digest == "" || len(p.Meta.Keys) == 0:
		return errors.New("no signature, or no readable key; add one with okara sign")
	}
	return nil
}

// ProviderVersion returns a served version. Errors are a [RefusedError] and [oci.ErrNotFound].
func (c *Catalog) ProviderVersion(ctx context.Context, p addr.Provider, v addr.Version) (*ProviderVersion, error) {
	repository := p.Item().Repository(c.layout)
	l, err := listForVersion(ctx, c, p.Item())
	if err != nil {
		return nil, err
	}
	if err := l.Available(v); err != nil {
		return nil, err
	}
	pv, err := c.manifests.providerVersion(ctx, repository, p.Type, v, l)
	if err == nil && pv.Broken != nil {
		err = pv.Broken
	}
	if err != nil {
		return nil, dropIfDangling(c, repository, l, v, err)
	}
	return pv.without(c.lost.lostIn(repository)[v]), c.policy.admitVersion(ctx, repository, v, pv.Index, l)
}

// providerVersion returns an index with all that answers need. A new signature is a new value. Its
// tag must not move: that is checked in the background, an error in the log, no other answer.
func (m *manifests) providerVersion(ctx context.Context, repository, typ string, v addr.Version, l *Versions) (*ProviderVersion, error) {
	policy := cache.Policy{Fresh: 10 * time.Minute, Grace: cache.Forever, Stale: cache.Forever}
	return m.providers.Get(ctx, providerKey(repository, v, l), policy, func(ctx context.Context, old *ProviderVersion, has bool) (*ProviderVersion, error) {
		r, err := m.client.Repo(repository)
		if err != nil {
			return nil, err
		}
		if has {
			d, err := r.Resolve(ctx, v.Tag())
			if err != nil {
				return nil, asDangling(err)
			}
			if d.Digest == old.Index.Digest {
				return old, nil
			}
		}
		now, err := readProvider(ctx, r, typ, v, l.Listing.Events)
		if err != nil {
			return nil, err
		}
		now.Repository = repository
		now.Meta.Keys = m.readableKeys(repository, v, now.Meta.Keys)
		if err := m.revoked.Withdraw(&now.Meta); err != nil {
			m.log.Error("a version no longer has a valid signature", "repository", repository, "tag", v.Tag(), "reason", err)
		}
		if has && !now.extendsVersion(old) {
			m.watch.Moved()
			m.log.Error("version tag of a provider moved to other content; the original content is still served",
				"repository", repository, "tag", v.Tag(), "served", old.Index.Digest, "found", now.Index.Digest)
			return old, nil
		}
		m.learnProvider(repository, now)
		return now, nil
	})
}

func providerKey(repository string, v addr.Version, l *Versions) string {
	return repository + ":" + v.Tag() + l.lastResign(v)
}

// learnProvider adds a version's metadata to the next list, and caches its sizes.
func (m *manifests) learnProvider(repository string, pv *ProviderVersion) {
	for _, t := range pv.Platforms {
		m.blobs.sizes.Put(repository+"@"+t.Zh, t.Size)
	}
	for _, b := range []struct {
		d     oci.Descriptor
		bytes []byte
	}{{pv.Meta.Shasums, pv.Meta.ShasumsBytes}, {pv.Meta.Signature, pv.Meta.SignatureBytes}} {
		if len(b.bytes) > 0 {
			m.blobs.KeepBytes(repository, b.d.Digest.Encoded(), b.bytes)
			m.blobs.KeepSize(repository, b.d)
		}
	}
	for _, k := range pv.Meta.Keys {
		if at, err := time.Parse(time.RFC3339, k.Expires); err == nil {
			m.watch.Key(repository, k.KeyID, at)
		}
	}
	if l, ok := m.lists.Peek(repository); ok {
		l.Learn()
	}
}

// readableKeys returns keys as clients try them, one an entry: they read an entry's first block,
// and fail at an unreadable one before the right one.
func (m *manifests) readableKeys(repository string, v addr.Version, stored []artifact.SigningKey) []artifact.SigningKey {
	var keys []signing.PublicKey
	from := map[string]artifact.SigningKey{}
	for _, k := range stored {
		parsed, err := signing.ParsePublicKeys([]byte(k.ASCIIArmor))
		if err != nil {
			m.log.Error("signing key not readable; skipped", "repository", repository, "tag", v.Tag(), "key", k.KeyID, "reason", err)
			continue
		}
		for _, p := range parsed {
			from[p.Armor] = k
		}
		keys = append(keys, parsed...)
	}
	signing.SortKeys(keys, m.now())
	served := make([]artifact.SigningKey, 0, len(keys))
	for _, p := range keys {
		k := from[p.Armor]
		k.KeyID = p.ID
		k.ASCIIArmor = p.Armor
		served = append(served, k)
	}
	return served
}

// KnownProvider returns a version of l that has been read before, without a request.
func (c *Catalog) KnownProvider(p addr.Provider, v addr.Version, l *Versions) (*ProviderVersion, bool) {
	repository := p.Item().Repository(c.layout)
	pv, ok := c.manifests.providers.Peek(providerKey(repository, v, l))
	if ok {
		pv = pv.without(c.lost.lostIn(repository)[v])
	}
	return pv, ok
}

// readProvider reads an index. An invalid one is cached as broken: lists leave it out.
func readProvider(ctx context.Context, r *oci.Repo, typ string, v addr.Version, events []evidence.StatusEvent) (*ProviderVersion, error) {
	raw, err := r.Fetch(ctx, v.Tag())
	if err != nil {
		return nil, asDangling(err)
	}
	pv, err := decodeProvider(ctx, r, raw, typ, v, events)
	if err = asOther(err, r.Name(), v.Tag(), raw); errors.Is(err, oci.ErrCorrupt) {
		return &ProviderVersion{ProviderIndex: artifact.ProviderIndex{Index: raw.Descriptor}, Broken: err}, nil
	}
	return pv, err
}

func decodeProvider(ctx context.Context, r *oci.Repo, raw oci.Manifest, typ string, v addr.Version, events []evidence.StatusEvent) (*ProviderVersion, error) {
	idx, err := artifact.ParseProviderIndex(raw)
	if err != nil {
		return nil, fmt.Errorf("%s:%s: %w", r, v.Tag(), err)
	}
	pv := &ProviderVersion{ProviderIndex: idx}
	status := evidence.FoldStatus(events, v.String(), idx.Index.Digest)
	if idx.Metadata != nil || status.Resigned != nil {
		if pv.Meta, err = evidence.Resigned(ctx, r, idx, status); err != nil {
			return nil, fmt.Errorf("%s:%s: %w", r, v.Tag(), err)
		}
	}
	var platforms []artifact.ProviderPlatform
	for _, t := range pv.Platforms {
		err := completePlatform(ctx, r, &t, typ, v)
		if errors.Is(err, oci.ErrNotFound) {
			pv.Lost = append(pv.Lost, t.Platform)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%s: %s: %w", r, v.Tag(), t.Platform, err)
		}
		platforms = append(platforms, t)
	}
	if pv.Platforms = platforms; len(platforms) == 0 && len(pv.Lost) > 0 {
		return nil, fmt.Errorf("%s:%s: all packages are missing from the registry: %w", r, v.Tag(), oci.ErrNotFound)
	}
	return pv, nil
}

// completePlatform fills in fields that an index of another tool does not have, with one request.
func completePlatform(ctx context.Context, r *oci.Repo, t *artifact.ProviderPlatform, typ string, v addr.Version) error {
	if t.Filename == "" {
		t.Filename = signing.PackageName(addr.Provider{Type: typ}, v, t.Platform)
	}
	if t.Zh != "" && t.Size > 0 {
		return nil
	}
	zip, err := artifact.ResolveProviderZip(ctx, r, *t)
	if err != nil {
		return err
	}
	t.Zh = zip.Digest.Encoded()
	t.Size = zip.Size
	return nil
}
