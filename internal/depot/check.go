// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/oci"
)

// Candidate is an artifact that the registry has by digest, without a version's tag yet.
type Candidate struct {
	Repo     *oci.Repo
	Root     oci.Manifest
	Module   *archive.Packed // of a module
	Packages []Package       // of a provider
	Signers  []string        // IDs of the keys that signed SHA256SUMS
}

// Check decides whether an artifact becomes its version. An error holds it back, with only a
// candidate tag, by which it can be approved.
type Check func(ctx context.Context, x Candidate) error

// HeldError means that a check held an artifact back, and says why.
type HeldError struct {
	Repository, Digest, Tag string // Tag is the candidate tag
	Err                     error
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s@%s is on hold: %v", e.Repository, e.Digest, e.Err)
}

func (e *HeldError) Unwrap() error { return e.Err }

const candidatePrefix = "okara-candidate-"

// candidateHex is the number of hex digits of the digest in a candidate tag.
const candidateHex = 12

// candidateTag returns the tag of an artifact that waits for approval.
func candidateTag(d digest.Digest) string { return candidatePrefix + d.Encoded()[:candidateHex] }

// run asks the check. A nil check approves everything.
func (c Check) run(ctx context.Context, x Candidate) error {
	if c == nil {
		return nil
	}
	err := c(ctx, x)
	if err == nil {
		return nil
	}
	held := &HeldError{Repository: x.Repo.String(), Digest: x.Root.Digest.String(), Tag: candidateTag(x.Root.Digest), Err: err}
	if perr := keepManifest(ctx, x.Repo, held.Tag, x.Root); perr != nil {
		return errors.Join(held, fmt.Errorf("tag the candidate: %w", perr))
	}
	return held
}
