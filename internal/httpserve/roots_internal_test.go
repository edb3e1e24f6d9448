// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

func TestSystemRoots(t *testing.T) {
	dir := t.TempDir()
	full, empty := filepath.Join(dir, "full.pem"), filepath.Join(dir, "empty.pem")
	for name, content := range map[string]string{full: "a certificate", empty: ""} {
		must.Succeed(t, os.WriteFile(name, []byte(content), 0o600))
	}
	for name, c := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"a file":   {map[string]string{"SSL_CERT_FILE": full}, true},
		"empty":    {map[string]string{"SSL_CERT_FILE": empty}, false},
		"missing":  {map[string]string{"SSL_CERT_FILE": filepath.Join(dir, "none.pem")}, false},
		"a folder": {map[string]string{"SSL_CERT_FILE": dir}, false},
		"ours":     {map[string]string{"SSL_CERT_FILE": full, "GODEBUG": "x509usefallbackroots=1"}, false},
	} {
		must.Equal(t, name+": found", systemRoots(func(key string) string { return c.env[key] }), c.want)
	}
}

func TestBundled(t *testing.T) {
	if pool, err := bundledRoots(); err != nil || pool.Equal(x509.NewCertPool()) {
		t.Errorf("no certificates came with the program: %v", err)
	}
}
