// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// A template of instances has one layer in HCL's JSON syntax. Its tag, a version, is written once.
const (
	artifactTemplate = "application/vnd.okara.template.v1"
	mediaTemplate    = "application/vnd.okara.template.v1+json"

	// MaxTemplate bounds the layer, in bytes.
	MaxTemplate = 64 << 10
)

// TemplateManifest is one version of a template.
type TemplateManifest struct {
	Manifest oci.Manifest
	Name     string // namespace/name
	Version  addr.Version
	Layer    oci.Descriptor
}

func newTemplate(name string, v addr.Version, body []byte) (oci.Manifest, oci.Blob, error) {
	if len(body) > MaxTemplate {
		return oci.Manifest{}, oci.Blob{}, fmt.Errorf("template %s is %d bytes, the limit is %d: %w", name, len(body), MaxTemplate, oci.ErrTooLarge)
	}
	blob := oci.BytesBlob(mediaTemplate, body)
	m, err := NewImage(artifactTemplate, map[string]string{
		AnnTitle: name, AnnVersion: v.String(), AnnKind: addr.KindTemplate, annAddress: name, AnnOkaraVersion: v.String(),
	}, blob.Descriptor)
	return m, blob, err
}

// ParseTemplate reads the manifest of a template; [oci.ErrCorrupt] for any other.
func ParseTemplate(m oci.Manifest) (TemplateManifest, error) {
	image, err := m.Image()
	if err != nil {
		return TemplateManifest{}, err
	}
	if image.ArtifactType != artifactTemplate || len(image.Layers) != 1 || image.Layers[0].MediaType != mediaTemplate {
		return TemplateManifest{}, fmt.Errorf("manifest %s is not a template: %w", m.Descriptor.Digest, oci.ErrCorrupt)
	}
	out := TemplateManifest{Manifest: m, Name: image.Annotations[annAddress], Layer: image.Layers[0]}
	if out.Version, err = addr.ParseVersion(image.Annotations[AnnOkaraVersion]); err != nil {
		return TemplateManifest{}, fmt.Errorf("template %s: %w: %w", m.Descriptor.Digest, err, oci.ErrCorrupt)
	}
	return out, nil
}

// PutTemplate publishes a version of a template. existing reports that the same content was there
// before; other content under the tag gives [oci.ErrExists].
func PutTemplate(ctx context.Context, r *oci.Repo, name string, v addr.Version, body []byte) (d oci.Descriptor, existing bool, err error) {
	m, blob, err := newTemplate(name, v, body)
	if err != nil {
		return d, false, err
	}
	switch have, err := r.Resolve(ctx, v.Tag()); {
	case err == nil && have.Digest == m.Digest:
		return have, true, nil
	case err == nil:
		return have, false, fmt.Errorf("%s:%s has different content: %w", r, v.Tag(), oci.ErrExists)
	case !errors.Is(err, oci.ErrNotFound):
		return d, false, err
	}
	if err := EnsureBlobs(ctx, r, blob); err != nil {
		return d, false, err
	}
	if err := r.PutManifest(ctx, m); err != nil {
		return d, false, err
	}
	if err := r.CheckHandedOut(ctx, m.Digest); err != nil {
		return d, false, err
	}
	putErr := r.PutTag(ctx, v.Tag(), m)
	have, err := r.Resolve(ctx, v.Tag())
	switch {
	case err == nil && have.Digest == m.Digest: // also if the answer to the PUT was lost
		return have, false, nil
	case err == nil: // another writer was first
		return have, false, fmt.Errorf("%s:%s has different content: %w", r, v.Tag(), oci.ErrExists)
	}
	return d, false, errors.Join(putErr, err)
}
