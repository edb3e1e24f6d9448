// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Bounds of a signature that is sent over HTTP. An RSA key of 8192 bits makes
// signatures of 1 KiB, and a payload is one line of JSON.
const (
	maxSignatureRequest = 128 << 10
	maxSignedPayload    = 64 << 10
	maxSignatureBytes   = 4 << 10
	maxSignatures       = 50 // of one version
)

// signatureDoc is a signature in the form of cosign's: the payload is its
// simple-signing document, the signature is over those bytes.
type signatureDoc struct {
	Payload   []byte `json:"payload"`
	Signature []byte `json:"signature"`
}

// signable is a version that signatures can be about.
type signable struct {
	grant      access.Grant
	address    string
	version    addr.Version
	repository string
}

func (s *server) moduleSignatures(w http.ResponseWriter, r *http.Request) error {
	m, err := s.signableModule(r, access.Read)
	if err != nil {
		return err
	}
	return s.listSignatures(w, r, m)
}

func (s *server) providerSignatures(w http.ResponseWriter, r *http.Request) error {
	p, err := s.signableProvider(r, access.Read)
	if err != nil {
		return err
	}
	return s.listSignatures(w, r, p)
}

func (s *server) signModule(w http.ResponseWriter, r *http.Request) error {
	m, err := s.signableModule(r, access.Publish)
	if err != nil {
		return err
	}
	return s.addSignature(w, r, m)
}

func (s *server) signProvider(w http.ResponseWriter, r *http.Request) error {
	p, err := s.signableProvider(r, access.Publish)
	if err != nil {
		return err
	}
	return s.addSignature(w, r, p)
}

func (s *server) signableModule(r *http.Request, action access.Action) (signable, error) {
	m, g, err := s.moduleVersionOf(r, action)
	return signable{g, m.Module.String(), m.Version, s.o.Layout.Module(m.Module)}, err
}

func (s *server) signableProvider(r *http.Request, action access.Action) (signable, error) {
	p, v, repository, g, err := s.releaseOf(r, action)
	return signable{g, p.String(), v, repository}, err
}

// listSignatures answers what a signature has to be about, and those there are.
func (s *server) listSignatures(w http.ResponseWriter, r *http.Request, x signable) error {
	repo, subject, err := s.subject(r.Context(), x)
	if err != nil {
		return err
	}
	signatures, err := artifact.ReadCosignSignatures(r.Context(), repo, subject.Digest)
	if err != nil {
		return err
	}
	list := make([]signatureDoc, 0, len(signatures))
	for _, sig := range signatures {
		list = append(list, signatureDoc(sig))
	}
	return writeDocument(w, http.StatusOK, map[string]any{
		"repository": s.reference(r, repo.String()), "tag": x.version.Tag(), "digest": subject.Digest, "signatures": list,
	})
}

func (s *server) subject(ctx context.Context, x signable) (*oci.Repo, oci.Descriptor, error) {
	repo, err := s.o.Client.Repo(x.repository)
	if err != nil {
		return nil, oci.Descriptor{}, err
	}
	subject, err := repo.Resolve(ctx, x.version.Tag())
	return repo, subject, missing(err, "%s %s %s", x.grant.Kind(), x.address, x.version)
}

// addSignature stores a signature over the digest that a publication returned.
// Whether its key is to be trusted is for those who verify; here it has to be
// about this version. Sent again it is there already.
func (s *server) addSignature(w http.ResponseWriter, r *http.Request, x signable) error {
	var in struct {
		Digest digest.Digest `json:"digest"`
		signatureDoc
	}
	if err := s.readJSON(r, maxSignatureRequest, &in); err != nil {
		return err
	}
	if n := len(in.Payload); n == 0 || n > maxSignedPayload {
		return unprocessable(fmt.Errorf("a payload of %d bytes, want 1 to %d", n, maxSignedPayload))
	}
	if n := len(in.Signature); n == 0 || n > maxSignatureBytes {
		return unprocessable(fmt.Errorf("a signature of %d bytes, want 1 to %d", n, maxSignatureBytes))
	}
	repo, subject, err := s.subject(r.Context(), x)
	if err != nil {
		return err
	}
	if subject.Digest != in.Digest {
		return &service.Error{Status: http.StatusConflict, Text: fmt.Sprintf("%s %s has the digest %s, the signature is for %q", x.address, x.version, subject.Digest, in.Digest)}
	}
	sig := artifact.CosignSignature(in.signatureDoc)
	if err := sig.Names(repo.Name(), subject.Digest); err != nil {
		return unprocessable(err)
	}
	have, err := artifact.ReadCosignSignatures(r.Context(), repo, subject.Digest)
	if err != nil {
		return err
	}
	answer := map[string]any{"repository": s.reference(r, repo.String()), "tag": x.version.Tag(), "digest": subject.Digest}
	if slices.ContainsFunc(have, func(h artifact.CosignSignature) bool {
		return bytes.Equal(h.Payload, sig.Payload) && bytes.Equal(h.Signature, sig.Signature)
	}) {
		return writeDocument(w, http.StatusOK, answer)
	}
	if len(have) >= maxSignatures {
		return unprocessable(fmt.Errorf("%s %s has %d signatures, which is the most", x.address, x.version, len(have)))
	}
	m, err := artifact.AddCosignSignature(r.Context(), repo, subject, sig)
	s.published(x.grant, x.address, access.Change{Action: "sign", Version: x.version.String()}, depot.Published{Digest: m.Digest.String()}, err)
	if err != nil {
		return publishError(err)
	}
	answer["signature"] = m.Digest
	return writeDocument(w, http.StatusCreated, answer)
}
