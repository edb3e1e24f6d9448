// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// A sigstore bundle is the signature format of cosign 3: a referrer with one layer, a JSON document
// with an in-toto statement in a signed envelope (DSSE). An annotation marks attestations. All
// bundle versions have the fields that are read here.
const (
	artifactBundle = "application/vnd.dev.sigstore.bundle.v0.3+json"
	bundlePrefix   = "application/vnd.dev.sigstore.bundle" // prefix of the media type of every version
	annPredicate   = "dev.sigstore.bundle.predicateType"
	predicateSign  = "https://sigstore.dev/cosign/sign/v1"
	maxBundle      = 128 << 10
	maxSubjects    = 100
)

// signs reports whether the annotations of a bundle, if any, describe no attestation.
func signs(annotations map[string]string) bool {
	kind := annotations[annPredicate]
	return kind == "" || kind == predicateSign
}

func readBundle(ctx context.Context, r *oci.Repo, d oci.Descriptor) (CosignSignature, error) {
	b, err := r.ReadBlob(ctx, d, maxBundle)
	if err != nil {
		return CosignSignature{}, err
	}
	return parseBundle(b)
}

// parseBundle reads a bundle with one signature, of a statement of that; else [oci.ErrCorrupt].
func parseBundle(b []byte) (CosignSignature, error) {
	var doc struct {
		MediaType string          `json:"mediaType"`
		Material  json.RawMessage `json:"verificationMaterial"`
		Envelope  struct {
			Payload    []byte `json:"payload"`
			Type       string `json:"payloadType"`
			Signatures []struct {
				Sig []byte `json:"sig"`
			} `json:"signatures"`
		} `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return CosignSignature{}, fmt.Errorf("bundle: %v: %w", err, oci.ErrCorrupt)
	}
	e := doc.Envelope
	switch {
	case !strings.HasPrefix(doc.MediaType, bundlePrefix):
		return CosignSignature{}, fmt.Errorf("bundle of type %q: %w", text.Excerpt(doc.MediaType), oci.ErrCorrupt)
	case e.Type != ReportInToto || len(e.Signatures) != 1:
		return CosignSignature{}, fmt.Errorf("bundle with %d signatures over %q: %w", len(e.Signatures), text.Excerpt(e.Type), oci.ErrCorrupt)
	}
	if _, err := parseStatement(e.Payload); err != nil {
		return CosignSignature{}, err
	}
	var key struct {
		Hint *struct{} `json:"publicKey"` // untrusted
	}
	if err := json.Unmarshal(doc.Material, &key); err != nil {
		return CosignSignature{}, fmt.Errorf("bundle: %v: %w", err, oci.ErrCorrupt)
	}
	if key.Hint != nil {
		doc.Material = nil
	}
	// The pre-authentication encoding of DSSE 1.0.
	signed := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.Type), e.Type, len(e.Payload), e.Payload)
	return CosignSignature{Payload: e.Payload, Signature: e.Signatures[0].Sig, Envelope: signed, Certified: doc.Material}, nil
}

// parseStatement returns the digests of the subjects of a statement that is a signature.
func parseStatement(payload []byte) ([]digest.Digest, error) {
	var doc struct {
		Type      string `json:"_type"`
		Predicate string `json:"predicateType"`
		Subject   []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if err := json.Unmarshal(payload, &doc); err != nil {
		return nil, fmt.Errorf("statement: %v: %w", err, oci.ErrCorrupt)
	}
	if !strings.HasPrefix(doc.Type, "https://in-toto.io/Statement/") || doc.Predicate != predicateSign || len(doc.Subject) > maxSubjects {
		return nil, fmt.Errorf("statement %q with %d subjects: %w", text.Excerpt(doc.Predicate), len(doc.Subject), oci.ErrCorrupt)
	}
	var about []digest.Digest
	for _, s := range doc.Subject {
		about = append(about, digest.NewDigestFromEncoded(digest.SHA256, s.Digest["sha256"]))
	}
	return about, nil
}

func statementNames(payload []byte, manifest digest.Digest) error {
	about, err := parseStatement(payload)
	if err == nil && !slices.Contains(about, manifest) {
		err = fmt.Errorf("sigstore bundle is for %q: %w", text.Excerpt(fmt.Sprint(about)), artifact.ErrSignsOther)
	}
	return err
}
