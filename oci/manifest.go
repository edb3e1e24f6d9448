// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/text"
)

// MaxManifest is the largest manifest that is written or read, which every registry must accept
// (distribution specification, "Pushing Manifests").
const MaxManifest = 4 << 20

// Manifest is a manifest's bytes, whose digest is its name: they are never encoded again.
type Manifest struct {
	Descriptor // MediaType, Digest, Size, ArtifactType
	Bytes      []byte
}

// Media types of Docker's manifests, which registries may serve.
const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// acceptManifests is the Accept header of reads; without it registries convert or refuse.
const acceptManifests = ocispec.MediaTypeImageManifest + ", " + ocispec.MediaTypeImageIndex + ", " + dockerManifest + ", " + dockerList

// NewManifest encodes an image manifest. Schema version and media type are filled in.
func NewManifest(m ocispec.Manifest) (Manifest, error) {
	m.Versioned = specs.Versioned{SchemaVersion: 2}
	m.MediaType = ocispec.MediaTypeImageManifest
	if m.Layers == nil {
		m.Layers = []Descriptor{}
	}
	return encodeManifest(m, m.MediaType, m.ArtifactType)
}

// NewIndex encodes an index. Schema version and media type are filled in.
func NewIndex(i ocispec.Index) (Manifest, error) {
	i.Versioned = specs.Versioned{SchemaVersion: 2}
	i.MediaType = ocispec.MediaTypeImageIndex
	if i.Manifests == nil {
		i.Manifests = []Descriptor{}
	}
	return encodeManifest(i, i.MediaType, i.ArtifactType)
}

func encodeManifest(v any, mediaType, artifactType string) (Manifest, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return Manifest{}, fmt.Errorf("encode manifest: %w", err)
	}
	if len(b) > MaxManifest {
		return Manifest{}, fmt.Errorf("encode manifest: %w: %d bytes, the limit is %d", ErrTooLarge, len(b), MaxManifest)
	}
	return Manifest{
		Descriptor: Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b)), ArtifactType: artifactType},
		Bytes:      b,
	}, nil
}

// Image decodes an image manifest; anything else is ErrCorrupt.
func (m Manifest) Image() (ocispec.Manifest, error) {
	var doc struct {
		ocispec.Manifest
		Manifests json.RawMessage `json:"manifests"`
	}
	if err := m.decode(&doc, ocispec.MediaTypeImageManifest, dockerManifest); err != nil {
		return ocispec.Manifest{}, err
	}
	// One document must not be read as two kinds of manifest by two readers.
	if doc.Manifests != nil {
		return ocispec.Manifest{}, m.corruptManifest("an image manifest with a list of manifests")
	}
	if err := m.checkType(doc.MediaType, doc.SchemaVersion); err != nil {
		return ocispec.Manifest{}, err
	}
	return doc.Manifest, checkDescriptors(m, append([]Descriptor{doc.Config}, doc.Layers...))
}

// Index decodes an index; anything else is ErrCorrupt.
func (m Manifest) Index() (ocispec.Index, error) {
	var doc struct {
		ocispec.Index
		Layers json.RawMessage `json:"layers"`
	}
	if err := m.decode(&doc, ocispec.MediaTypeImageIndex, dockerList); err != nil {
		return ocispec.Index{}, err
	}
	if doc.Layers != nil {
		return ocispec.Index{}, m.corruptManifest("an index with layers")
	}
	if err := m.checkType(doc.MediaType, doc.SchemaVersion); err != nil {
		return ocispec.Index{}, err
	}
	return doc.Index, checkDescriptors(m, doc.Manifests)
}

func (m Manifest) decode(v any, types ...string) error {
	for _, t := range types {
		if m.MediaType == t {
			if err := json.Unmarshal(m.Bytes, v); err != nil {
				return m.corruptManifest("%v", err)
			}
			return nil
		}
	}
	return m.corruptManifest("media type %q instead of %q", text.Excerpt(m.MediaType), types[0])
}

func (m Manifest) checkType(mediaType string, schema int) error {
	if mediaType != "" && mediaType != m.MediaType {
		return m.corruptManifest("declared as %q but served as %q", text.Excerpt(mediaType), m.MediaType)
	}
	if schema != 2 {
		return m.corruptManifest("schema version %d", schema)
	}
	return nil
}

func checkDescriptors(m Manifest, ds []Descriptor) error {
	for _, d := range ds {
		if err := d.Digest.Validate(); err != nil {
			return m.corruptManifest("digest %q: %v", text.Excerpt(d.Digest.String()), err)
		}
		if d.Size < 0 {
			return m.corruptManifest("size %d of %s", d.Size, d.Digest)
		}
	}
	return nil
}

func (m Manifest) corruptManifest(format string, args ...any) error {
	return fmt.Errorf("manifest %s: %w: %s", m.Digest, ErrCorrupt, fmt.Sprintf(format, args...))
}

// Resolve returns the descriptor of a tag or digest with one HEAD; without digest or size in the
// answer, with a GET. ArtifactType is set only after that.
func (r *Repo) Resolve(ctx context.Context, ref string) (Descriptor, error) {
	if err := r.checkRef(ref); err != nil {
		return Descriptor{}, err
	}
	resp, err := r.conn.sendAndDiscard(ctx, request{method: http.MethodHead, path: "manifests/" + ref, header: http.Header{"Accept": {acceptManifests}}})
	if errors.Is(err, ErrDenied) { // the answer to a HEAD does not say why
		m, err := r.Fetch(ctx, ref)
		return m.Descriptor, err
	}
	if err != nil {
		return Descriptor{}, err
	}
	d := Descriptor{
		MediaType: mediaType(resp.Header),
		Digest:    digest.Digest(resp.Header.Get("Docker-Content-Digest")),
		Size:      resp.ContentLength,
	}
	if isDigest(ref) && d.Digest == "" {
		d.Digest = digest.Digest(ref)
	}
	if d.Digest.Validate() != nil || d.Size < 0 || !isManifestType(d.MediaType) {
		m, err := r.Fetch(ctx, ref)
		return m.Descriptor, err
	}
	if isDigest(ref) && d.Digest != digest.Digest(ref) && d.Digest.Algorithm() == digest.Digest(ref).Algorithm() {
		return Descriptor{}, fmt.Errorf("manifest %s of %s: %w: the registry returned %s", ref, r, ErrCorrupt, d.Digest)
	}
	return d, nil
}

// CheckHandedOut reports whether the registry serves a manifest that it has, before its tag is
// written: ErrDenied if a policy withholds it, for example because it is unsigned.
func (r *Repo) CheckHandedOut(ctx context.Context, d digest.Digest) error {
	if _, err := r.Resolve(ctx, d.String()); WithheldByPolicy(err) {
		return fmt.Errorf("the registry accepts this but does not serve it: %w", err)
	}
	return nil // any other error is reported by later reads
}

// checkRef refuses a reference that no registry can have.
func (r *Repo) checkRef(ref string) error {
	if isDigest(ref) {
		if err := digest.Digest(ref).Validate(); err != nil {
			return fmt.Errorf("reference %q of %s: %w: %w", ref, r, ErrNotFound, err)
		}
		return nil
	}
	if !isTag(ref) {
		return fmt.Errorf("reference %q of %s: %w: not a valid tag name", ref, r, ErrNotFound)
	}
	return nil
}

func mediaType(h http.Header) string {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

func isManifestType(t string) bool {
	switch t {
	case ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, dockerManifest, dockerList:
		return true
	}
	return false
}

// Fetch reads the manifest that a tag or digest names with one GET and verifies its digest.
func (r *Repo) Fetch(ctx context.Context, ref string) (Manifest, error) {
	if err := r.checkRef(ref); err != nil {
		return Manifest{}, err
	}
	resp, body, err := r.conn.readAnswer(ctx, request{
		method: http.MethodGet, path: "manifests/" + ref,
		header: http.Header{"Accept": {acceptManifests}, "Accept-Encoding": {"identity"}},
	}, MaxManifest)
	switch {
	case resp != nil && isHTML(resp.Header):
		return Manifest{}, notRegistry(resp)
	case err != nil:
		return Manifest{}, err
	}
	return verifyBytes(r, ref, resp, body)
}

// verifyBytes compares the bytes with the requested digest, or else that in the answer.
func verifyBytes(r *Repo, ref string, resp *http.Response, body []byte) (Manifest, error) {
	want := digest.Digest(resp.Header.Get("Docker-Content-Digest"))
	if isDigest(ref) {
		want = digest.Digest(ref)
	}
	d := digest.FromBytes(body)
	if want != "" {
		if want.Validate() != nil {
			return Manifest{}, fmt.Errorf("manifest %s of %s: %w: digest %q", ref, r, ErrCorrupt, text.Excerpt(want.String()))
		}
		if got := want.Algorithm().FromBytes(body); got != want {
			return Manifest{}, fmt.Errorf("manifest %s of %s: %w: has digest %s instead of %s", ref, r, ErrCorrupt, got, want)
		}
		d = want
	}
	var doc struct {
		MediaType    string `json:"mediaType"`
		ArtifactType string `json:"artifactType"`
	}
	if err := json.Unmarshal(body, &doc); err != nil || !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return Manifest{}, fmt.Errorf("manifest %s of %s: %w: %s returned something other than a manifest", ref, r, ErrCorrupt, r.conn.c.host)
	}
	m := Manifest{Descriptor: Descriptor{MediaType: mediaType(resp.Header), Digest: d, Size: int64(len(body)), ArtifactType: doc.ArtifactType}, Bytes: body}
	if !isManifestType(m.MediaType) && doc.MediaType != "" {
		m.MediaType = doc.MediaType
	}
	return m, nil
}

// PutManifest stores a manifest under its digest only. It can be repeated safely.
func (r *Repo) PutManifest(ctx context.Context, m Manifest) error {
	_, err := r.putManifest(ctx, m.Digest.String(), m)
	return err
}

// PartPrefix begins the tags of manifests that an index names, before 32 hex digits of the digest.
const PartPrefix = "okara-part-"

// PartTag returns the tag of a manifest that an index names.
func PartTag(d digest.Digest) string { return PartPrefix + d.Encoded()[:32] }

// PutPart stores a manifest that an index names: under its tag with [Options].TagParts, else its
// digest only. It can be repeated safely.
func (r *Repo) PutPart(ctx context.Context, m Manifest) error {
	_, err := r.putManifest(ctx, r.partRef(m.Digest), m)
	return err
}

// HasPart reports with one HEAD whether there is a manifest as [Repo.PutPart] stores it.
func (r *Repo) HasPart(ctx context.Context, d Descriptor) (bool, error) {
	have, err := r.Resolve(ctx, r.partRef(d.Digest))
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return have.Digest == d.Digest, err
}

// TagsParts reports whether parts have a tag of their own, see [Options].TagParts.
func (r *Repo) TagsParts() bool { return r.conn.c.o.TagParts }

func (r *Repo) partRef(d digest.Digest) string {
	if r.TagsParts() {
		return PartTag(d)
	}
	return d.String()
}

func (r *Repo) putManifest(ctx context.Context, ref string, m Manifest) (http.Header, error) {
	if len(m.Bytes) > MaxManifest {
		return nil, fmt.Errorf("manifest %s of %s: %w: %d bytes, the limit is %d", ref, r, ErrTooLarge, len(m.Bytes), MaxManifest)
	}
	q := request{
		method: http.MethodPut, path: "manifests/" + ref, header: http.Header{"Content-Type": {m.MediaType}},
		body: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(m.Bytes)), nil }, size: int64(len(m.Bytes)),
	}
	resp, err := r.conn.sendAndDiscard(ctx, q)
	for attempt := 1; isHalfLinked(err) && attempt < r.conn.c.o.Retry.MaxAttempts; attempt++ {
		if text.Wait(ctx, backoff(freshBackoff, r.conn.c.o.Retry.MaxBackoff, attempt)) != nil {
			break // the refusal is more useful than the end of the context
		}
		resp, err = r.conn.sendAndDiscard(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	r.conn.c.transport.recent.addPush(r.conn.name, m.Digest)
	return resp.Header, nil
}

func isHalfLinked(err error) bool {
	e, ok := errors.AsType[*ResponseError](err)
	return ok && e.Status < 500 && halfLinked(e.Codes)
}

// Delete removes a manifest by its digest, and usually its tags, with one DELETE. It returns
// ErrUnsupported if the registry refuses and ErrUncertain if the answer is lost.
func (r *Repo) Delete(ctx context.Context, d Descriptor) error {
	if err := d.Digest.Validate(); err != nil {
		return fmt.Errorf("delete %q of %s: %w", d.Digest, r, err)
	}
	r.conn.c.transport.recent.forgetPush(r.conn.name, d.Digest)
	return r.delete(ctx, d.Digest.String())
}
