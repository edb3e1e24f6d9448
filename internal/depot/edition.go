// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// Policy decides what publishing other content under an existing version does.
type Policy string

const (
	// PolicyImmutable refuses it.
	PolicyImmutable Policy = "immutable"
	// PolicyEditions, for modules, makes new content the version; the old is kept as an edition.
	PolicyEditions Policy = "editions"
)

// ParsePolicy parses the name of a policy; "" is PolicyImmutable.
func ParsePolicy(s string) (Policy, error) {
	switch p := Policy(s); p {
	case "":
		return PolicyImmutable, nil
	case PolicyImmutable, PolicyEditions:
		return p, nil
	}
	return "", fmt.Errorf("invalid policy %q: must be %s or %s", s, PolicyImmutable, PolicyEditions)
}

// policyFor returns the policy for a version: the name of an edition never moves.
func (p Policy) policyFor(v addr.Version) Policy {
	if v.Edition() {
		return PolicyImmutable
	}
	return p
}

// pushEdition points the version at m, which is there by digest. Contents before and after get
// edition names first, so nothing is collected, and the last of concurrent ones wins, the other is
// an edition. A new version is written as any, against rivals, or finished if begun; root is its
// manifest. Each move is recorded: a number is what it moved to last.
func pushEdition(ctx context.Context, l *Listing, v addr.Version, m oci.Manifest) (root oci.Manifest, warnings []string, err error) {
	before, err := l.Repository.Fetch(ctx, v.Tag())
	if errors.Is(err, oci.ErrNotFound) {
		if root, warnings, err = putContent(ctx, l, v, m, putOptions{edition: true}); !errors.Is(err, ErrTaken) {
			return root, warnings, err
		}
		before, err = l.Repository.Fetch(ctx, v.Tag())
	}
	if err != nil || before.Digest == m.Digest {
		return m, nil, err
	}
	warnings, err = moveVersion(ctx, l, v, before, m)
	return m, warnings, err
}

func moveVersion(ctx context.Context, l *Listing, v addr.Version, before, m oci.Manifest) (warnings []string, err error) {
	r := l.Repository
	edition, err := tagEdition(ctx, l, v, m)
	if err != nil {
		return nil, err
	}
	if _, err := tagEdition(ctx, l, v, before); err != nil {
		return nil, err
	}
	putErr := r.PutTag(ctx, v.Tag(), m)
	after, err := r.Resolve(ctx, v.Tag())
	switch {
	case err != nil:
		return nil, errors.Join(putErr, err)
	case after.Digest == m.Digest:
		return recordMove(ctx, r, v.Tag(), edition.Tag(), l.now(), m), nil
	case putErr != nil && !errors.Is(putErr, oci.ErrUncertain):
		return nil, putErr
	}
	return []string{fmt.Sprintf("another publisher moved %s to %s at the same time; yours was stored as an edition", v, after.Digest)}, nil
}

// tagEdition gives m its edition's name. Another manifest was published so, or 48 bits collide.
func tagEdition(ctx context.Context, l *Listing, v addr.Version, m oci.Manifest) (addr.Version, error) {
	edition, err := v.WithEdition(m.Digest.Encoded())
	if err == nil && !l.hasVersion(edition) {
		err = l.checkNumber(ctx, edition, m, false)
	}
	if err != nil {
		return edition, err
	}
	if err = keepManifest(ctx, l.Repository, edition.Tag(), m); errors.Is(err, ErrTaken) {
		err = fmt.Errorf("edition %s points to another manifest: %w", edition, oci.ErrExists)
	}
	return edition, err
}
