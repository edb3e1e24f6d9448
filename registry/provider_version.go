// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// providerVersion is the index under the version tag of a provider, with its
// checksums, signature and keys.
type providerVersion struct {
	artifact.ProviderIndex
	meta   artifact.ProviderMetadata
	broken error // why the index cannot be used; nothing else is set then
	answers
}

func (p *providerVersion) size() int {
	// The index, its inline metadata, and one encoded answer per platform.
	n := 4096 + len(p.meta.ShasumsBytes)
	for _, k := range p.meta.Keys {
		n += len(k.ASCIIArmor)
	}
	return n * (1 + len(p.Platforms))
}

func (p *providerVersion) platform(target addr.Platform) (artifact.ProviderPlatform, bool) {
	i := slices.IndexFunc(p.Platforms, func(t artifact.ProviderPlatform) bool { return t.Platform == target })
	if i < 0 {
		return artifact.ProviderPlatform{}, false
	}
	return p.Platforms[i], true
}

func (p *providerVersion) platformNames() []platformName {
	names := make([]platformName, 0, len(p.Platforms))
	for _, t := range p.Platforms {
		names = append(names, platformName{OS: t.Platform.OS, Arch: t.Platform.Arch})
	}
	return names
}

func (p *providerVersion) platformList() string {
	names := make([]string, 0, len(p.Platforms))
	for _, t := range p.Platforms {
		names = append(names, t.Platform.String())
	}
	return strings.Join(names, ", ")
}

// packages lists the hashes of every platform, or is nil: a client fails on an
// incomplete entry, while the field itself is optional.
func (p *providerVersion) packages() map[string]packageHashes {
	all := make(map[string]packageHashes, len(p.Platforms))
	for _, t := range p.Platforms {
		if t.Zh == "" || t.Size <= 0 {
			return nil
		}
		all[t.Platform.String()] = packageHashes{Hashes: []string{"zh:" + t.Zh}, Size: t.Size}
		if t.H1 != "" {
			all[t.Platform.String()] = packageHashes{Hashes: []string{"zh:" + t.Zh, t.H1}, Size: t.Size}
		}
	}
	return all
}

// extends reports whether p has every package of old unchanged.
func (p *providerVersion) extends(old *providerVersion) bool {
	for _, t := range old.Platforms {
		if now, ok := p.platform(t.Platform); !ok || now.Zh != t.Zh {
			return false
		}
	}
	return true
}

// unsignedHost is the one host for which the clients install a provider that
// has no signing key.
const unsignedHost = "registry.opentofu.org"

// installable says why both clients would refuse the version through the
// registry protocol, if they would. A network mirror needs no signature.
func (p *providerVersion) installable(a addr.Provider) error {
	switch {
	case p.broken != nil:
		return p.broken
	case len(p.meta.ShasumsBytes) == 0:
		return errors.New("it was pushed without SHA256SUMS; add them with okara sign")
	case p.Signature == "none" && a.Hostname == unsignedHost:
		return nil
	case p.meta.Signature.Digest == "" || len(p.meta.Keys) == 0:
		return errors.New("it has no signature, or no key that can be read; add one with okara sign")
	}
	return nil
}

// provider returns the index under a version tag, if it may be served.
func (s *store) provider(ctx context.Context, repository, typ string, v addr.Version) (*providerVersion, error) {
	l, err := s.listed(ctx, repository)
	if err != nil {
		return nil, err
	}
	if err := l.available(v); err != nil {
		return nil, err
	}
	pv, err := s.anyProvider(ctx, repository, typ, v, l)
	if err == nil && pv.broken != nil {
		err = pv.broken
	}
	if err != nil {
		return nil, err
	}
	return pv, s.admit(ctx, repository, v, pv.Index, l)
}

// anyProvider returns the index under a version tag with everything the answers
// need. The tag of a provider never moves to other content; it is looked at in
// the background, and a move is an error for people, not a new answer. A new
// signature is a new value.
func (s *store) anyProvider(ctx context.Context, repository, typ string, v addr.Version, l *listing) (*providerVersion, error) {
	return s.providers.Get(ctx, providerKey(repository, v, l), s.providerPolicy, func(ctx context.Context, old *providerVersion, has bool) (*providerVersion, error) {
		r, err := s.client.Repo(repository)
		if err != nil {
			return nil, err
		}
		if has {
			d, err := r.Resolve(ctx, v.Tag())
			if err != nil {
				return nil, err
			}
			if d.Digest == old.Index.Digest {
				return old, nil
			}
		}
		now, err := readProvider(ctx, r, typ, v, l.events)
		if err != nil {
			return nil, err
		}
		now.meta.Keys = s.readableKeys(repository, v, now.meta.Keys)
		if err := s.revoked.withdraw(&now.meta); err != nil {
			s.log.Error("a version has no signature that counts any more", "repository", repository, "tag", v.Tag(), "reason", err)
		}
		if has && !now.extends(old) {
			s.metrics.tagMoved.Inc()
			s.log.Error("the version tag of a provider moved to other content; the first one is served on",
				"repository", repository, "tag", v.Tag(), "served", old.Index.Digest, "found", now.Index.Digest)
			return old, nil
		}
		s.learn(repository, now)
		return now, nil
	})
}

func providerKey(repository string, v addr.Version, l *listing) string {
	return repository + ":" + v.Tag() + l.resigned(v)
}

// learn makes the next list of versions show what is now known of this one,
// and remembers the sizes of its packages.
func (s *store) learn(repository string, pv *providerVersion) {
	for _, t := range pv.Platforms {
		s.sizes.Put(repository+"@"+t.Zh, t.Size)
	}
	for _, b := range []struct {
		d     oci.Descriptor
		bytes []byte
	}{{pv.meta.Shasums, pv.meta.ShasumsBytes}, {pv.meta.Signature, pv.meta.SignatureBytes}} {
		if len(b.bytes) > 0 {
			s.blobs.Put(b.d.Digest.Encoded(), b.bytes)
			s.sizes.Put(repository+"@"+b.d.Digest.Encoded(), b.d.Size)
		}
	}
	for _, k := range pv.meta.Keys {
		if at, err := time.Parse(time.RFC3339, k.Expires); err == nil {
			s.metrics.keyExpiry.WithLabelValues(repository, k.KeyID).Set(float64(at.Unix()))
		}
	}
	if l, ok := s.lists.Peek(repository); ok {
		l.learned.Add(1)
	}
}

// readableKeys are the keys in the order in which the clients should try them,
// one to an entry: they read the first block of an entry only, and a key that
// they cannot read ends the installation although a later one would fit.
func (s *store) readableKeys(repository string, v addr.Version, stored []artifact.SigningKey) []artifact.SigningKey {
	var keys []signing.PublicKey
	from := map[string]artifact.SigningKey{}
	for _, k := range stored {
		parsed, err := signing.ParsePublicKeys([]byte(k.ASCIIArmor))
		if err != nil {
			s.log.Error("a signing key cannot be read and is left out", "repository", repository, "tag", v.Tag(), "key", k.KeyID, "reason", err)
			continue
		}
		for _, p := range parsed {
			from[p.Armor] = k
		}
		keys = append(keys, parsed...)
	}
	signing.SortKeys(keys, s.now())
	served := make([]artifact.SigningKey, 0, len(keys))
	for _, p := range keys {
		k := from[p.Armor]
		k.KeyID, k.ASCIIArmor = p.ID, p.Armor
		served = append(served, k)
	}
	return served
}

// knownProvider returns a version that has been read before, without asking.
func (s *store) knownProvider(repository string, v addr.Version, l *listing) (*providerVersion, bool) {
	return s.providers.Peek(providerKey(repository, v, l))
}

// readProvider reads an index. One that breaks the format is a value, not an
// error: it is remembered as broken, so that lists leave it out.
func readProvider(ctx context.Context, r *oci.Repo, typ string, v addr.Version, events []artifact.StatusEvent) (*providerVersion, error) {
	raw, err := r.Fetch(ctx, v.Tag())
	if err != nil {
		return nil, err
	}
	pv, err := decodeProvider(ctx, r, raw, typ, v, events)
	if errors.Is(err, oci.ErrCorrupt) {
		return &providerVersion{ProviderIndex: artifact.ProviderIndex{Index: raw.Descriptor}, broken: err}, nil
	}
	return pv, err
}

func decodeProvider(ctx context.Context, r *oci.Repo, raw oci.Manifest, typ string, v addr.Version, events []artifact.StatusEvent) (*providerVersion, error) {
	idx, err := artifact.ParseProviderIndex(raw)
	if err != nil {
		return nil, fmt.Errorf("%s:%s: %w", r, v.Tag(), err)
	}
	pv := &providerVersion{ProviderIndex: idx}
	status := artifact.FoldStatus(events, v.String(), idx.Index.Digest)
	if idx.Metadata != nil || status.Resigned != nil {
		if pv.meta, err = artifact.Resigned(ctx, r, idx, status); err != nil {
			return nil, fmt.Errorf("%s:%s: %w", r, v.Tag(), err)
		}
	}
	for i := range pv.Platforms {
		if err := complete(ctx, r, &pv.Platforms[i], typ, v); err != nil {
			return nil, fmt.Errorf("%s:%s: %s: %w", r, v.Tag(), pv.Platforms[i].Platform, err)
		}
	}
	return pv, nil
}

// complete fills in what an index made elsewhere does not say, at the price of
// one request.
func complete(ctx context.Context, r *oci.Repo, t *artifact.ProviderPlatform, typ string, v addr.Version) error {
	if t.Filename == "" {
		t.Filename = "terraform-provider-" + typ + "_" + v.String() + "_" + t.Platform.String() + ".zip"
	}
	if t.Zh != "" && t.Size > 0 {
		return nil
	}
	zip, err := artifact.ResolveProviderZip(ctx, r, *t)
	if err != nil {
		return err
	}
	t.Zh, t.Size = zip.Digest.Encoded(), zip.Size
	return nil
}
