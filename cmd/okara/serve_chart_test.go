// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestChartConfig checks with --check the settings that the chart for Kubernetes writes, from
// its golden files, with the files that the pods get beside them.
//
// Shows: operator 17
func TestChartConfig(t *testing.T) {
	dir := t.TempDir()
	key := strings.Repeat("ab", 32)
	for name, text := range map[string]string{
		"keys/archive.key": key, "keys/session.key": key, "keys/new.key": key, "keys/old.key": strings.Repeat("cd", 32),
		"rules/rules.json": `{"rules":[]}`, "runs/jwks.json": `{"keys":[{"kty":"EC","kid":"a","use":"sig","alg":"ES256","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`,
	} {
		put(t, filepath.Join(dir, name), text)
	}
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	cert := server.TLS.Certificates[0]
	der := must.Get(x509.MarshalPKCS8PrivateKey(cert.PrivateKey))(t)
	put(t, filepath.Join(dir, "tls/tls.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
	put(t, filepath.Join(dir, "tls/tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	for _, name := range []string{"few", "many"} {
		src := must.Get(os.ReadFile("../../operator/internal/chart/testdata/" + name + ".yaml"))(t)
		m := regexp.MustCompile(`(?s)\n  okara\.hcl: \|\n(.*?)\n---\n`).FindSubmatch(src)
		if m == nil {
			t.Fatalf("%s.yaml has no okara.hcl", name)
		}
		text := strings.ReplaceAll(strings.ReplaceAll(string(m[1]), "    ", ""), "/etc/okara/", dir+"/")
		file := filepath.Join(dir, name+".hcl")
		put(t, file, text)
		c := newPerson(t)
		if code, out, errOut := c.run(t, "serve", "--check", "--config", file); code != cli.ExitOK {
			t.Errorf("%s: exit %d, %s%s\n%s", name, code, out, errOut, text)
		}
	}
}

func put(t *testing.T, file, text string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
}
