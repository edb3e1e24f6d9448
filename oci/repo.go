// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// Repo is one repository of a registry. It is safe for concurrent use.
type Repo struct{ conn conn }

// Host returns the registry, "host[:port]".
func (r *Repo) Host() string { return r.conn.c.host }

// Name returns the repository's path without the host.
func (r *Repo) Name() string { return r.conn.name }

// String returns "host[:port]/path".
func (r *Repo) String() string { return r.conn.c.host + "/" + r.conn.name }

// CallerHeader is where okara's registry names the caller of a request, escaped as in a query.
const CallerHeader = "Okara-Caller"

// Caller returns the name by which the registry knows this client, as answered to a write; or "".
func (r *Repo) Caller() string {
	if name := r.conn.c.caller.Load(); name != nil {
		return *name
	}
	return ""
}

// Beside returns the registry's repository named like r with this suffix. It sends no request.
func (r *Repo) Beside(suffix string) (*Repo, error) {
	name := r.conn.name + suffix
	if !isName(name) || len(name) > maxName {
		return nil, fmt.Errorf("repository name %q: %s, at most %d characters", name, nameRule, maxName)
	}
	return &Repo{conn{c: r.conn.c, name: name, s: r.conn.c.session(name)}}, nil
}

// Artifact is a manifest with everything that it refers to.
type Artifact struct {
	Blobs    []Blob
	Children []Manifest // of an index
	Root     Manifest   // zero: only blobs are pushed
	New      bool       // the registry has few of the blobs: small ones are sent without a HEAD
}

const (
	// pushParallel is how many blobs of one artifact are pushed at the same time.
	pushParallel = 4
	// maxUnasked is the size up to which sending a blob costs no more than a HEAD.
	maxUnasked = 64 << 10
)

// Push stores the artifact by digest, and its children as [Repo.PutPart] does, and returns its
// root, which has no tag yet. It skips blobs that are there, and can be repeated.
func (r *Repo) Push(ctx context.Context, a Artifact) (Descriptor, error) {
	if err := pushBlobs(ctx, r, a); err != nil || a.Root.Bytes == nil {
		return Descriptor{}, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(pushParallel)
	for _, m := range a.Children {
		g.Go(func() error { return r.PutPart(gctx, m) })
	}
	if err := g.Wait(); err != nil {
		return Descriptor{}, err
	}
	if err := r.PutManifest(ctx, a.Root); err != nil {
		return Descriptor{}, err
	}
	return a.Root.Descriptor, nil
}

func pushBlobs(ctx context.Context, r *Repo, a Artifact) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(pushParallel)
	seen := map[string]bool{}
	empty := EmptyBlob().Digest // most repositories have it
	for _, b := range a.Blobs {
		if d := b.Digest.String(); !seen[d] {
			seen[d] = true
			g.Go(func() error {
				if a.New && b.Size <= maxUnasked && b.Digest != empty {
					return r.PushBlob(gctx, b)
				}
				_, err := r.EnsureBlob(gctx, b)
				return err
			})
		}
	}
	return g.Wait()
}
