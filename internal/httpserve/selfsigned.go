// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-141914ff/okara/internal/files"
)

const (
	caLife = 10 * 365 * 24 * time.Hour
	// leafLife is the longest that Apple's systems accept; each start makes a new one.
	leafLife = 397 * 24 * time.Hour
	// caRenew is the remaining life below which a CA is replaced at a start.
	caRenew = leafLife
)

// SelfSigned returns a TLS configuration for hosts, signed by a CA kept in dir, whose caFile users
// trust once. The CA's key, mode 0600, stays: its holder can be any host to them.
func SelfSigned(dir string, hosts []string) (caFile string, cfg *tls.Config, err error) {
	caFile = filepath.Join(dir, "ca.pem")
	ca, err := loadCA(caFile, filepath.Join(dir, "ca-key.pem"), time.Now())
	if err != nil {
		return "", nil, fmt.Errorf("prepare the local CA: %w", err)
	}
	leaf, err := newLeaf(ca, hosts, time.Now())
	if err != nil {
		return "", nil, fmt.Errorf("create a certificate: %w", err)
	}
	return caFile, &tls.Config{Certificates: []tls.Certificate{leaf}, MinVersion: tls.VersionTLS12}, nil
}

func loadCA(certFile, keyFile string, now time.Time) (tls.Certificate, error) {
	ca, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err == nil && ca.Leaf.IsCA && now.Add(caRenew).Before(ca.Leaf.NotAfter) {
		return ca, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ca, err // a damaged CA is not replaced without the knowledge of users that trust it
	}
	return newCA(certFile, keyFile, now)
}

func newCA(certFile, keyFile string, now time.Time) (tls.Certificate, error) {
	host, _ := os.Hostname() // shown in a user's list of CAs; may be empty
	ca, err := newCertificate(&x509.Certificate{
		Subject:   pkix.Name{CommonName: "okara local CA " + host},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, tls.Certificate{})
	if err != nil {
		return ca, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(ca.PrivateKey)
	if err != nil {
		return ca, err
	}
	if err := os.MkdirAll(filepath.Dir(certFile), 0o700); err != nil {
		return ca, err
	}
	if err := writePEM(keyFile, "PRIVATE KEY", key, 0o600); err != nil {
		return ca, err
	}
	return ca, writePEM(certFile, "CERTIFICATE", ca.Certificate[0], 0o644)
}

func newLeaf(ca tls.Certificate, hosts []string, now time.Time) (tls.Certificate, error) {
	t := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "okara"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return newCertificate(t, ca)
}

// newCertificate signs the template with the parent's key, or with its own.
func newCertificate(t *x509.Certificate, parent tls.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return tls.Certificate{}, err
	}
	issuer := t
	signer := any(key)
	chain := [][]byte(nil)
	if parent.Leaf != nil {
		issuer = parent.Leaf
		signer = parent.PrivateKey
		chain = parent.Certificate
	}
	der, err := x509.CreateCertificate(rand.Reader, t, issuer, key.Public(), signer)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: append([][]byte{der}, chain...), PrivateKey: key, Leaf: leaf}, nil
}

// writePEM writes a file under a temporary name and renames it.
func writePEM(file, kind string, der []byte, mode fs.FileMode) error {
	return files.Replace(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
