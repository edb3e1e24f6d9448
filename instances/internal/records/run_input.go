// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"

	digest "github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
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

func inputTag(id string, d digest.Digest) (InstanceTag, error) {
	if err := d.Validate(); err != nil || d.Algorithm() != digest.SHA256 {
		return InstanceTag{}, fmt.Errorf("%q is not a digest of the input of a run: %w", d, oci.ErrCorrupt)
	}
	return InstanceTag{Kind: TagInput, ID: id, Hex: d.Encoded()[:inputDigits]}, nil
}

// PutInput writes the input of a run, again if need be, and returns its digest.
func (i InstanceRepo) PutInput(ctx context.Context, id string, b []byte) (string, error) {
	if len(b) > maxInput {
		return "", fmt.Errorf("the variables and addresses of a run have %d bytes, the limit is %d: %w", len(b), maxInput, oci.ErrTooLarge)
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
	return d.String(), i.putTag(ctx, layers{tag: tag, artifactType: artifactInput, blobs: []oci.Blob{blob}})
}

// Input reads what [InstanceRepo.PutInput] wrote, and checks its digest.
func (i InstanceRepo) Input(ctx context.Context, id, of string) ([]byte, error) {
	tag, err := inputTag(id, digest.Digest(of))
	if err != nil {
		return nil, err
	}
	b, err := i.readOnlyLayer(ctx, tag, artifactInput, mediaInput, maxInput)
	if err == nil && subtle.ConstantTimeCompare([]byte(digest.FromBytes(b)), []byte(of)) != 1 {
		err = fmt.Errorf("%s:%s is not the input of this run: %w", i.Repo, tag, oci.ErrCorrupt)
	}
	return b, err
}

// maxLast bounds how many reports are opened to find the last valid one.
const maxLast = 20

// LastRun reads the newest report of an instance that opens, trustworthy only if sealed, since its
// nonce is not known. Without one it is oci.ErrNotFound.
func (i InstanceRepo) LastRun(ctx context.Context, id string) (InstanceTag, RunResult, error) {
	list, err := i.Repo.Snapshot(ctx)
	if err != nil {
		return InstanceTag{}, RunResult{}, err
	}
	tags := instanceTags(list.Tags, TagRun, id)
	var damaged []error
	for _, t := range tags[:min(len(tags), maxLast)] {
		r, err := i.result(ctx, t)
		if err == nil || errors.Is(err, oci.ErrUnavailable) || ctx.Err() != nil {
			return t, r, err
		}
		damaged = append(damaged, err)
	}
	return InstanceTag{}, RunResult{}, fmt.Errorf("%s has no result of instance %s: %w", i.Repo, id, errors.Join(append(damaged, oci.ErrNotFound)...))
}

// SourceBefore returns the newest source, up to run n, with this archive digest.
func (i InstanceRepo) SourceBefore(ctx context.Context, id string, n int, archive string) (SourceManifest, error) {
	list, err := i.Repo.Snapshot(ctx)
	if err != nil {
		return SourceManifest{}, err
	}
	for _, t := range instanceTags(list.Tags, TagSource, id) {
		if t.N > n {
			continue
		}
		s, err := i.Source(ctx, id, t.N)
		if err != nil && !errors.Is(err, oci.ErrCorrupt) {
			return s, err
		}
		if err == nil && s.Zip.Digest.String() == archive {
			return s, nil
		}
	}
	return SourceManifest{}, fmt.Errorf("%s has no source of instance %s with archive %s: %w", i.Repo, id, archive, oci.ErrNotFound)
}

// instanceTags returns the tags of one kind and instance, newest first.
func instanceTags(tags []string, kind, id string) []InstanceTag {
	var all []InstanceTag
	for _, tag := range tags {
		if t, ok := ParseInstanceTag(tag); ok && t.Kind == kind && t.ID == id {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b InstanceTag) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(b.Attempt, a.Attempt))
	})
	return all
}

const entryTagPrefix = "i-"

// EntryTag returns the tag of an instance's entry in the queue.
func EntryTag(id string) string { return entryTagPrefix + id }

// EntryInstance returns the ID of the instance of an entry tag, "" for other tags.
func EntryInstance(tag string) string {
	id, ok := strings.CutPrefix(tag, entryTagPrefix)
	if !ok || addr.CheckInstance(id) != nil {
		return ""
	}
	return id
}

// AddInstanceEntry writes an instance's entry, always the same, into the queue r: where the state
// is, if no ledger names it any more.
func AddInstanceEntry(ctx context.Context, r *oci.Repo, id, template, repository string) error {
	if addr.CheckInstance(id) != nil {
		return fmt.Errorf("entry of instance %q: the ID is invalid", id)
	}
	return artifact.PutEntry(ctx, r, EntryTag(id), artifact.CatalogEntry{Kind: addr.KindInstance, Address: template, Repository: repository})
}

// ReadInstanceEntry reads an instance's entry from the queue r; template is its address.
func ReadInstanceEntry(ctx context.Context, r *oci.Repo, id string) (artifact.CatalogEntry, error) {
	e, err := artifact.ReadCatalogEntry(ctx, r, EntryTag(id))
	if err == nil && (e.Kind != addr.KindInstance || e.Repository == "") {
		err = fmt.Errorf("%s:%s is not an entry of an instance: %w", r, EntryTag(id), oci.ErrCorrupt)
	}
	return e, err
}
