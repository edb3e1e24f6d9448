// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"crypto/subtle"
	"fmt"

	digest "github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// The input of a workspace run, besides its configuration.
const (
	artifactInput = "application/vnd.okara.input.v1"
	mediaInput    = "application/vnd.okara.input.v1+json"

	TagInput = "input" // the run's variables and addresses
	maxInput = 1 << 20

	inputDigits = 16
)

var inputTagRE = text.Pattern(`^input-([a-z0-9]{1,40})-([0-9a-f]{16})$`)

// inputTag returns the tag of an input by its digest.
func inputTag(id string, d digest.Digest) (InstanceTag, error) {
	if err := d.Validate(); err != nil || d.Algorithm() != digest.SHA256 {
		return InstanceTag{}, fmt.Errorf("%q is no digest of the input of a run: %w", d, oci.ErrCorrupt)
	}
	return InstanceTag{Kind: TagInput, ID: id, Hex: d.Encoded()[:inputDigits]}, nil
}

// PutInput writes the input of a run and returns the digest for reading it. It may be
// repeated.
func (i InstanceRepo) PutInput(ctx context.Context, id string, b []byte) (string, error) {
	if len(b) > maxInput {
		return "", fmt.Errorf("the variables and addresses of a run have %d bytes, at most %d: %w", len(b), maxInput, oci.ErrTooLarge)
	}
	d := digest.FromBytes(b)
	tag, err := inputTag(id, d)
	if err != nil {
		return "", err
	}
	blob, err := artifact.Seal(ctx, i.Repo, i.Sealer, tag.String(), mediaInput, b)
	if err != nil {
		return "", err
	}
	return d.String(), i.put(ctx, layers{tag: tag, artifactType: artifactInput, blobs: []oci.Blob{blob}})
}

// Input reads what [InstanceRepo.PutInput] wrote, and checks its digest.
func (i InstanceRepo) Input(ctx context.Context, id, of string) ([]byte, error) {
	tag, err := inputTag(id, digest.Digest(of))
	if err != nil {
		return nil, err
	}
	b, err := i.only(ctx, tag, artifactInput, mediaInput, maxInput)
	if err == nil && subtle.ConstantTimeCompare([]byte(digest.FromBytes(b)), []byte(of)) != 1 {
		err = fmt.Errorf("%s:%s is not the input of this run: %w", i.Repo, tag, oci.ErrCorrupt)
	}
	return b, err
}
