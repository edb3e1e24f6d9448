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
	Chain struct {
		Certificates []struct{ RawBytes certificate }
	} `json:"certChain"` // the last one is trusted
	Valid period `json:"validFor"`
}

type logKey struct {
	Key struct {
		RawBytes publicKey
		ValidFor period
	} `json:"publicKey"`
	ID logID `json:"logId"`
}

type logID struct{ KeyID []byte }

type period struct{ Start, End time.Time }

func (p period) includesTime(t time.Time) bool {
	return !t.Before(p.Start) && (p.End.IsZero() || !t.After(p.End))
}

type certificate struct{ *x509.Certificate }

func (c *certificate) UnmarshalJSON(b []byte) (err error) {
	var raw []byte
	if err = json.Unmarshal(b, &raw); err == nil {
		c.Certificate, err = x509.ParseCertificate(raw)
	}
	return err
}

type publicKey struct{ crypto.PublicKey }

func (k *publicKey) UnmarshalJSON(b []byte) (err error) {
	var raw []byte
	if err = json.Unmarshal(b, &raw); err == nil {
		k.PublicKey, err = x509.ParsePKIXPublicKey(raw)
	}
	return err
}

func parseRoot(b []byte) (*root, error) {
	var r root
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("trust root: %w", err)
	}
	if !strings.HasPrefix(r.MediaType, "application/vnd.dev.sigstore.trustedroot") || len(r.Authorities) == 0 {
		return nil, errors.New("not a trust root of Sigstore with a certificate authority")
	}
	for _, a := range slices.Concat(r.Clocks, r.Authorities) {
		missing := func(c struct{ RawBytes certificate }) bool { return c.RawBytes.Certificate == nil }
		if len(a.Chain.Certificates) == 0 || slices.ContainsFunc(a.Chain.Certificates, missing) {
			return nil, errors.New("trust root: an authority has no certificate")
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
	for i, one := range a.Chain.Certificates {
		if i == len(a.Chain.Certificates)-1 {
			o.Roots.AddCert(one.RawBytes.Certificate)
		} else {
			o.Intermediates.AddCert(one.RawBytes.Certificate)
		}
	}
	return c.Verify(o)
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
