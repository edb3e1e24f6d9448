// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Lacking is what a mirrored version lacks of wanted platforms.
type Lacking struct {
	Offered []addr.Platform // the origin has them
	Absent  []addr.Platform // the origin does not have them either
}

func (l Lacking) warnings() (warnings []string) {
	for _, t := range l.Absent {
		warnings = append(warnings, fmt.Sprintf("the origin has no package for %s", t))
	}
	return warnings
}

// LackingPlatforms compares a mirrored version with the wanted platforms; none are all of the
// origin. found is its index's digest; without one the error wraps oci.ErrNotFound. The origin is
// asked only if platforms are missing or wanted is empty.
func LackingPlatforms(ctx context.Context, r *oci.Repo, src Source, p addr.Provider, v addr.Version, wanted []addr.Platform) (found digest.Digest, l Lacking, err error) {
	stored, err := storedProvider(ctx, r, v.Tag())
	if err != nil {
		return "", l, err
	}
	if stored == nil {
		return "", l, fmt.Errorf("%s:%s: %w", r, v.Tag(), oci.ErrNotFound)
	}
	l, err = lackingOf(ctx, *stored, src, p, v, wanted)
	return stored.Index.Digest, l, err
}

// lackingOf is LackingPlatforms for an index that was read.
func lackingOf(ctx context.Context, stored artifact.ProviderIndex, src Source, p addr.Provider, v addr.Version, wanted []addr.Platform) (l Lacking, err error) {
	if stored.Platforms == nil {
		return l, nil // an artifact of another kind
	}
	if missing := withoutStored(wanted, stored); len(wanted) > 0 && len(missing) == 0 {
		return l, nil
	}
	offered, err := wantedPlatforms(ctx, src, p, v, nil)
	if err != nil {
		return l, err
	}
	if len(wanted) == 0 {
		wanted = offered
	}
	for _, t := range withoutStored(wanted, stored) {
		if slices.Contains(offered, t) {
			l.Offered = append(l.Offered, t)
		} else {
			l.Absent = append(l.Absent, t)
		}
	}
	return l, nil
}

// withoutStored returns the platforms that an index does not have.
func withoutStored(platforms []addr.Platform, x artifact.ProviderIndex) []addr.Platform {
	return slices.DeleteFunc(slices.Clone(platforms), func(t addr.Platform) bool {
		return slices.ContainsFunc(x.Platforms, func(have artifact.ProviderPlatform) bool { return have.Platform == t })
	})
}

func platformsOf(x artifact.ProviderIndex) []addr.Platform {
	var platforms []addr.Platform
	for _, p := range x.Platforms {
		platforms = append(platforms, p.Platform)
	}
	return platforms
}

// mirrorAgain compares a mirrored version with its origin, if wanted, and adds what it lacks.
func mirrorAgain(ctx context.Context, d *Depot, x providerPush, src Source, stored artifact.ProviderIndex, o MirrorOptions) (Published, error) {
	out := Published{Repository: x.repo.String(), Tag: x.version.Tag(), Digest: stored.Index.Digest.String(), Existing: true}
	lacking, err := lackingOf(ctx, stored, src, x.provider, x.version, o.Platforms)
	if err != nil {
		return out, err
	}
	out.Absent = lacking.Absent
	out.Warnings = lacking.warnings()
	if o.Compare || len(lacking.Offered) > 0 {
		if err := sameProvider(ctx, x.repo, stored, src, x.provider, x.version, o.Platforms); err != nil {
			return out, err
		}
	}
	if len(lacking.Offered) == 0 {
		return out, nil
	}
	grown, err := growMirror(ctx, d, x, src, stored, lacking.Offered, o)
	grown.Absent = out.Absent
	grown.Warnings = append(grown.Warnings, out.Warnings...)
	return grown, err
}

// growMirror adds an origin's platforms. A signed SHA256SUMS stays, and must list them with the
// origin's hashes, else a [*ConflictError]. Without a signature the origin's proof counts.
func growMirror(ctx context.Context, d *Depot, x providerPush, src Source, stored artifact.ProviderIndex, platforms []addr.Platform, o MirrorOptions) (Published, error) {
	packages, err := packagesOf(ctx, src, x.provider, x.version, platforms)
	if err != nil {
		return Published{}, err
	}
	md, err := artifact.ReadProviderMetadata(ctx, x.repo, stored)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return Published{}, err
	}
	signed := len(md.SignatureBytes) > 0
	if signed {
		x.plan, err = storedProof(stored, md, packages, o)
	} else {
		x.plan, err = planMirror(x.provider, x.version, packages, o)
	}
	if conflict, ok := errors.AsType[*ConflictError](err); ok {
		conflict.Repository = x.repo.String()
		conflict.Tag = x.version.Tag()
	}
	if err != nil {
		return Published{}, err
	}
	made := x.plan.sums == nil
	if err := x.transferZips(ctx, packages, d.o.TempDir); err != nil {
		return Published{}, err
	}
	defer d.lock(x.repo.String())()
	added := x.plan.Packages
	if made {
		if err := x.plan.remakeSums(ctx, x.repo, stored); err != nil {
			return Published{}, err
		}
	} else if added, err = addedPackages(ctx, x.repo, x.plan, stored); err != nil {
		return Published{}, err
	}
	return x.addPackages(ctx, stored, added)
}

// storedProof returns the plan for packages in the signed SHA256SUMS.
func storedProof(stored artifact.ProviderIndex, md artifact.ProviderMetadata, packages []upstream.Package, o MirrorOptions) (*ProviderPlan, error) {
	plan := &ProviderPlan{Protocols: stored.Protocols, metadata: md}
	var err error
	if plan.sums, err = signing.ParseSums(md.ShasumsBytes); err != nil {
		return nil, err
	}
	proof := upstream.Package{Shasums: md.ShasumsBytes, Signature: md.SignatureBytes}
	if err := o.checkTrusted(proof, signing.VerifyOptions{Now: time.Now(), AllowExpired: o.AllowExpired}); err != nil {
		return nil, err
	}
	for _, pkg := range packages {
		listed, ok := plan.sums[pkg.Filename]
		switch {
		case !ok && len(pkg.Shasums) > 0:
			return nil, &ConflictError{Stored: digest.FromBytes(md.ShasumsBytes).String(), Offered: digest.FromBytes(pkg.Shasums).String()}
		case !ok && pkg.Zh != "":
			return nil, &ConflictError{Stored: digest.FromBytes(md.ShasumsBytes).String(), Offered: digestOf(pkg.Zh).String()}
		case !ok:
			return nil, fmt.Errorf("SHA256SUMS of the mirrored version does not list %s: %w", pkg.Filename, signing.ErrSums)
		case pkg.Zh != "" && pkg.Zh != listed:
			return nil, &ConflictError{Stored: digestOf(listed).String(), Offered: digestOf(pkg.Zh).String()}
		}
	}
	return plan, nil
}

// remakeSums adds the stored packages to a SHA256SUMS that was made here.
func (p *ProviderPlan) remakeSums(ctx context.Context, r *oci.Repo, stored artifact.ProviderIndex) error {
	for _, have := range stored.Platforms {
		zip, err := artifact.ResolveProviderZip(ctx, r, have)
		if err != nil {
			return err
		}
		p.sums[have.Filename] = zip.Digest.Encoded()
	}
	p.metadata.ShasumsBytes = p.sums.Bytes()
	return nil
}

// HasGrown reports whether the index of digest next is that of before with more platforms.
func HasGrown(ctx context.Context, r *oci.Repo, before, next string) (bool, error) {
	old, err := storedProvider(ctx, r, before)
	if err != nil || old == nil {
		return false, err
	}
	grown, err := storedProvider(ctx, r, next)
	if err != nil || grown == nil {
		return false, err
	}
	same := old.Metadata != nil && grown.Metadata != nil && old.Metadata.Digest == grown.Metadata.Digest
	return keepsPlatforms(*old, *grown) && (same || old.Signature == artifact.SignatureNone), nil
}
