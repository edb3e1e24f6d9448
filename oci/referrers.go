// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/text"
)

// Referrers lists the manifests whose subject is the given one, of one artifact
// type unless that is empty. It uses the referrers API, or the fallback tag of
// the specification if the registry has no such API.
func (r *Repo) Referrers(ctx context.Context, subject Descriptor, artifactType string) ([]Descriptor, error) {
	all, err := referrers{r}.byAPI(ctx, subject, artifactType)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnsupported) {
		all, err = referrers{r}.byTag(ctx, subject)
	}
	if err != nil {
		return nil, fmt.Errorf("referrers of %s: %w", subject.Digest, err)
	}
	return slices.DeleteFunc(all, func(d Descriptor) bool {
		return artifactType != "" && d.ArtifactType != artifactType
	}), nil
}

// referrers reads the referrers of manifests in a repository.
type referrers struct{ *Repo }

func (r referrers) byAPI(ctx context.Context, subject Descriptor, artifactType string) ([]Descriptor, error) {
	q := request{method: http.MethodGet, path: "referrers/" + subject.Digest.String(), header: http.Header{"Accept": {ocispec.MediaTypeImageIndex}}}
	if artifactType != "" {
		q.query = url.Values{"artifactType": {artifactType}}
	}
	var all []Descriptor
	seen := map[string]bool{}
	for range maxTagPages {
		page, next, err := r.page(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == nil || seen[next.String()] {
			return all, nil
		}
		seen[next.String()] = true
		q.url = next
	}
	return nil, fmt.Errorf("%w: more than %d pages", ErrTooLarge, maxTagPages)
}

func (r referrers) page(ctx context.Context, q request) ([]Descriptor, *url.URL, error) {
	resp, cancel, err := r.quick(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	defer cancel()
	defer resp.Body.Close()
	// A registry that routes this path elsewhere does not have the API.
	if t := mediaType(resp.Header); t != ocispec.MediaTypeImageIndex {
		return nil, nil, fmt.Errorf("%w: answered with %q", ErrUnsupported, text.Excerpt(t))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxManifest+1))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if len(body) > MaxManifest {
		return nil, nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxManifest)
	}
	var i ocispec.Index
	if err := json.Unmarshal(body, &i); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	next, err := nextPage(resp.Request.URL, strings.Join(resp.Header.Values("Link"), ", "))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return i.Manifests, next, nil
}

// fallbackTag returns the tag that lists referrers without the API
// (distribution specification 1.1, "Referrers Tag Schema").
func fallbackTag(subject Descriptor) string {
	return strings.ReplaceAll(subject.Digest.String(), ":", "-")
}

// byTag reads the fallback index. GHCR has been seen to write a wrong artifact
// type into it, so callers to which the type matters have to read the
// manifests.
func (r referrers) byTag(ctx context.Context, subject Descriptor) ([]Descriptor, error) {
	m, err := r.Fetch(ctx, fallbackTag(subject))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	i, err := m.Index()
	if err != nil {
		return nil, err
	}
	return i.Manifests, nil
}

// PutReferrer stores a manifest whose subject is the given one. If the registry
// does not support subjects, the fallback index is updated. As the
// specification describes, that index is read and written without a lock: of
// two concurrent writers one may be lost from the list, never from the
// registry. The index is read again after the write, and the write is repeated
// a few times.
func (r *Repo) PutReferrer(ctx context.Context, m Manifest, subject Descriptor) error {
	header, err := r.putManifest(ctx, m.Digest.String(), m)
	if err != nil {
		return err
	}
	if header.Get("OCI-Subject") != "" {
		return nil
	}
	for range fallbackTries {
		all, err := referrers{r}.byTag(ctx, subject)
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
	return fmt.Errorf("referrers of %s: %w: the index does not keep the entry", subject.Digest, ErrUnavailable)
}

// fallbackTries is one more than the number of expected concurrent writers.
const fallbackTries = 4

// referrerDescriptor returns the descriptor of a manifest for the index: with
// its artifact type, or else the type of its config, and its annotations.
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
