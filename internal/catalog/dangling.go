// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// maxDanglingSkipped bounds the versions that LatestModule skips.
const maxDanglingSkipped = 8

// danglingError: a version tag without manifest, or of another artifact. It is [oci.ErrNotFound],
// no [RefusedError]: an origin may have the version.
type danglingError struct {
	error
	other digest.Digest // of the other artifact; "": there is no manifest
}

func (e *danglingError) Unwrap() error { return e.error }

// asDangling marks an error of reading a version tag if it is 404.
func asDangling(err error) error {
	if errors.Is(err, oci.ErrNotFound) {
		return &danglingError{error: err}
	}
	return err
}

// asOther marks an error of reading a version tag that is another artifact.
func asOther(err error, repository, tag string, m oci.Manifest) error {
	if errors.Is(err, artifact.ErrOther) {
		err = fmt.Errorf("%s:%s is not a module or provider: %w", repository, tag, oci.ErrNotFound)
		return &danglingError{err, m.Descriptor.Digest}
	}
	return err
}

// MarkDangling drops a version whose tag is 404 from the list; false: not there, or marked.
func (c *Catalog) MarkDangling(ctx context.Context, it addr.Item, v addr.Version) bool {
	l, err := c.Versions(ctx, it)
	return err == nil && dropDangling(c, it.Repository(c.layout), l, v, "")
}

// dropDangling removes v from the list l.
func dropDangling(c *Catalog, repository string, l *Versions, v addr.Version, other digest.Digest) bool {
	if !slices.Contains(l.Listed, v) || !c.lost.addDangling(repository, v, other) {
		return false
	}
	c.lists.Forget(repository)
	return true
}

// dropIfDangling returns err, and removes v from the list l if err is a danglingError.
func dropIfDangling(c *Catalog, repository string, l *Versions, v addr.Version, err error) error {
	if e, ok := errors.AsType[*danglingError](err); ok {
		dropDangling(c, repository, l, v, e.other)
	}
	return err
}

// maxForeign bounds the tags of a list that are looked at.
const maxForeign = 20

// dropForeign removes the tags of a module's repository that are no modules, such as those
// of a chart or an image. A version that okara published has a recorded time, and one that
// was read before is known: only others are looked at, the highest ones. Of a provider such
// a tag is removed once a request has read it: a look at each would cost two requests.
func dropForeign(ctx context.Context, c *Catalog, repository string, l *Versions) {
	if it, _ := c.layout.Parse(repository); it.Kind != addr.KindModule {
		return
	}
	known := c.lost.lostIn(repository)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(checkParallel)
	looked := 0
	for _, v := range l.Listed {
		_, lost := known[v]
		_, read := c.manifests.knownManifest(repository, v, l)
		if _, timed := l.Listing.Times[v.Tag()]; timed || lost || read || v.Edition() || looked == maxForeign {
			continue
		}
		looked++
		g.Go(func() error {
			_, err := c.manifests.manifestAt(ctx, repository, v, l)
			if e, ok := errors.AsType[*danglingError](err); ok && e.other != "" {
				c.lost.addDangling(repository, v, e.other)
			}
			return nil // a request for the version fails with the error
		})
	}
	_ = g.Wait()
}

// LatestModule returns the latest version of a module. It skips dangling versions.
func (c *Catalog) LatestModule(ctx context.Context, m addr.Module) (l *Versions, v addr.Version, mv *ModuleVersion, err error) {
	for range maxDanglingSkipped {
		if l, err = c.Versions(ctx, m.Item()); err != nil {
			break
		}
		var ok bool
		if v, ok = l.Latest(); !ok {
			return l, v, nil, fmt.Errorf("module %s has no versions: %w", m, oci.ErrNotFound)
		}
		mv, err = c.ModuleVersion(ctx, m, v)
		if _, dangling := errors.AsType[*danglingError](err); !dangling {
			break
		}
	}
	return l, v, mv, err
}
