// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TemplateVersion returns a version of a template of instances that is to be had,
// and its JSON: a [RefusedError] if it is not to be, [oci.ErrNotFound] if it is
// not there.
func (c *Catalog) TemplateVersion(ctx context.Context, name string, v addr.Version) (artifact.TemplateManifest, []byte, error) {
	var none artifact.TemplateManifest
	repository := addr.Item{Kind: addr.KindTemplate, Template: name}.Repository(c.layout)
	l, err := c.listed(ctx, repository)
	if err != nil {
		return none, nil, err
	}
	if err := l.Available(v); err != nil {
		return none, nil, err
	}
	r, err := c.client.Repo(repository)
	if err != nil {
		return none, nil, err
	}
	m, err := r.Fetch(ctx, v.Tag())
	if err != nil {
		return none, nil, err
	}
	t, err := artifact.ParseTemplate(m)
	if err == nil && (t.Name != name || t.Version != v || t.Layer.Size > artifact.MaxTemplate) {
		err = fmt.Errorf("it is version %s of %s, with %d bytes: %w", t.Version, t.Name, t.Layer.Size, oci.ErrCorrupt)
	}
	if err != nil {
		return none, nil, fmt.Errorf("%s:%s: %w", repository, v.Tag(), err)
	}
	if err := c.policy.admit(ctx, repository, v, m.Descriptor, l); err != nil {
		return none, nil, err
	}
	body, err := c.small(ctx, repository, t.Layer)
	return t, body, err
}
