// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// docsBytes bounds the memory for documentation of providers.
const docsBytes = 64 << 20

// ProviderDocs are the pages of a version, or the reason why they cannot be shown.
type ProviderDocs struct {
	*description.Docs
	Broken error // the layer cannot be read; then Docs is nil
}

func (d *ProviderDocs) size() int {
	if d.Docs == nil {
		return 256
	}
	return d.Size()
}

// ReadDocs returns the documentation of a served version, or nil.
func ReadDocs(ctx context.Context, c *Catalog, p addr.Provider, v addr.Version) (*description.Docs, error) {
	pv, err := c.ProviderVersion(ctx, p, v)
	if err != nil {
		return nil, err
	}
	docs, err := c.Docs(ctx, pv)
	if err != nil || docs == nil {
		return nil, err
	}
	return docs.Docs, docs.Broken
}

// Docs returns a version's documentation, read once a repository and digest, or nil.
func (c *Catalog) Docs(ctx context.Context, pv *ProviderVersion) (*ProviderDocs, error) {
	d := pv.Meta.Docs
	if d == nil {
		return nil, nil
	}
	return c.docs.Get(ctx, pv.Repository+"@"+d.Digest.String(), alwaysFresh(), func(ctx context.Context, _ *ProviderDocs, _ bool) (*ProviderDocs, error) {
		if d.Size > artifact.MaxProviderDocs {
			return &ProviderDocs{Broken: fmt.Errorf("%d bytes: %w", d.Size, oci.ErrTooLarge)}, nil
		}
		r, err := c.client.Repo(pv.Repository)
		if err != nil {
			return nil, err
		}
		packed, err := r.ReadBlob(ctx, *d, artifact.MaxProviderDocs)
		if err != nil {
			return nil, err
		}
		docs, err := description.ReadDocs(bytes.NewReader(packed))
		if errors.Is(err, description.ErrDocs) {
			return &ProviderDocs{Broken: err}, nil
		}
		if err != nil {
			return nil, err
		}
		return &ProviderDocs{Docs: docs}, nil
	})
}
