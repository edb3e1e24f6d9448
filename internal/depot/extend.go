// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// previousIndexPrefix tags an index that was extended, for lock files and references by digest.
const previousIndexPrefix = "okara-index-"

// extend adds platforms that the stored version lacks. Only so a provider's tag moves: old
// descriptors stay byte for byte, and no lock file breaks.
func (x providerPush) extend(ctx context.Context, stored artifact.ProviderIndex) (Published, error) {
	if stored.Platforms == nil {
		return Published{}, fmt.Errorf("%s:%s is not a provider: %w", x.repo, x.version.Tag(), oci.ErrExists)
	}
	if !slices.Equal(stored.Protocols, x.plan.Protocols) {
		return Published{}, &ConflictError{Repository: x.repo.String(), Tag: x.version.Tag(), Stored: protocolsText(stored.Protocols), Offered: protocolsText(x.plan.Protocols)}
	}
	added, err := addedPackages(ctx, x.repo, x.plan, stored)
	if err != nil {
		return Published{}, err
	}
	if x.plan.metadata.DocsBytes == nil && stored.Metadata != nil { // the documentation of the first publication is kept
		md, err := artifact.ReadProviderMetadata(ctx, x.repo, stored)
		if err != nil {
			return Published{}, err
		}
		x.plan.metadata.Docs = md.Docs
	}
	return x.addPackages(ctx, stored, added)
}

// addPackages publishes stored platforms and new ones as the version, with the plan's metadata.
func (x providerPush) addPackages(ctx context.Context, stored artifact.ProviderIndex, added []Package) (Published, error) {
	out := Published{Repository: x.repo.String(), Tag: x.version.Tag(), ContentDigest: x.plan.contentDigest(), Warnings: x.plan.Warnings}
	if len(added) == 0 {
		out.Digest = stored.Index.Digest.String()
		out.Existing = true
		return x.pushMissing(ctx, out, stored)
	}
	pushed, err := x.buildArtifact(added, stored.Platforms)
	if err != nil {
		return Published{}, err
	}
	if _, err := x.repo.Push(ctx, pushed); err != nil {
		return Published{}, err
	}
	out.Digest = pushed.Root.Digest.String()
	for _, k := range added {
		out.Added = append(out.Added, k.Platform)
	}
	if err := x.o.Check.run(ctx, Candidate{Repo: x.repo, Root: pushed.Root, Packages: added, Signers: x.plan.signers}); err != nil {
		return out, err
	}
	warnings, err := x.moveIndex(ctx, stored.Index, pushed.Root)
	out.Warnings = append(slices.Clone(out.Warnings), warnings...)
	return out, err
}

// addedPackages returns packages that stored lacks; others must be equal, all in SHA256SUMS.
func addedPackages(ctx context.Context, r *oci.Repo, plan *ProviderPlan, stored artifact.ProviderIndex) ([]Package, error) {
	added := slices.Clone(plan.Packages)
	for _, have := range stored.Platforms {
		zip, err := artifact.ResolveProviderZip(ctx, r, have)
		if err != nil {
			return nil, err
		}
		if _, listed := plan.sums[have.Filename]; !listed {
			return nil, fmt.Errorf("%s is already published, and SHA256SUMS lacks it: to extend it, the folder must contain the zips of all platforms: %w", have.Platform, oci.ErrExists)
		}
		if err := signing.CheckListed(plan.sums, have, zip); err != nil {
			return nil, fmt.Errorf("%s is already published and cannot change: %w: %w", have.Platform, oci.ErrExists, err)
		}
		added = slices.DeleteFunc(added, func(k Package) bool { return k.Platform == have.Platform })
	}
	return added, nil
}

// errMoved means that a version was extended or removed since it was read.
var errMoved = fmt.Errorf("the version changed in the meantime; retry: %w", oci.ErrExists)

// retryWhileExtended repeats f while another publisher extends the version.
func retryWhileExtended(f func() (Published, error)) (out Published, err error) {
	for range 4 {
		if out, err = f(); !errors.Is(err, errMoved) {
			break
		}
	}
	return out, err
}

// moveIndex tags the old index and points the version at next. Of several that extend one index one
// writes, the others get errMoved. Signatures and reports stay with the old one, whose digest they
// name.
func (x providerPush) moveIndex(ctx context.Context, previous oci.Descriptor, next oci.Manifest) (warnings []string, err error) {
	old, err := x.repo.Fetch(ctx, previous.Digest.String())
	if err != nil {
		return nil, err
	}
	tag := previousIndexPrefix + previous.Digest.Encoded()[:candidateHex]
	if _, err := putOnce(ctx, x.repo, tag, old, false); errors.Is(err, ErrTaken) {
		return nil, fmt.Errorf("%s points to another index: %w", tag, oci.ErrExists)
	} else if err != nil {
		return nil, err
	}
	l := &Listing{Repository: x.repo, Kind: x.provider.Item().Kind}
	grow := func(l *Listing, _ oci.Manifest, _ bool) []string { return recordGrowth(ctx, l, x.version.Tag(), next) }
	l, warnings, err = putVersion(ctx, l, x.version, next, putOptions{replaces: previous.Digest, written: grow})
	if errors.Is(err, ErrTaken) {
		err = fmt.Errorf("%s:%s: %w", x.repo, x.version.Tag(), errMoved)
	}
	if slices.Contains(l.Tags, "sha256-"+previous.Digest.Encoded()+".sig") {
		warnings = append(warnings, fmt.Sprintf("the signatures of %s are for the previous index %s; sign it again", x.version, previous.Digest))
	}
	return warnings, err
}
