// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// ProviderOptions configures how a provider is published.
type ProviderOptions struct {
	SignKey     *signing.Key        // signs SHA256SUMS if the directory has no signature; nil: a signature is required
	AlsoSign    []*signing.Key      // further signing keys during a key rotation
	Keys        []signing.PublicKey // keys that may have made the signature in the directory
	Annotations map[string]string   // added to the index
	Now         time.Time           // zero: time.Now
	Extend      bool                // add platforms that an existing version lacks
	Stored      []Package           // packages in the registry that were inspected on upload; not in the directory
	Check       Check               // asked before the version becomes visible; nil: none
	Manifest    []byte              // the registry manifest, if SHA256SUMS lists it and the directory does not have it; nil: none
	Protocols   []string            // instead of those in the registry manifest
	Docs        fs.FS               // Markdown in the form of the registries; nil: the directory docs, if any
}

// ProviderPlan is the checked content that publishing a directory would ship.
type ProviderPlan struct {
	Packages  []Package // sorted by platform
	Protocols []string
	Warnings  []string

	sums     signing.Sums
	signers  []string // IDs of the keys whose signature verified
	docsName string   // of the packed documentation, "" if there is none
	metadata artifact.ProviderMetadata
}

// Texts returns a release's files but packages: SHA256SUMS, and, if present, its signature,
// registry manifest and packed documentation.
func (p *ProviderPlan) Texts() map[string][]byte {
	m := p.metadata
	texts := map[string][]byte{m.ShasumsName: m.ShasumsBytes}
	if m.SignatureBytes != nil {
		texts[m.ShasumsName+".sig"] = m.SignatureBytes
	}
	if m.RegistryManifest != nil {
		texts["terraform-registry-manifest.json"] = m.RegistryManifest
	}
	if m.DocsBytes != nil {
		texts[p.docsName] = m.DocsBytes
	}
	return texts
}

// Keys returns the public keys that verify the signature, armored.
func (p *ProviderPlan) Keys() []string {
	var keys []string
	for _, k := range p.metadata.Keys {
		keys = append(keys, k.ASCIIArmor)
	}
	return keys
}

// PlanProvider checks a GoReleaser directory without a registry: zips, SHA256SUMS, its signature,
// and optionally the registry manifest.
func PlanProvider(ctx context.Context, dist fs.FS, p addr.Provider, v addr.Version, o ProviderOptions) (*ProviderPlan, error) {
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	d, err := readDist(dist, p, v, o.Stored)
	if err != nil {
		return nil, err
	}
	packages, err := d.packages(ctx)
	if err != nil {
		return nil, err
	}
	plan := &ProviderPlan{Packages: packages}
	for _, k := range packages {
		plan.warnUnasked(k.Platform)
	}
	if err := d.checkSums(plan); err != nil {
		return nil, err
	}
	if err := d.registryManifest(plan, o); err != nil {
		return nil, err
	}
	if err := d.checkSignature(plan, o); err != nil {
		return nil, err
	}
	return plan, d.findDocs(ctx, plan, o.Docs)
}

// warnUnasked warns about a platform for which no tool asks.
func (p *ProviderPlan) warnUnasked(t addr.Platform) {
	if meant := t.Meant(); meant != "" {
		p.Warnings = append(p.Warnings, fmt.Sprintf("no tool requests %s: %s", t, meant))
	}
}

// takeSums parses a SHA256SUMS and keeps it unchanged.
func (p *ProviderPlan) takeSums(name string, b []byte) (err error) {
	if p.sums, err = signing.ParseSums(b); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.metadata.ShasumsName = name
	p.metadata.ShasumsBytes = b
	return nil
}

// makeSums creates the SHA256SUMS of the packages.
func (p *ProviderPlan) makeSums(name string) {
	p.sums = signing.Sums{}
	for _, k := range p.Packages {
		p.sums[k.Filename] = k.SHA256
	}
	p.metadata.ShasumsName = name
	p.metadata.ShasumsBytes = p.sums.Bytes()
}

// takeSignature verifies a signature over SHA256SUMS and keeps it unchanged.
func (p *ProviderPlan) takeSignature(signature []byte, keys []signing.PublicKey, o signing.VerifyOptions) error {
	signer, err := signing.Verify(p.metadata.ShasumsBytes, signature, keys, o)
	if err != nil {
		return fmt.Errorf("signature of %s: %w", p.metadata.ShasumsName, err)
	}
	p.Warnings = append(p.Warnings, trust.ExpiryWarning(signer, o.Now)...)
	if signer.Weak != "" {
		p.Warnings = append(p.Warnings, signer.Weak)
	}
	p.signers = []string{signer.ID}
	p.metadata.SignatureBytes = signature
	p.metadata.Keys = trust.ServedKeys(keys, o.Now)
	return nil
}

// PublishProvider stores a directory as a version. The same zips again succeed without a push;
// others are a *ConflictError.
func (d *Depot) PublishProvider(ctx context.Context, dist fs.FS, p addr.Provider, v addr.Version, o ProviderOptions) (Published, error) {
	r, err := d.Repo(p.Item().Repository(d.o.Layout))
	if err != nil {
		return Published{}, err
	}
	plan, err := PlanProvider(ctx, dist, p, v, o)
	if err != nil {
		return Published{}, fmt.Errorf("publish %s %s: %w", p, v, err)
	}
	return pushPlan(ctx, d, providerPush{repo: r, provider: p, version: v, plan: plan, o: o, progress: d.o.Progress})
}

// pushPlan publishes a checked plan, and lists it in the catalog.
func pushPlan(ctx context.Context, d *Depot, x providerPush) (Published, error) {
	defer d.lock(x.repo.String())()
	out, err := retryWhileExtended(func() (Published, error) { return x.push(ctx) })
	if x.provider.Hostname != "" {
		err = WithoutNext(err)
	}
	if err != nil {
		return Published{}, fmt.Errorf("publish %s %s: %w", x.provider, x.version, err)
	}
	out.Warnings = append(out.Warnings, listInCatalog(ctx, d, x.provider.Item(), "")...)
	return out, nil
}

// providerPush is the push of one version of a provider to its repository.
type providerPush struct {
	repo     *oci.Repo
	provider addr.Provider
	version  addr.Version
	plan     *ProviderPlan
	o        ProviderOptions
	progress Progress
	listing  *Listing // from before; nil: mirrored
}

// push pushes missing content, and the version tag last.
func (x providerPush) push(ctx context.Context) (Published, error) {
	r := x.repo
	v := x.version
	plan := x.plan
	out := Published{Repository: r.String(), Tag: v.Tag(), ContentDigest: plan.contentDigest(), Warnings: plan.Warnings}
	l, err := ReadListing(ctx, r, x.provider.Item().Kind, nil)
	if err != nil {
		return Published{}, err
	}
	x.listing = l
	stored, err := storedProvider(ctx, r, out.Tag)
	if err != nil {
		return Published{}, err
	}
	if stored != nil && x.o.Extend {
		return x.extend(ctx, *stored)
	}
	if stored != nil {
		return x.completeProvider(ctx, l, out, *stored)
	}
	if err := l.Taken(v); err != nil {
		return Published{}, err
	}
	artifact, err := x.buildArtifact(plan.Packages, nil)
	if err != nil {
		return Published{}, err
	}
	if _, err := r.Push(ctx, artifact); err != nil {
		return Published{}, err
	}
	out.Digest = artifact.Root.Digest.String()
	if err := x.o.Check.run(ctx, Candidate{Repo: r, Root: artifact.Root, Packages: plan.Packages, Signers: plan.signers}); err != nil {
		return out, err
	}
	finished, warnings, err := putContent(ctx, l, v, artifact.Root, putOptions{})
	out.Digest = finished.Digest.String()
	out.Warnings = append(out.Warnings, warnings...)
	if !errors.Is(err, ErrTaken) {
		return out, err
	}
	stored, err = storedProvider(ctx, r, out.Tag)
	if err == nil && stored != nil {
		return x.completeProvider(ctx, l, out, *stored)
	}
	return Published{}, errors.Join(oci.ErrExists, err)
}

// buildArtifact builds manifests and collects blobs. Platforms of have, pushed before, come first.
func (x providerPush) buildArtifact(packages []Package, have []artifact.ProviderPlatform) (oci.Artifact, error) {
	p := x.provider
	plan := x.plan
	index := artifact.ProviderIndex{
		Version: x.version, Protocols: plan.Protocols, Signature: artifact.SignatureVerified, Annotations: maps.Clone(x.o.Annotations), Platforms: slices.Clone(have),
	}
	if plan.metadata.SignatureBytes == nil {
		index.Signature = artifact.SignatureNone
	}
	var a oci.Artifact
	for _, k := range packages {
		target, err := artifact.NewProviderTarget(k.descriptor(), k.Filename)
		if err != nil {
			return oci.Artifact{}, err
		}
		if k.fsys != nil {
			a.Blobs = append(a.Blobs, x.progress.watchUpload(k.blob(), k.Filename))
		}
		a.Children = append(a.Children, target)
		index.Platforms = append(index.Platforms, artifact.ProviderPlatform{
			Platform: k.Platform, Filename: k.Filename, Zh: k.SHA256, H1: k.H1, Size: k.Size, Manifest: target.Descriptor,
		})
	}
	metadata, blobs, err := artifact.NewProviderMetadata(plan.metadata)
	if err != nil {
		return oci.Artifact{}, err
	}
	a.Blobs = append(a.Blobs, blobs...)
	a.Children = append(a.Children, metadata)
	a.Root, err = artifact.NewProviderIndex(p.Item().Kind, p, index, metadata)
	return a, err
}

// contentDigest identifies the set of zips.
func (p *ProviderPlan) contentDigest() string {
	sums := signing.Sums{}
	for _, k := range p.Packages {
		sums[k.Platform.String()] = k.SHA256
	}
	return sumsDigest(sums)
}

func sumsDigest(s signing.Sums) string {
	sum := sha256.Sum256(s.Bytes())
	return "sha256:" + hex.EncodeToString(sum[:])
}

// storedProvider returns the index under the tag, nil if there is no such tag.
func storedProvider(ctx context.Context, r *oci.Repo, tag string) (*artifact.ProviderIndex, error) {
	m, err := r.Fetch(ctx, tag)
	if err != nil {
		return nil, oci.IgnoreNotFound(err)
	}
	parsed, err := artifact.ParseProviderIndex(m)
	if err != nil {
		return &artifact.ProviderIndex{Index: m.Descriptor}, nil // an artifact of another kind counts as other content
	}
	return &parsed, nil
}

// completeProvider completes out if the stored provider has its zips and protocols, and
// otherwise returns the conflict. What the registry has lost is pushed again.
func (x providerPush) completeProvider(ctx context.Context, l *Listing, out Published, stored artifact.ProviderIndex) (Published, error) {
	sums, grows := signing.Sums{}, true
	for _, p := range stored.Platforms {
		zip, err := artifact.ResolveProviderZip(ctx, l.Repository, p)
		if err != nil {
			return Published{}, err
		}
		sums[p.Platform.String()] = zip.Digest.Encoded()
		grows = grows && x.plan.sums[p.Filename] == zip.Digest.Encoded()
	}
	if have := sumsDigest(sums); have != out.ContentDigest {
		conflict := l.conflictWith(x.version, have, out.ContentDigest)
		conflict.Grows = grows
		return Published{}, conflict
	}
	if !slices.Equal(stored.Protocols, x.plan.Protocols) {
		return Published{}, l.conflictWith(x.version, protocolsText(stored.Protocols), protocolsText(x.plan.Protocols))
	}
	out.Digest = stored.Index.Digest.String()
	out.Existing = true
	out.Warnings = append(out.Warnings, l.WarnYanked(x.version)...)
	out.Warnings = append(out.Warnings, l.completeTime(ctx, x.version)...)
	return x.pushMissing(ctx, out, stored)
}

func protocolsText(protocols []string) string { return "protocols " + strings.Join(protocols, ", ") }
