// SPDX-License-Identifier: Apache-2.0

package httpserve_test

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/httpserve"
)

// TestCertDirs connects to a server that is trusted only because of the folder of its
// host, and that requires the client certificate in that folder.
func TestCertDirs(t *testing.T) {
	made := t.TempDir()
	ca, cfg, err := httpserve.SelfSigned(made, []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	cfg.ClientAuth = tls.RequireAnyClientCert
	s, _, _ := newServer(t, httpserve.Options{TLS: cfg, Handler: http.NotFoundHandler()})
	certs := t.TempDir()
	o := httpserve.TransportOptions{CertDirs: []string{filepath.Join(certs, "missing"), certs}}
	if _, err := newClient(t, o).Get(s.URL()); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Fatalf("without the folder: got %v", err)
	}
	dir := filepath.Join(certs, s.Addr())
	mustCopy(t, ca, filepath.Join(dir, "ca.crt"))
	mustCopy(t, ca, filepath.Join(dir, "client.cert"))
	if _, err := newClient(t, o).Get(s.URL()); err == nil || !strings.Contains(err.Error(), "certificates for "+s.Addr()+": ") {
		t.Errorf("without the key: got %v", err)
	}
	mustCopy(t, filepath.Join(made, "ca-key.pem"), filepath.Join(dir, "client.key"))
	c := newClient(t, o)
	for range 2 {
		resp, err := c.Get(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("got %s", resp.Status)
		}
	}
	// The folder applies to its own host and port only.
	other, _, _ := newServer(t, httpserve.Options{TLS: cfg, Handler: http.NotFoundHandler()})
	if _, err := c.Get(other.URL()); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("another host is trusted as well: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newClient(t, o).Get(s.URL()); err == nil || !strings.Contains(err.Error(), "no PEM certificate in it") {
		t.Errorf("with a broken file: got %v", err)
	}
}

func mustCopy(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
