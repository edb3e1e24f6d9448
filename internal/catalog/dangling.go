// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// maxDanglingSkipped bounds the versions that LatestModule passes over.
const maxDanglingSkipped = 8

// danglingError says that there is nothing under a version tag. It is
// [oci.ErrNotFound], not a [RefusedError]: an origin may have the version.
type danglingError struct{ error }

func (e *danglingError) Unwrap() error { return e.error }

// asDangling marks the error of asking for a version tag if it is 404.
func asDangling(err error) error {
	if errors.Is(err, oci.ErrNotFound) {
		return &danglingError{err}
	}
	return err
}

// MarkDangling takes a version out of the list whose tag is listed while its GET is 404,
// until that changes. It is false for one that is not in the list, or is known.
func (c *Catalog) MarkDangling(ctx context.Context, it addr.Item, v addr.Version) bool {
	repository := it.Repository(c.layout)
	l, err := c.versionLists().list(ctx, repository)
	return err == nil && c.versionLists().dangling(repository, l, v)
}

func (c versionLists) dangling(repository string, l *Versions, v addr.Version) bool {
	if !slices.Contains(l.Listed, v) || !c.lost.dangling(repository, v) {
		return false
	}
	c.lists.Forget(repository)
	return true
}

// passed is err, and takes v out of the list l if err says that there is nothing
// under its tag.
func (c versionLists) passed(repository string, l *Versions, v addr.Version, err error) error {
	if _, ok := errors.AsType[*danglingError](err); ok {
		c.dangling(repository, l, v)
	}
	return err
}

// LatestModule returns the latest version of a module. Dangling versions that it meets are
// passed over.
func (c *Catalog) LatestModule(ctx context.Context, m addr.Module) (l *Versions, v addr.Version, mv *ModuleVersion, err error) {
	for range maxDanglingSkipped {
		if l, err = c.Module(ctx, m); err != nil {
			break
		}
		var ok bool
		if v, ok = l.Latest(); !ok {
			return l, v, nil, fmt.Errorf("module %s has no version: %w", m, oci.ErrNotFound)
		}
		mv, err = c.ModuleVersion(ctx, m, v)
		if _, dangling := errors.AsType[*danglingError](err); !dangling {
			break
		}
	}
	return l, v, mv, err
}
