// SPDX-License-Identifier: Apache-2.0

package keyless

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
)

// Trust says whose certificates count.
type Trust struct {
	root       *root
	identities []string
	issuer     string
}

// ReadTrust reads a trust root. Identities are addresses of mail or of workflows, in which * is
// any characters; issuer is who vouched for them, as https://token.actions.githubusercontent.com.
// It returns nil without any of them.
func ReadTrust(file string, identities []string, issuer string) (*Trust, error) {
	everybody := func(glob string) bool { return strings.Trim(glob, "*") == "" }
	switch {
	case file == "" && len(identities) == 0 && issuer == "":
		return nil, nil
	case file == "" || len(identities) == 0 || issuer == "":
		return nil, errors.New("the identity of a certificate, its issuer and the trust root must be set together")
	case slices.ContainsFunc(identities, everybody):
		return nil, errors.New("the certificate identity * would accept everyone")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r, err := parseRoot(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &Trust{r, identities, issuer}, nil
}

// Signature is one of a bundle.
type Signature struct {
	Material          []byte // verificationMaterial of the bundle, as JSON
	Payload, Envelope []byte // what was signed, and its encoding
	Bytes             []byte
	leaf              *x509.Certificate
}

// ErrOther means that a signature is valid, by an identity that is not accepted.
var ErrOther = errors.New("not by an accepted identity")

// maxProofs bounds the entries, and the timestamps, of a bundle.
const maxProofs = 32

// Verify returns who made a signature: the identity, and its issuer.
func (t *Trust) Verify(s Signature) (string, error) {
	var m struct {
		Certificate chain
		Chain       chain   `json:"x509CertificateChain"` // until version 0.2
		Entries     []entry `json:"tlogEntries"`
		Timestamps  struct {
			RFC3161 []struct{ SignedTimestamp []byte } `json:"rfc3161Timestamps"`
		} `json:"timestampVerificationData"`
	}
	if err := json.Unmarshal(s.Material, &m); err != nil {
		return "", fmt.Errorf("bundle: %w", err)
	}
	certificates := slices.Concat(m.Certificate, m.Chain)
	if len(certificates) == 0 || len(m.Entries) > maxProofs || len(m.Timestamps.RFC3161) > maxProofs {
		return "", fmt.Errorf("the bundle has no certificate, or more than %d proofs", maxProofs)
	}
	s.leaf = certificates[0]
	// Who signed comes first, by the least work: the rest costs what the signer makes it cost.
	identity, issuer := namesIn(s.leaf)
	if issuer != t.issuer || !slices.ContainsFunc(t.identities, func(glob string) bool { return addr.MatchText(glob, identity) }) {
		return "", fmt.Errorf("%w: it names %q of %q", ErrOther, text.Excerpt(identity), text.Excerpt(issuer))
	}
	if err := t.root.verifyCertificate(s.leaf, s.leaf.NotBefore); err != nil {
		return "", fmt.Errorf("certificate: %w", err)
	}
	if err := verifySignature(s.leaf.PublicKey, s.Envelope, s.Bytes); err != nil {
		return "", err
	}
	var times []time.Time
	var reasons []error
	keep := func(at time.Time, err error) {
		if err != nil {
			reasons = append(reasons, err)
		} else if !at.IsZero() {
			times = append(times, at)
		}
	}
	logged := len(t.root.Logs) == 0
	for _, e := range m.Entries {
		at, err := t.root.verifyEntry(&e, s)
		logged = logged || err == nil
		keep(at, err)
	}
	for _, stamp := range m.Timestamps.RFC3161 {
		keep(t.root.verifyTimestamp(stamp.SignedTimestamp, s.Bytes))
	}
	if !logged || len(times) == 0 {
		return "", errors.Join(append(reasons, errors.New("no log or timestamp authority of the trust root confirms when the signature was created"))...)
	}
	for _, at := range times {
		if err := t.root.verifyCertificate(s.leaf, at); err != nil {
			return "", fmt.Errorf("certificate: %w", err)
		}
	}
	return identity + " of " + issuer, nil
}

// verifyCertificate checks that an authority certified it for a time, and that it is logged.
func (r *root) verifyCertificate(leaf *x509.Certificate, at time.Time) error {
	var reasons []error
	for i := range r.Authorities {
		chains, err := r.Authorities[i].verifyChain(leaf, at, x509.ExtKeyUsageCodeSigning)
		if err == nil && len(r.CertLogs) > 0 {
			err = r.verifyLogged(chains)
		}
		if err == nil {
			return nil
		}
		reasons = append(reasons, err)
	}
	return errors.Join(reasons...)
}

// namesIn returns the only name in a certificate, and the issuer of it in an extension of Fulcio:
// a string of ASN.1, before 2023 plain text.
func namesIn(leaf *x509.Certificate) (identity, issuer string) {
	names := slices.Clone(leaf.EmailAddresses)
	for _, u := range leaf.URIs {
		names = append(names, u.String())
	}
	if len(names) == 1 {
		identity = names[0]
	}
	fulcio := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1}
	for _, x := range leaf.Extensions {
		if x.Id.Equal(append(fulcio, 8)) {
			_, _ = asn1.Unmarshal(x.Value, &issuer) // of another type it is empty
			break
		}
		if x.Id.Equal(append(fulcio, 1)) {
			issuer = string(x.Value)
		}
	}
	return identity, issuer
}
