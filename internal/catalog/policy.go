// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const (
	verdictFresh  = 10 * time.Minute // how long a version that passed is served without another check
	refusalFresh  = 30 * time.Second // when a refused version is checked again: a signature may be added
	checkParallel = 8                // versions of one list
)

// ValidateRequire refuses a policy that requires nothing, or what its kind cannot have.
func ValidateRequire(kind string, o trust.Policy) error {
	signed := slices.Contains(o.Require, trust.RequireOpenPGP)
	unknown := slices.IndexFunc(o.Require, func(name string) bool {
		return name != trust.RequireOpenPGP && name != trust.RequireCosign && name != trust.RequireScan
	})
	switch {
	case !slices.Contains([]string{addr.KindModule, addr.KindProvider, addr.KindMirror, addr.KindTemplate}, kind):
		return fmt.Errorf("require: unknown kind %q: must be module, provider, mirror or template", kind)
	case unknown >= 0:
		return fmt.Errorf("require %s: unknown requirement %q", kind, o.Require[unknown])
	case len(o.Require) == 0 && o.Block == "":
		return fmt.Errorf("require %s: no requirement given", kind)
	case kind == addr.KindTemplate && (o.Block != "" || !slices.Equal(o.Require, []string{trust.RequireCosign})):
		return errors.New("require template: templates can only be signed with cosign")
	case kind == addr.KindModule && signed:
		return errors.New("require module: modules have no OpenPGP signature; use cosign")
	case signed != (len(o.OpenPGP) > 0):
		return fmt.Errorf("require %s: openpgp and the keys to trust must be set together", kind)
	case slices.Contains(o.Require, trust.RequireCosign) != o.TrustsSigners():
		return fmt.Errorf("require %s: cosign and the keys or certificates to trust must be set together", kind)
	}
	return nil
}

// verdict is the result of checking a version against [Options].Require.
type verdict struct {
	reason string // why the version is refused; "": it may be served
	under  string // tag of the event that replaced the signature; "": none
}

// refusedVersion returns a [RefusedError] if the version is refused, as for a withdrawn one.
func (d verdict) refusedVersion(v addr.Version) error {
	if d.reason == "" {
		return nil
	}
	return newRefused("version %s does not meet the policy of this server: %s", v, d.reason)
}

// policy decides which versions may be served.
type policy struct {
	client    *oci.Client
	layout    addr.Layout
	require   map[string]trust.Policy // by kind
	manifests *manifests
	lost      *lostVersions
	verdicts  *cache.Cache[verdict] // repository@digest
	log       *slog.Logger
	now       func() time.Time
	checked   func(kind, result string)
}

func (p *policy) requirement(repository string) (item addr.Item, o trust.Policy, ok bool) {
	if len(p.require) == 0 {
		return item, o, false
	}
	if item, ok = p.layout.Parse(repository); !ok {
		return item, o, false
	}
	o, ok = p.require[item.Kind]
	return item, o, ok
}

// admitVersion fails for a manifest against the policy, or that cannot be checked.
func (p *policy) admitVersion(ctx context.Context, repository string, v addr.Version, manifest oci.Descriptor, l *Versions) error {
	item, o, ok := p.requirement(repository)
	if !ok {
		return nil
	}
	key := verdictKey(repository, manifest)
	fresh := cache.Policy{Fresh: verdictFresh, Stale: staleFor}
	known, ok := p.verdicts.Peek(key)
	switch {
	case ok && known.under != l.lastResign(v):
		p.verdicts.Forget(key)
	case ok && known.reason != "":
		fresh = cache.Policy{Fresh: refusalFresh, Stale: cache.Forever}
	}
	d, err := p.verdicts.Get(ctx, key, fresh, func(ctx context.Context, _ verdict, _ bool) (verdict, error) {
		return p.judgeVersion(ctx, item, repository, v, manifest, l, o)
	})
	if err != nil {
		return err
	}
	return d.refusedVersion(v)
}

func verdictKey(repository string, manifest oci.Descriptor) string {
	return repository + "@" + manifest.Digest.String()
}

func (p *policy) judgeVersion(ctx context.Context, item addr.Item, repository string, v addr.Version, manifest oci.Descriptor, l *Versions, o trust.Policy) (verdict, error) {
	r, err := p.client.Repo(repository)
	if err != nil {
		return verdict{}, err
	}
	m, err := r.Fetch(ctx, manifest.Digest.String())
	if err != nil {
		return verdict{}, err
	}
	o.Lean = true
	o.AllowYanked = true
	o.Now = p.now()
	_, err = trust.Verify(ctx, trust.Subject{
		Repository: r, Item: item, Name: p.layout.Below(repository), Version: v, Manifest: m, Events: l.Listing.Events,
	}, o)
	if err != nil && (!errors.Is(err, trust.ErrUntrusted) || ctx.Err() != nil || isUndecided(err)) {
		return verdict{}, err
	}
	if err != nil {
		p.checked(item.Kind, "refused")
		p.log.Warn("a version does not meet the policy and is not served",
			"repository", repository, "tag", v.Tag(), "digest", manifest.Digest, "reason", err)
		return verdict{err.Error(), l.lastResign(v)}, nil
	}
	p.checked(item.Kind, "passed")
	return verdict{}, nil
}

// isUndecided reports whether the registry failed, not the version.
func isUndecided(err error) bool {
	return slices.ContainsFunc([]error{oci.ErrUnavailable, oci.ErrRateLimited, oci.ErrDenied, oci.ErrUnauthenticated},
		func(e error) bool { return errors.Is(err, e) })
}

// screenVersions removes versions from a list that do not fulfil the policy. One that passed
// earlier stays until it is requested, which checks it again.
func (p *policy) screenVersions(ctx context.Context, repository string, l *Versions) error {
	if _, _, ok := p.requirement(repository); !ok {
		return nil
	}
	reasons := make([]error, len(l.Listed))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(checkParallel)
	for i, v := range l.Listed {
		g.Go(func() (err error) {
			reasons[i], err = p.reason(ctx, repository, v, l)
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
		if e, dangling := errors.AsType[*danglingError](reasons[i]); dangling {
			p.lost.addDangling(repository, v, e.other)
			continue
		}
		l.refuse(v, reasons[i])
	}
	l.Listed = served
	return nil
}

// reason returns why a listed version is not served, or nil. A lost or foreign one keeps no other
// from the list.
func (p *policy) reason(ctx context.Context, repository string, v addr.Version, l *Versions) (reason, err error) {
	manifest, err := p.manifests.manifestAt(ctx, repository, v, l)
	if err == nil {
		if known, ok := p.verdicts.Peek(verdictKey(repository, manifest)); ok && known == (verdict{under: l.lastResign(v)}) {
			return nil, nil
		}
		err = p.admitVersion(ctx, repository, v, manifest, l)
	}
	_, refusal := errors.AsType[*RefusedError](err)
	if _, dangling := errors.AsType[*danglingError](err); dangling || refusal {
		return err, nil
	}
	if errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrCorrupt) {
		p.log.Warn("version could not be checked against the policy; not served", "repository", repository, "tag", v.Tag(), "reason", err)
		return newRefused("version %s cannot be checked: %v", v, err), nil
	}
	if err != nil {
		return nil, fmt.Errorf("check version %s: %w", v, err)
	}
	return nil, nil
}

// forgetVerdict drops the verdict for a reference to a digest, as of a signature.
func (p *policy) forgetVerdict(repository, reference string) {
	const hexLen = 64
	hex, ok := strings.CutPrefix(strings.Replace(reference, ":", "-", 1), "sha256-")
	if ok && len(hex) >= hexLen {
		p.verdicts.Forget(verdictKey(repository, oci.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, hex[:hexLen])}))
	}
}

// keyIDRE matches an OpenPGP key ID, or a version 4 fingerprint, which ends with the ID.
var keyIDRE = text.Pattern(`^([0-9A-F]{24})?[0-9A-F]{16}$`)

// RevokedKeys are the IDs of keys that are not trusted, whatever is stored.
type RevokedKeys struct{ ids []string }

// ParseRevokedKeys parses IDs of 16 and fingerprints of 40 hex digits, any case, spaced as by gpg.
func ParseRevokedKeys(texts []string) (RevokedKeys, error) {
	var r RevokedKeys
	for _, text := range texts {
		id := strings.ToUpper(strings.ReplaceAll(text, " ", ""))
		if !keyIDRE().MatchString(id) {
			return RevokedKeys{}, fmt.Errorf("revoked key %q must be an ID of 16 or a fingerprint of 40 hexadecimal digits", text)
		}
		r.ids = append(r.ids, id[len(id)-16:])
	}
	return r, nil
}

// Withdraw removes revoked keys from md; if no other made the signature, all, with an error: the
// version is unsigned until signed again.
func (r RevokedKeys) Withdraw(md *artifact.ProviderMetadata) error {
	if !slices.ContainsFunc(md.Keys, r.isRevoked) {
		return nil
	}
	stored := md.Keys
	md.Keys = nil
	var rest []signing.PublicKey
	left := slices.DeleteFunc(slices.Clone(stored), r.isRevoked)
	for _, k := range left {
		parsed, err := signing.ParsePublicKeys([]byte(k.ASCIIArmor))
		if err != nil {
			return fmt.Errorf("key %s: %w", k.KeyID, err)
		}
		rest = append(rest, parsed...)
	}
	// Clients accept signatures that a key made before it expired.
	_, err := signing.Verify(md.ShasumsBytes, md.SignatureBytes, rest, signing.VerifyOptions{AllowExpired: true})
	if err != nil {
		return fmt.Errorf("this server has revoked its key: %w", err)
	}
	md.Keys = left
	return nil
}

func (r RevokedKeys) isRevoked(k artifact.SigningKey) bool {
	return slices.Contains(r.ids, strings.ToUpper(k.KeyID))
}
