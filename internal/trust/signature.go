// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyless"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Results of a [Signature].
const (
	Trusted    = "trusted"     // by a key of the policy
	Consistent = "consistent"  // valid, by a key that is stored beside it
	NotChecked = "not checked" // its key is not available here
	Invalid    = "invalid"     // the signature does not verify, or is about something else
)

// Signature is one signature of a version, for display.
type Signature struct {
	Kind      string // "cosign" or "OpenPGP"
	Key       string // fingerprint of an OpenPGP key, [CosignKeyID] of another; "": unknown
	By        string // owner according to the key or certificate, "" if it names none
	Algorithm string
	Result    string // one of the results above
	Detail    string // why
}

// CosignKeyID identifies a key: SHA-256 over its DER form, in the format of
// fingerprints of `ssh-keygen -l`.
func CosignKeyID(key *ecdsa.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(der)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// Signatures lists every signature of a version with its result under the keys
// of a policy. Unlike [Verify] it does not stop at the first failure. For a
// module only the descriptor of the manifest is needed.
func Signatures(ctx context.Context, s Subject, o Policy) ([]Signature, error) {
	var out []Signature
	for c, err := range s.referrers().Signatures(ctx) {
		if err == nil && c.Envelope != nil && s.Manifest.Bytes == nil {
			s.Manifest, err = s.Repository.Fetch(ctx, s.Manifest.Digest.String())
		}
		if err != nil {
			return nil, err
		}
		out = append(out, cosignSignature(s, c, o))
	}
	if s.Item.Kind == addr.KindModule || s.Item.Kind == addr.KindTemplate {
		return out, nil
	}
	index, err := artifact.ParseProviderIndex(s.Manifest)
	if err != nil {
		return nil, err
	}
	md, err := evidence.Resigned(ctx, s.Repository, index, s.Status())
	if errors.Is(err, oci.ErrNotFound) {
		return out, nil // the index was made by another tool
	}
	if err != nil {
		return nil, err
	}
	return slices.Concat(openPGPSignatures(md, o), out), nil
}

func cosignSignature(s Subject, c evidence.CosignSignature, o Policy) Signature {
	out := Signature{Kind: "cosign", Algorithm: "ECDSA P-256", Result: NotChecked}
	if c.Envelope != nil {
		out.Kind = "sigstore bundle"
	}
	switch key, by, err := signedBy(s, c, o); {
	case err == nil && key == nil:
		out.Algorithm, out.By, out.Result = "", by, Trusted
	case err == nil:
		out.Key = CosignKeyID(key)
		out.Result = Trusted
	case errors.Is(err, errKeyless), errors.Is(err, keyless.ErrOther):
		out.Algorithm = ""
		out.Detail = err.Error()
	case !errors.Is(err, signing.ErrUnknownKey):
		out.Result = Invalid
		out.Detail = err.Error()
	case len(o.Cosign) == 0:
		out.Detail = "no trusted key is configured on this server"
	default:
		out.Detail = "not made with a key of this server"
	}
	return out
}

// openPGPSignatures returns the signatures over SHA256SUMS, by the keys that are stored beside it.
func openPGPSignatures(md artifact.ProviderMetadata, o Policy) []Signature {
	var out []Signature
	for _, stored := range md.Keys {
		keys, err := signing.ParsePublicKeys([]byte(stored.ASCIIArmor))
		if err != nil {
			continue // the version is not served
		}
		for _, k := range keys {
			s := Signature{Kind: "OpenPGP", Key: k.Fingerprint, By: k.UserID, Algorithm: k.Algorithm, Result: Consistent, Detail: "by the key stored with it"}
			made, err := signing.Verify(md.ShasumsBytes, md.SignatureBytes, []signing.PublicKey{k}, signing.VerifyOptions{Now: o.Now, AllowExpired: true})
			switch {
			case errors.Is(err, signing.ErrUnknownKey):
				continue // this key made no signature here
			case err != nil:
				s.Result = Invalid
				s.Detail = err.Error()
			case slices.ContainsFunc(o.OpenPGP, func(t signing.PublicKey) bool { return t.Fingerprint == k.Fingerprint }):
				s.Result = Trusted
				s.Detail = ""
			}
			if made.Weak != "" {
				s.Detail = made.Weak
			}
			out = append(out, s)
		}
	}
	return out
}
