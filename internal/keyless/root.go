// SPDX-License-Identifier: Apache-2.0

package keyless

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// root is a trust root.
type root struct {
	MediaType   string      `json:"mediaType"`
	Authorities []authority `json:"certificateAuthorities"`
	Clocks      []authority `json:"timestampAuthorities"` // with their own certificate first
	Logs        []logKey    `json:"tlogs"`
	CertLogs    []logKey    `json:"ctlogs"`
}

type authority struct {
	Chain chain  `json:"certChain"` // the last one is trusted
	Valid period `json:"validFor"`
}

type logKey struct {
	Key struct {
		RawBytes []byte
		ValidFor period
	} `json:"publicKey"`
	ID logID `json:"logId"`
}

type logID struct{ KeyID []byte }

type period struct{ Start, End time.Time }

func (p period) includesTime(t time.Time) bool {
	return !t.Before(p.Start) && (p.End.IsZero() || !t.After(p.End))
}

// chain is a certificate, or several, each with its issuer behind it.
type chain []*x509.Certificate

func (c *chain) UnmarshalJSON(b []byte) (err error) {
	type one struct{ RawBytes []byte }
	var doc struct {
		one
		Certificates []one
	}
	if err = json.Unmarshal(b, &doc); err == nil {
		for _, next := range doc.Certificates {
			doc.RawBytes = append(doc.RawBytes, next.RawBytes...)
		}
		if *c, err = x509.ParseCertificates(doc.RawBytes); err == nil && len(*c) != max(1, len(doc.Certificates)) {
			err = errors.New("expected one certificate each")
		}
	}
	return err
}

func parseRoot(b []byte) (*root, error) {
	var r root
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("trust root: %w", err)
	}
	empty := func(a authority) bool { return len(a.Chain) == 0 }
	if !strings.HasPrefix(r.MediaType, "application/vnd.dev.sigstore.trustedroot") || len(r.Authorities) == 0 || slices.ContainsFunc(slices.Concat(r.Authorities, r.Clocks), empty) {
		return nil, errors.New("not a Sigstore trust root with certificate authorities")
	}
	for _, l := range slices.Concat(r.Logs, r.CertLogs) {
		if _, err := x509.ParsePKIXPublicKey(l.Key.RawBytes); err != nil {
			return nil, fmt.Errorf("trust root: key of a log: %w", err)
		}
	}
	return &r, nil
}

// verifyChain returns the chains of a certificate that was used at a time.
func (a *authority) verifyChain(c *x509.Certificate, at time.Time, usage x509.ExtKeyUsage) ([][]*x509.Certificate, error) {
	if !a.Valid.includesTime(at) {
		return nil, fmt.Errorf("the authority is not trusted for %s", at.UTC().Format(time.RFC3339))
	}
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}}
	o.Roots.AddCert(a.Chain[len(a.Chain)-1])
	for _, between := range a.Chain[:len(a.Chain)-1] {
		o.Intermediates.AddCert(between)
	}
	return c.Verify(o)
}

// verifyByLog checks a signature by the key of a log, which may be trusted for a time only.
func (l *logKey) verifyByLog(at time.Time, message, signature []byte) error {
	key, err := x509.ParsePKIXPublicKey(l.Key.RawBytes)
	if err == nil && !at.IsZero() && !l.Key.ValidFor.includesTime(at) {
		err = errors.New("the key of the log is not trusted for that time")
	}
	if err != nil {
		return err
	}
	return verifySignature(key, message, signature)
}

// verifySignature checks a signature, with the digest that Sigstore uses for such a key.
func verifySignature(key crypto.PublicKey, message, signature []byte) error {
	algorithm := x509.ECDSAWithSHA256
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve.Params().BitSize == 384 {
			algorithm = x509.ECDSAWithSHA384
		}
	case ed25519.PublicKey:
		algorithm = x509.PureEd25519
	case *rsa.PublicKey:
		algorithm = x509.SHA256WithRSA
	}
	return (&x509.Certificate{PublicKey: key}).CheckSignature(algorithm, message, signature)
}
