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
	"github.com/seed-141914ff/okara/internal/must"
)

// TestCertDirs connects by the certificates of the host's folder.
func TestCertDirs(t *testing.T) {
	made := t.TempDir()
	ca, cfg := must.GetBoth(httpserve.SelfSigned(made, []string{"127.0.0.1"}))(t)
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
		resp := must.Get(c.Get(s.URL()))(t)
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
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("no certificate"), 0o600))
	if _, err := newClient(t, o).Get(s.URL()); err == nil || !strings.Contains(err.Error(), "no PEM certificate in it") {
		t.Errorf("with a broken file: got %v", err)
	}
}

func mustCopy(t *testing.T, from, to string) {
	t.Helper()
	b := must.Get(os.ReadFile(from))(t)
	must.Succeed(t, os.MkdirAll(filepath.Dir(to), 0o700))
	must.Succeed(t, os.WriteFile(to, b, 0o600))
}
