// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bufio"
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
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
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

func deliver(t testing.TB, url, event, delivery, body string) int {
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
	var mu sync.Mutex
	var said bytes.Buffer // guarded by mu
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&said, r.Body) // a truncated body fails the test below
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
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

	exe := must.Get(os.Executable())(t)
	okara := filepath.Join(dir, "okara") // the test binary acts as okara by this name
	must.Succeed(t, os.Symlink(exe, okara))
	cmd := exec.Command(okara, "serve", "--listen", "127.0.0.1:0", "--storage", filepath.Join(dir, "storage"), "--config", config, "--debug")
	cmd.Env = append(os.Environ(), "HOME="+dir, "HOOK_SECRET="+hookSecret, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
	stdout := must.Get(cmd.StdoutPipe())(t)
	stderr := must.Get(cmd.StderrPipe())(t)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended unless the test failed
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		text, _ := io.ReadAll(stderr)
		t.Fatalf("the server ended: %s", text)
	}
	url := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))

	push := `{"ref":"refs/tags/modules/dns/v1.2.3","head_commit":{"id":"` + strings.Repeat("a", 40) + `"},"repository":{"full_name":"acme/infra"}}`
	create := `{"ref":"v2.0.0","ref_type":"tag","repository":{"full_name":"beta/terraform-aws-vpc"}}`
	for i, want := range []int{http.StatusAccepted, http.StatusOK} {
		if got := deliver(t, url, "push", "1", push); got != want {
			t.Errorf("delivery %d: %d, want %d", i, got, want)
		}
	}
	if got := deliver(t, url, "create", "2", create); got != http.StatusAccepted {
		t.Errorf("create: %d", got)
	}
	lines := bufio.NewScanner(io.TeeReader(stderr, lockedWriter{&mu, &said}))
	for done := 0; done < 2 && lines.Scan(); {
		if text := lines.Text(); strings.Contains(text, "queue: job done") {
			done++
		} else if strings.Contains(text, "queue: job failed") || strings.Contains(text, "tried again") {
			t.Fatal(text)
		}
	}
	for module, version := range map[string]string{"net/dns/aws": "1.2.3", "b/vpc/aws": "2.0.0"} {
		resp := must.Get(http.Get(url + "/v1/modules/" + module + "/versions"))(t)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(body), `"`+version+`"`) {
			t.Errorf("%s: %s %s, %v; want %s", module, resp.Status, body, err, version)
		}
	}
	must.Succeed(t, cmd.Process.Signal(syscall.SIGTERM))
	for lines.Scan() { // read to the end
	}
	_ = cmd.Wait() // ended by a signal
	record := must.Get(os.ReadFile(audit))(t)
	mu.Lock()
	defer mu.Unlock()
	said.Write(record)
	for _, want := range []string{"/repos/acme/infra/tarball/", `"mode":"github"`, "queue: job done"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("nothing names %q", want)
		}
	}
	for _, secret := range []string{hookSecret, acmeToken, betaToken, "s3cretLink"} {
		if strings.Contains(said.String(), secret) {
			t.Errorf("%q is in log, audit log or spans", secret)
		}
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
