// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"crypto/x509"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// FallbackRoots, for main before anything is verified, makes the process trust the bundled
// certificates where the system has none, as in an image of one program. Parsing them takes longer
// than most commands to start, so the system's are looked for first; a wrong result costs only
// time.
func FallbackRoots(getenv func(string) string) {
	if systemRoots(getenv) {
		return
	}
	if pool, err := bundledRoots(); err == nil { // a test parses the bundle, so it has no error
		x509.SetFallbackRoots(pool)
	}
}

// systemRoots reports whether Go will find certificates where crypto/x509 looks.
func systemRoots(getenv func(string) string) bool {
	if strings.Contains(getenv("GODEBUG"), "x509usefallbackroots=1") {
		return false
	}
	places := []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
	}
	if file := getenv("SSL_CERT_FILE"); file != "" {
		places = []string{file}
	}
	return slices.ContainsFunc(places, func(place string) bool {
		info, err := os.Stat(place)
		return err == nil && info.Mode().IsRegular() && info.Size() > 0
	})
}

func bundledRoots() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, err
		}
		if root.Constraint == nil {
			pool.AddCert(cert)
		} else {
			pool.AddCertWithConstraint(cert, root.Constraint)
		}
	}
	return pool, nil
}
