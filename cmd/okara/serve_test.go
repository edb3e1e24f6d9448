// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

const serveToken = "oks_ci_0123456789abcdefghij"

var serveSum = oci.BytesBlob("", []byte(serveToken)).Digest.Encoded()

// newServer runs okara serve: URL, stderr, and a stop with exit code.
func newServer(t *testing.T, args ...string) (url string, notes func() string, stop func() int) {
	t.Helper()
	return newServerIn(t, nil, args...)
}

// newServerIn is newServer with environment variables.
func newServerIn(t *testing.T, env map[string]string, args ...string) (url string, notes func() string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, w := io.Pipe()
	var log lockedBuffer
	home := t.TempDir()
	getenv := func(k string) string {
		if k == "HOME" {
			return home
		}
		return env[k]
	}
	code := make(chan int, 1)
	var running sync.WaitGroup
	running.Go(func() {
		code <- runCommand(ctx, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...), strings.NewReader(""), w, &log, getenv)
		w.Close()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server ended: %s", log.String())
	}
	stop = sync.OnceValue(func() int { cancel(); running.Wait(); return <-code })
	t.Cleanup(func() { stop() })
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on ")), log.String, stop
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// send makes a request, with a token unless that is empty.
func send(t *testing.T, method, url, token, body string) (text string, code int) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp := must.Get(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	return string(must.Get(io.ReadAll(resp.Body))(t)), resp.StatusCode
}

func get(t *testing.T, url, token string) string {
	t.Helper()
	text, code := send(t, http.MethodGet, url, token, "")
	if code != http.StatusOK {
		t.Fatalf("%s: %d: %s", url, code, text)
	}
	return text
}

func status(t *testing.T, client *http.Client, method, url, token string) int {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp := must.Get(client.Do(r))(t)
	resp.Body.Close()
	return resp.StatusCode
}

// Shows: mistakes 4
func TestServe(t *testing.T) {
	dir := t.TempDir()
	url, notes, stop := newServer(t, "--storage", dir)
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/metrics": 200, "/.well-known/terraform.json": 200, "/v2/": 200, "/v1/modules/a/b/c/versions": 404,
		"/state/shop/default": 204,
	} {
		must.Equal(t, path, status(t, http.DefaultClient, http.MethodGet, url+path, ""), want)
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/state/shop/default", nil))(t)
	r.Host = "evil.example" // a site's host name that resolves to this machine
	resp := must.Get(http.DefaultClient.Do(r))(t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusMisdirectedRequest || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a state under a foreign name: %d", resp.StatusCode)
	}
	if !strings.Contains(notes(), dir) || !strings.Contains(notes(), "okara cli-config "+url) {
		t.Errorf("the notes name neither the storage nor the next command: %s", notes())
	}
	if code := stop(); code != cli.ExitInterrupted && code != cli.ExitOK {
		t.Errorf("exit code %d after a signal", code)
	}
	before := must.Get(os.ReadFile(filepath.Join(dir, "archive.key")))(t)
	newServer(t, "--storage", dir)
	after, err := os.ReadFile(filepath.Join(dir, "archive.key"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the key of links changed with a restart: %v", err)
	}
}

// TestServeTLS shows that with a certificate, plain http gets 400.
//
// Shows: registries 26 | plain HTTP on a port meant for TLS | the same; OpenDepot
func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	url, notes, _ := newServer(t, "--storage", dir, "--tls-self-signed")
	if !strings.HasPrefix(url, "https://") || !strings.Contains(notes(), "SSL_CERT_FILE="+dir) || !strings.Contains(notes(), url+" --hostname okara.test --write") {
		t.Fatalf("%s: %s", url, notes())
	}
	ca := must.Get(os.ReadFile(filepath.Join(dir, "tls", "ca.pem")))(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	must.Equal(t, "https", status(t, client, http.MethodGet, url+"/healthz", ""), 200)
	must.Equal(t, "http to the same port", status(t, http.DefaultClient, http.MethodGet, "http"+strings.TrimPrefix(url, "https")+"/healthz", ""), 400)
}

// TestServeConfig runs a server with settings that no other test gives to a running one.
func TestServeConfig(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	must.Succeed(t, os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600))
	file := filepath.Join(dir, "okara.hcl")
	text := fmt.Sprintf(`
listen     = "0.0.0.0:1"
storage    = %q
hostname   = "okara.example.com"
public_url = "https://okara.example.com"
anonymous  = ["read:module:public/**"]
proxies    = ["127.0.0.0/8"]
access_log = false
grace      = "1ms"
drain      = "1m"

layout {
  modules = "{prefix}/m.{namespace}.{name}.{system}"
}
modules {
  answer = "direct"
}
archives {
  ttl        = "1h"
  redirect   = "never"
  stream_for = ["192.0.2.0/24"]
  key_files  = [%q]
}
cache {
  tag_ttl = "10s"
  blobs   = "1GiB"
  dir     = %q
}
require "mirror" {
  checks = ["scan"]
  block  = "critical"
}
issuer "https://127.0.0.1:1" {
  audiences = ["okara"]
}
rule "everybody" {
  allow = ["read:module:acme/**"]
}
`, filepath.Join(dir, "s"), key, filepath.Join(dir, "blobs"))
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	tokens := filepath.Join(dir, "tokens")
	must.Succeed(t, os.WriteFile(tokens, []byte(serveToken+" read:module:acme/**\n"), 0o600))
	must.Succeed(t, os.Chmod(tokens, 0o644)) // despite any umask
	url, notes, stop := newServer(t, "--config", file, "--token-file", tokens)
	for _, want := range []string{`every token that is accepted" rules=[everybody]`, "everybody on this machine may read", tokens, "--token-file FILE --write"} {
		if !strings.Contains(notes(), want) {
			t.Errorf("the log does not say %q: %s", want, notes())
		}
	}
	for namespace, want := range map[string]int{"public": 404, "acme": 401} {
		must.Equal(t, namespace, status(t, http.DefaultClient, http.MethodGet, url+"/v1/modules/"+namespace+"/x/aws/versions", ""), want)
	}
	if _, err := os.Stat(filepath.Join(dir, "blobs")); err != nil {
		t.Errorf("the folder of the blob cache: %v", err)
	}
	must.Equal(t, "exit code", stop(), 0)
}
