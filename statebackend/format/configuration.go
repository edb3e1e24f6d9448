// SPDX-License-Identifier: Apache-2.0

package format

import (
	"context"
	"fmt"

	digest "github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// A configuration that was uploaded for a run is an archived working directory.
const (
	artifactConfiguration = "application/vnd.okara.configuration.v1"
	MediaConfiguration    = "application/vnd.okara.configuration.v1.tar+gzip"

	// MaxConfiguration bounds the only layer of a configuration, in bytes.
	MaxConfiguration = 256 << 20

	annConfiguration = "vnd.okara.configuration.id"
)

// ConfigurationTag names an upload of a record. It contains the digest of the manifest, so no later
// push replaces the content: of two tags with one ID neither is accepted.
type ConfigurationTag struct {
	Record   string // id of an instance, or of another object that has runs
	ID       string // 16 hex digits
	Manifest digest.Digest
}

func (t ConfigurationTag) String() string {
	return "cv-" + t.Record + "-" + t.ID + "-" + t.Manifest.Encoded()
}

var configurationTagRE = text.Pattern(`^cv-([a-z0-9]{1,40})-([0-9a-f]{16})-([0-9a-f]{64})$`)

// parseConfigurationTag is the reverse of String; false for other tags.
func parseConfigurationTag(tag string) (ConfigurationTag, bool) {
	m := configurationTagRE().FindStringSubmatch(tag)
	if m == nil {
		return ConfigurationTag{}, false
	}
	return ConfigurationTag{Record: m[1], ID: m[2], Manifest: digest.NewDigestFromEncoded(digest.SHA256, m[3])}, true
}

// PutConfiguration stores an upload, whose layer is a tar.gz; the same bytes may be stored again.
// If there is another upload of its ID, before or afterwards, the error is [oci.ErrExists].
func PutConfiguration(ctx context.Context, r *oci.Repo, record, id string, layer oci.Blob) (ConfigurationTag, error) {
	layer.MediaType = MediaConfiguration
	ann := map[string]string{annConfiguration: record + "-" + id} // so that no two uploads share a manifest: manifests are deleted by digest
	m, err := artifact.NewImage(artifactConfiguration, ann, layer.Descriptor)
	if err != nil {
		return ConfigurationTag{}, err
	}
	t := ConfigurationTag{record, id, m.Digest}
	if there, err := t.isStoredAlone(ctx, r); err != nil || there {
		return t, err
	}
	if err := artifact.EnsureBlobs(ctx, r, layer); err != nil {
		return t, err
	}
	if err := r.PutTag(ctx, t.String(), m); err != nil {
		return t, err
	}
	_, err = t.isStoredAlone(ctx, r)
	return t, err
}

// isStoredAlone reports whether this upload is stored, and fails if another one has its ID.
func (t ConfigurationTag) isStoredAlone(ctx context.Context, r *oci.Repo) (there bool, err error) {
	list, err := Configurations(ctx, r, t.Record)
	if err != nil {
		return false, err
	}
	for _, other := range list {
		if other.ID == t.ID && other != t {
			return false, fmt.Errorf("configuration %s of %s was already uploaded: %w", t.ID, t.Record, oci.ErrExists)
		}
		there = there || other == t
	}
	return there, nil
}

// ReadConfiguration returns the layer of an upload. Another kind of manifest is [oci.ErrCorrupt].
func ReadConfiguration(ctx context.Context, r *oci.Repo, t ConfigurationTag) (oci.Descriptor, error) {
	m, err := r.Fetch(ctx, t.Manifest.String())
	if err != nil {
		return oci.Descriptor{}, err
	}
	image, err := m.Image()
	if err != nil {
		return oci.Descriptor{}, err
	}
	named := image.ArtifactType == artifactConfiguration && image.Annotations[annConfiguration] == t.Record+"-"+t.ID
	oneUpload := len(image.Layers) == 1 && image.Layers[0].MediaType == MediaConfiguration && image.Layers[0].Size <= MaxConfiguration
	if !named || !oneUpload {
		return oci.Descriptor{}, fmt.Errorf("%s@%s is not configuration %s of %s: %w", r, t.Manifest, t.ID, t.Record, oci.ErrCorrupt)
	}
	return image.Layers[0], nil
}

// Configurations lists the uploads of a record; none if the repository does not exist.
func Configurations(ctx context.Context, r *oci.Repo, record string) (list []ConfigurationTag, err error) {
	for tag, err := range r.Tags(ctx) {
		if err != nil {
			return nil, oci.IgnoreNotFound(err)
		}
		if t, ok := parseConfigurationTag(tag); ok && t.Record == record {
			list = append(list, t)
		}
	}
	return list, nil
}
