// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
)

const (
	hookSecret = "s3cret-of-the-webhook"
	acmeToken  = "ghp_s3cretOfAcme"
	betaToken  = "ghs_s3cretOfBeta"
)

// gitHubTree is a source tree as packed by GitHub.
func gitHubTree(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	const text = "output \"x\" { value = 1 }\n"
	for _, name := range []string{"main.tf", "modules/dns/main.tf"} {
		must.Succeed(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "x-y-0000000/" + name, Mode: 0o644, Size: int64(len(text))}))
		must.Get(io.WriteString(w, text))(t)
	}
	must.Succeed(t, w.Close())
	must.Succeed(t, z.Close())
	return b.Bytes()
}

// newGitHubAPI starts a GitHub Enterprise server: acme is read with a token, beta as a GitHub
// App. The links to trees are signed and need no token.
func newGitHubAPI(t *testing.T) string {
	t.Helper()
	tree := gitHubTree(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch p := r.URL.Path; {
		case p == "/api/v3/app/installations/7/access_tokens" && strings.Count(token, ".") == 2:
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"token":%q,"expires_at":%q}`, betaToken, time.Now().Add(time.Hour).Format(time.RFC3339))
		case strings.HasPrefix(p, "/download/") && token == "" && r.URL.Query().Get("token") == "s3cretLink":
			w.Write(tree)
		case strings.HasPrefix(p, "/api/v3/repos/acme/") && token != acmeToken, strings.HasPrefix(p, "/api/v3/repos/Beta/") && token != betaToken:
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(p, "/commits/tags/"):
			io.WriteString(w, strings.Repeat("c", 40))
		case strings.Contains(p, "/tarball/"):
			http.Redirect(w, r, "http://"+r.Host+"/download/"+path.Base(p)+"?token=s3cretLink", http.StatusFound)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/api/v3/"
}

// writeSecret writes a file that only its owner can read.
func writeSecret(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	must.Succeed(t, os.WriteFile(file, text, 0o600))
	return file
}

func newAppKey(t *testing.T) []byte {
	t.Helper()
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

func deliver(t *testing.T, url, event, delivery, body string) int {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/hooks/github", strings.NewReader(body)))(t)
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write([]byte(body))
	for key, value := range map[string]string{
		"Content-Type": "application/json", "X-GitHub-Event": event, "X-GitHub-Delivery": delivery,
		"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
	} {
		r.Header.Set(key, value)
	}
	resp := must.Get(http.DefaultClient.Do(r))(t)
	resp.Body.Close()
	return resp.StatusCode
}

// TestServeGitHub runs okara serve as a process with a configuration file, sends it signed
// events over loopback, and reads the versions back with the registry protocol. Its log, its
// audit log and its spans contain none of the secrets.
//
// Shows: aws-registry 1
func TestServeGitHub(t *testing.T) {
	collector, spans := newCollector(t)
	dir, api := t.TempDir(), newGitHubAPI(t)
	audit := filepath.Join(dir, "audit.jsonl")
	config := writeSecret(t, dir, "okara.hcl", fmt.Appendf(nil, `
audit_log = %q
github "acme" {
  secret_env = "HOOK_SECRET"
  token_file = %q
  api_url    = %q
}
github "Beta" {
  secret_files     = [%q]
  namespace        = "b"
  app_id           = 3
  installation_id  = 7
  private_key_file = %q
  api_url          = %q
}
hook "acme/infra" {
  module = "net/{name}/aws"
}
`, audit, writeSecret(t, dir, "token", []byte(acmeToken+"\n")), api, writeSecret(t, dir, "secret", []byte(hookSecret+"\n")), writeSecret(t, dir, "key", newAppKey(t)), api))

	p := newServeProcess(t, []string{"HOOK_SECRET=" + hookSecret, "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector}, "--config", config, "--debug")
	push := `{"ref":"refs/tags/modules/dns/v1.2.3","head_commit":{"id":"` + strings.Repeat("a", 40) + `"},"repository":{"full_name":"acme/infra"}}`
	create := `{"ref":"v2.0.0","ref_type":"tag","repository":{"full_name":"beta/terraform-aws-vpc"}}`
	for i, want := range []int{http.StatusAccepted, http.StatusOK} {
		if got := deliver(t, p.url, "push", "1", push); got != want {
			t.Errorf("delivery %d: %d, want %d", i, got, want)
		}
	}
	if got := deliver(t, p.url, "create", "2", create); got != http.StatusAccepted {
		t.Errorf("create: %d", got)
	}
	waitFor(t, "both jobs", func() bool {
		text := p.log.String()
		if strings.Contains(text, "queue: job failed") || strings.Contains(text, "tried again") {
			t.Fatal(text)
		}
		return strings.Count(text, "queue: job done") == 2
	})
	for module, version := range map[string]string{"net/dns/aws": "1.2.3", "b/vpc/aws": "2.0.0"} {
		if text := get(t, p.url+"/v1/modules/"+module+"/versions"); !strings.Contains(text, `"`+version+`"`) {
			t.Errorf("%s: %s; want %s", module, text, version)
		}
	}
	p.signal(t, syscall.SIGTERM)
	must.Succeed(t, p.cmd.Wait())
	said := p.log.String() + spans() + string(must.Get(os.ReadFile(audit))(t))
	for _, want := range []string{"/repos/acme/infra/tarball/", `"mode":"github"`, "queue: job done"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing names %q", want)
		}
	}
	for _, secret := range []string{hookSecret, acmeToken, betaToken, "s3cretLink"} {
		if strings.Contains(said, secret) {
			t.Errorf("%q is in log, audit log or spans", secret)
		}
	}
}
