// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Bounds of an uploaded signature. An RSA key of 8192 bits makes 1 KiB; a payload is one line.
const (
	maxSignatureRequest = 128 << 10
	maxSignedPayload    = 64 << 10
	maxSignatureBytes   = 4 << 10
	maxSignatures       = 50 // of one version
)

// signatureDoc is a signature in cosign's form: it covers Payload, a simple-signing document.
type signatureDoc struct {
	Payload   []byte `json:"payload"`
	Signature []byte `json:"signature"`
}

func (p *publishing) signatures(w http.ResponseWriter, r call[stored]) error {
	repo, subject, err := p.signedSubject(r)
	if err != nil {
		return err
	}
	signatures, err := evidence.ReadCosignSignatures(r.Context(), repo, subject.Digest)
	if err != nil {
		return err
	}
	list := make([]signatureDoc, 0, len(signatures))
	for _, sig := range signatures {
		list = append(list, signatureDoc{sig.Payload, sig.Signature})
	}
	return writeDocument(w, http.StatusOK, map[string]any{
		"repository": httpserve.NameRegistry(r.Request, repo.String()), "tag": r.at.version.Tag(), "digest": subject.Digest, "signatures": list,
	})
}

func (p *publishing) signedSubject(r call[stored]) (*oci.Repo, oci.Descriptor, error) {
	repo, err := r.client.Repo(r.at.Repository(p.layout))
	if err != nil {
		return nil, oci.Descriptor{}, err
	}
	subject, err := repo.Resolve(r.Context(), r.at.version.Tag())
	return repo, subject, orNotFound(err, "%s %s %s", r.at.Kind, r.at, r.at.version)
}

// sign stores a signature over the digest that a publication returned. It only has to be about this
// version; whether its key is trusted is decided on verification. Sending it again has no effect.
func (p *publishing) sign(w http.ResponseWriter, r call[stored]) error {
	var in struct {
		Digest digest.Digest `json:"digest"`
		signatureDoc
	}
	if err := readJSON(r.Request, maxSignatureRequest, &in); err != nil {
		return err
	}
	if n := len(in.Payload); n == 0 || n > maxSignedPayload {
		return unprocessableError(fmt.Errorf("a payload of %d bytes, must be 1 to %d", n, maxSignedPayload))
	}
	if n := len(in.Signature); n == 0 || n > maxSignatureBytes {
		return unprocessableError(fmt.Errorf("a signature of %d bytes, must be 1 to %d", n, maxSignatureBytes))
	}
	repo, subject, err := p.signedSubject(r)
	if err != nil {
		return err
	}
	if subject.Digest != in.Digest {
		return &service.Error{Status: http.StatusConflict, Text: fmt.Sprintf("%s %s has the digest %s, the signature is for %q", r.at, r.at.version, subject.Digest, in.Digest)}
	}
	sig := evidence.CosignSignature{Payload: in.Payload, Signature: in.Signature}
	if err := sig.Names(repo.Name(), subject.Digest); err != nil {
		return unprocessableError(err)
	}
	have, err := evidence.ReadCosignSignatures(r.Context(), repo, subject.Digest)
	if err != nil {
		return err
	}
	answer := map[string]any{"repository": httpserve.NameRegistry(r.Request, repo.String()), "tag": r.at.version.Tag(), "digest": subject.Digest}
	if slices.ContainsFunc(have, func(h evidence.CosignSignature) bool {
		return bytes.Equal(h.Payload, sig.Payload) && bytes.Equal(h.Signature, sig.Signature)
	}) {
		return writeDocument(w, http.StatusOK, answer)
	}
	if len(have) >= maxSignatures {
		return unprocessableError(fmt.Errorf("%s %s already has %d signatures, the maximum", r.at, r.at.version, len(have)))
	}
	m, err := evidence.AddCosignSignature(r.Context(), repo, subject, sig)
	p.recordPublished(r.view, r.grant, r.at.String(), access.Change{Action: "sign", Version: r.at.version.String()}, depot.Published{Digest: m.Digest.String()}, err)
	if err != nil {
		return publishError(err)
	}
	r.catalog.Changed(r.at.Repository(p.layout), subject.Digest.String())
	answer["signature"] = m.Digest
	return writeDocument(w, http.StatusCreated, answer)
}
