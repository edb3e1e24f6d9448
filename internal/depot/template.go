// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// PublishTemplate publishes a template version, unchanged JSON, once; else a [*ConflictError].
func (d *Depot) PublishTemplate(ctx context.Context, name string, v addr.Version, body []byte) (Published, error) {
	it := addr.Item{Kind: addr.KindTemplate, Template: name}
	repository := it.Repository(d.o.Layout)
	r, err := d.Repo(repository)
	if err != nil {
		return Published{}, err
	}
	defer d.lock(repository)()
	out := Published{Repository: r.String(), Tag: v.Tag(), ContentDigest: digest.FromBytes(body).String()}
	list, err := ReadListing(ctx, r, it.Kind, nil)
	if err != nil {
		return out, err
	}
	if e := list.Status(v).Yanked; e != nil {
		return out, &ConflictError{Repository: r.String(), Tag: v.Tag(), Offered: out.ContentDigest, Withdrawn: e}
	}
	put, existing, err := artifact.PutTemplate(ctx, r, name, v, body)
	if errors.Is(err, oci.ErrExists) {
		return out, &ConflictError{Repository: r.String(), Tag: v.Tag(), Stored: put.Digest.String(), Offered: out.ContentDigest}
	}
	if err != nil {
		return out, err
	}
	out.Digest = put.Digest.String()
	out.Existing = existing
	if !existing {
		out.Warnings = recordTime(ctx, r, out.Tag, time.Now(), oci.Manifest{Descriptor: put})
	}
	out.Warnings = append(out.Warnings, listInCatalog(ctx, d, it, "")...)
	return out, nil
}
