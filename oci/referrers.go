// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/text"
)

// Referrers lists the manifests with this subject, of one artifact type unless that is empty, by
// the referrers API or, without, the fallback tag of the specification.
func (r *Repo) Referrers(ctx context.Context, subject Descriptor, artifactType string) ([]Descriptor, error) {
	all, err := r.listReferrers(ctx, subject, artifactType)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnsupported) {
		all, err = r.fetchFallback(ctx, subject)
	}
	if err != nil {
		return nil, fmt.Errorf("referrers of %s: %w", subject.Digest, err)
	}
	return slices.DeleteFunc(all, func(d Descriptor) bool {
		return artifactType != "" && d.ArtifactType != artifactType
	}), nil
}

func (r *Repo) listReferrers(ctx context.Context, subject Descriptor, artifactType string) (all []Descriptor, err error) {
	q := request{method: http.MethodGet, path: "referrers/" + subject.Digest.String(), header: http.Header{"Accept": {ocispec.MediaTypeImageIndex}}}
	if artifactType != "" {
		q.query = url.Values{"artifactType": {artifactType}}
	}
	err = r.conn.readPages(ctx, q, MaxManifest, func(resp *http.Response, body []byte) error {
		// A registry that routes this path elsewhere does not have the API.
		if t := mediaType(resp.Header); t != ocispec.MediaTypeImageIndex {
			return fmt.Errorf("%w: returned %q", ErrUnsupported, text.Excerpt(t))
		}
		var page ocispec.Index
		err := decodePage(resp, body, &page)
		all = append(all, page.Manifests...)
		return err
	})
	return all, err
}

// fallbackTag is from the distribution specification 1.1, "Referrers Tag Schema".
func fallbackTag(subject Descriptor) string {
	return strings.ReplaceAll(subject.Digest.String(), ":", "-")
}

// fetchFallback reads the fallback index, in which artifact types may be wrong (seen at GHCR).
func (r *Repo) fetchFallback(ctx context.Context, subject Descriptor) ([]Descriptor, error) {
	m, err := r.Fetch(ctx, fallbackTag(subject))
	if err != nil {
		return nil, IgnoreNotFound(err)
	}
	i, err := m.Index()
	if err != nil {
		return nil, err
	}
	return i.Manifests, nil
}

// PutReferrer stores a manifest with this subject, and updates the fallback index if the registry
// does not support subjects. As specified, that takes no lock: of two concurrent writers one may be
// lost from the list, not the registry. The index is read back, and written again a few times.
func (r *Repo) PutReferrer(ctx context.Context, m Manifest, subject Descriptor) error {
	header, err := r.putManifest(ctx, m.Digest.String(), m)
	if err != nil {
		return err
	}
	if header.Get("OCI-Subject") != "" {
		return nil
	}
	for range fallbackTries {
		all, err := r.fetchFallback(ctx, subject)
		if err != nil {
			return fmt.Errorf("referrers of %s: %w", subject.Digest, err)
		}
		if slices.ContainsFunc(all, func(d Descriptor) bool { return d.Digest == m.Digest }) {
			return nil
		}
		index, err := NewIndex(ocispec.Index{Manifests: append(all, referrerDescriptor(m))})
		if err != nil {
			return err
		}
		if err := r.PutTag(ctx, fallbackTag(subject), index); err != nil && !errors.Is(err, ErrUncertain) {
			return fmt.Errorf("referrers of %s: %w", subject.Digest, err)
		}
	}
	return fmt.Errorf("referrers of %s: %w: the entry was lost from the index", subject.Digest, ErrUnavailable)
}

// fallbackTries is one more than the number of expected concurrent writers.
const fallbackTries = 4

// referrerDescriptor returns m for the index, with artifact type (or config type), annotations.
func referrerDescriptor(m Manifest) Descriptor {
	d := m.Descriptor
	var doc struct {
		ArtifactType string            `json:"artifactType"`
		Config       Descriptor        `json:"config"`
		Annotations  map[string]string `json:"annotations"`
	}
	if json.Unmarshal(m.Bytes, &doc) == nil {
		d.Annotations = doc.Annotations
		if d.ArtifactType = doc.ArtifactType; d.ArtifactType == "" {
			d.ArtifactType = doc.Config.MediaType
		}
	}
	return d
}
