// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// candidate is an artifact that a check held back.
type candidate struct {
	Version addr.Version
	Tag     string
	Digest  string
}

// Candidates lists the artifacts in r that have no version tag yet.
func Candidates(ctx context.Context, r *oci.Repo) ([]candidate, error) {
	var out []candidate
	tags, err := r.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	published := map[string]bool{}
	for _, tag := range tags.Tags {
		published[tag] = true
	}
	for _, tag := range tags.Tags {
		if !strings.HasPrefix(tag, candidatePrefix) {
			continue
		}
		m, err := r.Fetch(ctx, tag)
		if err != nil {
			return nil, fmt.Errorf("reading %s:%s: %w", r, tag, err)
		}
		if v, ok := versionOf(m); ok && !published[v.Tag()] {
			out = append(out, candidate{Version: v, Tag: tag, Digest: m.Digest.String()})
		}
	}
	return out, nil
}

// versionOf parses the version in the annotations of a module or provider.
func versionOf(m oci.Manifest) (addr.Version, bool) {
	v, err := addr.ParseVersion(artifact.AnnotationsOf(m)[artifact.AnnOkaraVersion])
	return v, err == nil
}

// Approve gives a candidate its version's tag: that of digest, or the only one. The error wraps
// oci.ErrNotFound if there is none, and oci.ErrExists, naming them, if several differ and digest is
// "".
func (d *Depot) Approve(ctx context.Context, r *oci.Repo, v addr.Version, digest string) (Published, error) {
	all, err := Candidates(ctx, r)
	if err != nil {
		return Published{}, err
	}
	var found []string
	for _, c := range all {
		if c.Version == v && (digest == "" || c.Digest == digest) {
			found = append(found, c.Digest)
		}
	}
	switch len(found) {
	case 0:
		return Published{}, fmt.Errorf("%s has no candidate for version %s: %w", r, v, oci.ErrNotFound)
	case 1:
	default:
		return Published{}, fmt.Errorf("%s has several candidates for version %s (%s): %w", r, v, strings.Join(found, ", "), oci.ErrExists)
	}
	m, err := r.Fetch(ctx, found[0])
	if err != nil {
		return Published{}, err
	}
	defer d.lock(r.String())()
	it, _ := d.o.Layout.Parse(r.Name())
	l, err := ReadListing(ctx, r, it.Kind, nil)
	if err == nil {
		err = l.Taken(v)
	}
	if err != nil {
		return Published{}, err
	}
	out := Published{Repository: r.String(), Tag: v.Tag(), Digest: m.Digest.String()}
	if out.Warnings, err = PutVersion(ctx, l, v, m); errors.Is(err, ErrTaken) {
		return Published{}, l.conflictWith(v, "", m.Digest.String())
	} else if err != nil {
		return Published{}, err
	}
	if _, err := m.Image(); err == nil {
		out.Warnings = append(out.Warnings, MoveLatest(ctx, l)...)
	}
	return out, nil
}
