// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Release is an origin's version of a provider, its proof verified and no package fetched.
type Release struct {
	Provider  addr.Provider
	Version   addr.Version
	Protocols []string
	Platforms []artifact.ProviderPlatform // Filename and Zh; H1 if the origin announces it; no size
	Metadata  artifact.ProviderMetadata   // empty if the origin publishes no SHA256SUMS

	src Source
}

// OpenRelease asks for platforms that o wants and the origin has. SHA256SUMS must list all, signed
// by a key of the origin; with o.AllowUnsigned the hashes that it announces suffice.
func OpenRelease(ctx context.Context, src Source, p addr.Provider, v addr.Version, o MirrorOptions) (*Release, error) {
	platforms, err := src.Platforms(ctx, p, v)
	if err != nil {
		return nil, err
	}
	if len(o.Platforms) > 0 {
		platforms = slices.DeleteFunc(platforms, func(t addr.Platform) bool { return !slices.Contains(o.Platforms, t) })
	}
	if len(platforms) == 0 {
		return nil, fmt.Errorf("%s %s: the origin has no package for the requested platforms: %w", p, v, oci.ErrNotFound)
	}
	first, err := src.Package(ctx, p, v, platforms[0])
	if err != nil {
		return nil, err
	}
	r := &Release{Provider: p, Version: v, src: src}
	plan, err := planMirror(p, v, []upstream.Package{first}, o)
	switch {
	case err != nil:
	case plan.metadata.SignatureBytes != nil:
		err = r.takeSigned(plan, first, platforms)
	default:
		err = r.takeUnsigned(ctx, platforms)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", p, v, err)
	}
	r.Protocols = plan.Protocols
	return r, nil
}

// takeSigned takes the hashes of all platforms from the signed SHA256SUMS of the plan.
func (r *Release) takeSigned(plan *ProviderPlan, first upstream.Package, platforms []addr.Platform) error {
	for _, t := range platforms {
		name := signing.PackageName(r.Provider, r.Version, t)
		zh, ok := plan.sums[name]
		if !ok {
			return fmt.Errorf("SHA256SUMS does not list %s: %w", name, signing.ErrSums)
		}
		r.Platforms = append(r.Platforms, artifact.ProviderPlatform{Platform: t, Filename: name, Zh: zh, H1: first.Others[t.String()]})
	}
	r.Metadata = plan.metadata
	r.Metadata.Shasums = describeBytes(artifact.MediaShasums, first.Shasums)
	r.Metadata.Signature = describeBytes(artifact.MediaShasumsSignature, first.Signature)
	return nil
}

func describeBytes(mediaType string, b []byte) oci.Descriptor {
	return oci.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
}

// takeUnsigned takes the hash that the origin announces for each platform.
func (r *Release) takeUnsigned(ctx context.Context, platforms []addr.Platform) error {
	packages, err := packagesOf(ctx, r.src, r.Provider, r.Version, platforms)
	if err != nil {
		return err
	}
	for _, k := range packages {
		if digestOf(k.Zh).Validate() != nil {
			return fmt.Errorf("the origin announces no SHA-256 of %s: %w", k.Filename, trust.ErrUnsigned)
		}
		r.Platforms = append(r.Platforms, artifact.ProviderPlatform{Platform: k.Platform, Filename: k.Filename, Zh: k.Zh, H1: k.H1})
	}
	return nil
}

// SignedBy fails unless a key that o trusts signed SHA256SUMS.
func (r *Release) SignedBy(o trust.Policy) error {
	if len(r.Metadata.SignatureBytes) == 0 {
		return fmt.Errorf("%s %s: %w", r.Provider, r.Version, trust.ErrUnsigned)
	}
	key, err := signing.Verify(r.Metadata.ShasumsBytes, r.Metadata.SignatureBytes, o.OpenPGP, signing.VerifyOptions{Now: time.Now(), AllowExpired: o.AllowExpired})
	if err == nil && key.Weak != "" {
		err = fmt.Errorf("%s: %w", key.Weak, trust.ErrUntrusted)
	}
	if err != nil {
		return fmt.Errorf("%s %s: SHA256SUMS: %w", r.Provider, r.Version, err)
	}
	return nil
}

// Open starts a package's download; size is -1 if not announced. The bytes are not verified: the
// caller must compare their hash with Zh.
func (r *Release) Open(ctx context.Context, t artifact.ProviderPlatform) (body io.ReadCloser, size int64, err error) {
	k, err := r.src.Package(ctx, r.Provider, r.Version, t.Platform)
	if err != nil {
		return nil, 0, err
	}
	if k.Zh != "" && k.Zh != t.Zh {
		return nil, 0, fmt.Errorf("%s: the origin announces SHA-256 %s, and the verified one is %s: %w", t.Filename, k.Zh, t.Zh, oci.ErrCorrupt)
	}
	if body, err = k.Open(ctx); err != nil {
		return nil, 0, err
	}
	if sized, ok := body.(interface{ Length() int64 }); ok {
		return body, sized.Length(), nil
	}
	return body, -1, nil
}

// MirrorRelease stores a release with all its platforms, as MirrorProvider does.
func (d *Depot) MirrorRelease(ctx context.Context, r *Release, o MirrorOptions) (Published, error) {
	o.Platforms = nil
	for _, t := range r.Platforms {
		o.Platforms = append(o.Platforms, t.Platform)
	}
	return d.MirrorProvider(ctx, r.src, r.Provider, r.Version, o)
}
