// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// world is everything that the demonstration runs on.
type world struct {
	root, dir string // of the repository; of this demonstration
	registry  string // HOST/PREFIX
	store     *exec.Cmd
	a, b      *replica
	issuer    *issuer
	env       []string
}

// replica is one okara serve.
type replica struct {
	w      *world
	name   string
	url    string
	config string
	cmd    *exec.Cmd
	client *http.Client
}

func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

func (w *world) random(b []byte) { _, _ = rand.Read(b) } // never fails

// newWorld starts registry, issuer and replicas, and publishes what is launched.
func newWorld(ctx context.Context) (w *world, err error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "okara-demo")
	if err != nil {
		return nil, err
	}
	w = &world{root: root, dir: dir, issuer: newIssuer()}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close(true))
		}
	}()
	key := make([]byte, 32)
	w.random(key)
	w.env = append(os.Environ(), "HOME="+w.path("home"), "XDG_DATA_HOME="+w.path("data"), "XDG_CONFIG_HOME="+w.path("config"), "CHECKPOINT_DISABLE=1",
		"OKARA_STATE_KEYS="+w.path("state.key"), "SSL_CERT_FILE="+w.path("ca.pem"), "TMPDIR="+w.path("tmp"))
	for _, d := range []string{"home", "templates", "a", "b", "tmp"} {
		if err := os.MkdirAll(w.path(d), 0o700); err != nil {
			return w, err
		}
	}
	for name, content := range map[string]string{
		"state.key": hex.EncodeToString(key), "archive.key": hex.EncodeToString(key), "templates/demo.hcl": templates,
		"registry.yml": fmt.Sprintf(registryConfig, w.path("registry")),
	} {
		if err := os.WriteFile(w.path(name), []byte(content), 0o600); err != nil {
			return w, err
		}
	}
	step("A registry, an issuer of tokens, a module and a provider")
	if err := w.startRegistry(ctx); err != nil {
		return w, err
	}
	if err := w.publish(ctx); err != nil {
		return w, err
	}
	step("Two replicas of okara, of which one leads")
	if w.a, err = w.newReplica(ctx, "a"); err != nil {
		return w, err
	}
	w.b, err = w.newReplica(ctx, "b")
	return w, err
}

const registryConfig = `version: 0.1
log: {level: error}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: true}
  maintenance: {uploadpurging: {enabled: false}}
http: {addr: "127.0.0.1:0", secret: demo, draintimeout: 5s}
`

var listening = regexp.MustCompile(`(?:listening on |https?://)(?:https?://)?([0-9a-z.\[\]:]+:[0-9]+)`)

func (w *world) startRegistry(ctx context.Context) error {
	w.store = exec.Command(filepath.Join(w.root, ".cache/registry/3.1.2/registry"), "serve", w.path("registry.yml"))
	w.store.Env = append(w.env, "OTEL_TRACES_EXPORTER=none", "REGISTRY_LOG_LEVEL=info")
	at, err := startAndFind(ctx, w.store, w.path("registry.log"))
	w.registry = at + "/demo"
	return err
}

// startAndFind starts a server whose output goes to a file, and returns where it
// says that it listens.
func startAndFind(ctx context.Context, cmd *exec.Cmd, file string) (string, error) {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return "", err
	}
	defer out.Close()
	from, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	var at string
	err = until(ctx, time.Minute, func() (bool, error) {
		b, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		if m := listening.FindSubmatch(b[from.Size():]); m != nil {
			at = string(m[1])
		}
		return at != "", nil
	})
	if err != nil {
		return "", fmt.Errorf("%s does not listen: %w", filepath.Base(cmd.Path), err)
	}
	return at, nil
}

// okara runs a command of okara and returns what it prints.
func (w *world) okara(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(w.root, "bin/okara"), args...)
	cmd.Env = append(w.env, "OKARA_REGISTRY="+w.registry)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("okara %s: %w: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return b, nil
}

const module = `terraform {
  required_providers {
    time = {
      source = "okara.test/acme/time"
    }
  }
}
variable "name" {
  type = string
}
variable "size" {
  type    = string
  default = "small"
}
variable "seconds" {
  type    = number
  default = 1
}
resource "time_sleep" "made" {
  create_duration = "${var.seconds}s"
  triggers        = { size = var.size }
}
output "url" {
  value = "https://${var.name}.sandbox.example.com/${time_sleep.made.id}"
}
`

const templates = `
template "demo/app" {
  module { address = "acme/app/time" }
  per_owner = 1
  parameter "size" { enum = ["small", "large"] }
  inputs  = { name = id, seconds = 4 }
  outputs = ["url"]
  ttl {
    default = "10m"
    max     = "12m"
    extend  = "1m"
    extends = 2
  }
}
template "demo/shared" {
  module { address = "acme/app/time" }
  owner      = "group"
  groups     = ["team-*"]
  inputs     = { name = id }
  protection = true
  ttl { default = "10m" }
}
template "demo/pooled" {
  module { address = "acme/app/time" }
  inputs = { name = id }
  ttl { default = "10m" }
  pool {
    size       = 2
    max        = 4
    when_empty = "refuse"
  }
}
template "demo/guarded" {
  module { address = "acme/app/time" }
  approval = "plan"
  parameter "size" {
    enum   = ["small", "large"]
    update = true
  }
  inputs = { name = id }
  ttl { default = "10m" }
}
template "demo/slow" {
  module { address = "acme/app/time" }
  inputs = { name = id, seconds = 25 }
  ttl { default = "10m" }
}
`

// publish puts the module and a real provider into the registry, signed by a key of
// ours.
func (w *world) publish(ctx context.Context) error {
	dir := w.path("module")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(module), 0o600); err != nil {
		return err
	}
	if _, err := w.okara(ctx, "publish", "module", dir, "acme/app/time", "1.0.0"); err != nil {
		return err
	}
	keys, err := w.okara(ctx, "keys", "new", "--name", "okara demo", "--dir", w.path("keys"), "--quiet")
	if err != nil {
		return err
	}
	_, key, _ := strings.Cut(strings.TrimSpace(string(keys)), "\t")
	_, err = w.okara(ctx, "publish", "provider", filepath.Join(w.root, ".cache/provider/time/0.14.2"), "acme/time", "0.14.2", "--sign-key", key)
	return err
}

const replicaConfig = `
listen    = %[1]q
registry  = %[2]q
storage   = %[3]q
hostname  = "okara.test"
audit_log = %[4]q
proxies   = ["127.0.0.1/32"]
archives {
  key_files = [%[5]q]
}
tls {
  self_signed = true
}
issuer %[6]q {
  audiences = ["okara"]
}
rule "people" {
  issuer = %[6]q
  allow  = ["use:instance:demo/*"]
}
rule "approvers" {
  groups = ["approvers"]
  allow  = ["approve:instance:demo/*", "admin:instance:**"]
}
instances {
  templates = %[7]q
  advertise = %[8]q
}
executor "local" {
  program = %[9]q
}
`

func (w *world) newReplica(ctx context.Context, name string) (*replica, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil { // it is the replica's from now on
		return nil, err
	}
	p := &replica{w: w, name: name, url: "https://" + at, config: w.path(name, "okara.hcl")}
	config := fmt.Sprintf(replicaConfig, at, w.registry, w.path(name, "storage"), w.path(name, "audit"), w.path("archive.key"), w.issuer.URL,
		w.path("templates"), p.url, filepath.Join(w.root, ".cache/tofu/1.12.6/tofu"))
	if err := os.WriteFile(p.config, []byte(config), 0o600); err != nil {
		return nil, err
	}
	if name != "a" { // one certificate, so that they trust each other
		if err := os.CopyFS(w.path(name, "storage", "tls"), os.DirFS(w.path("a", "storage", "tls"))); err != nil {
			return nil, err
		}
	}
	return p, p.start(ctx)
}

func (p *replica) start(ctx context.Context) error {
	p.cmd = exec.Command(filepath.Join(p.w.root, "bin/okara"), "serve", "--config", p.config)
	p.cmd.Env = p.w.env
	if _, err := startAndFind(ctx, p.cmd, p.w.path(p.name, "log")); err != nil {
		return err
	}
	if p.client == nil {
		if err := p.trust(); err != nil {
			return err
		}
	}
	fmt.Printf("replica %s is at %s\n", p.name, p.url)
	return until(ctx, 2*time.Minute, func() (bool, error) {
		status, _, err := p.do(ctx, p.w.person("carla", "approvers"), "GET", "me", "")
		return err == nil && status == http.StatusOK, nil
	})
}

// trust copies the certificate of the local CA to where all look for it.
func (p *replica) trust() error {
	files, err := filepath.Glob(p.w.path(p.name, "storage", "tls", "ca*.pem"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no CA in the storage of %s: %w", p.name, err)
	}
	pool := x509.NewCertPool()
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if pool.AppendCertsFromPEM(b) {
			if err := os.WriteFile(p.w.path("ca.pem"), b, 0o600); err != nil {
				return err
			}
		}
	}
	p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	return nil
}

// leads reports whether the replica says of itself that it leads.
func (p *replica) leads(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/me", nil)
	if err != nil {
		return false
	}
	r.Header.Set("Authorization", "Bearer "+p.w.issuer.token(p.w.person("carla", "approvers")))
	r.Header.Set("Okara-Hop", "1") // who does not lead refuses to hand it on
	resp, err := p.client.Do(r)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (p *replica) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

// follow prints the log of the first run as it is written, to its end.
func (p *replica) follow(ctx context.Context, who, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		ended, err := p.stream(ctx, who, id)
		if ended || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		time.Sleep(time.Second) // the run waits for its place
	}
}

func (p *replica) stream(ctx context.Context, who, id string) (ended bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/instances/"+id+"/runs/1/log", nil)
	if err != nil {
		return false, err
	}
	r.Header.Set("Authorization", "Bearer "+p.w.issuer.token(who))
	r.Header.Set("Accept", "text/event-stream")
	resp, err := p.client.Do(r)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, nil
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "event: end") {
			return true, nil
		}
		data, ok := strings.CutPrefix(line, "data: ")
		var text string
		if !ok || json.Unmarshal([]byte(data), &text) != nil {
			continue
		}
		for part := range strings.Lines(text) {
			if strings.HasPrefix(part, "time_sleep") || strings.HasPrefix(part, "Apply") {
				fmt.Print("  | ", part)
			}
		}
	}
	return false, lines.Err()
}

// close ends what was started, and shows the logs if something went wrong.
func (w *world) close(failed bool) error {
	for _, p := range []*replica{w.a, w.b} {
		if p == nil || p.cmd == nil || p.cmd.Process == nil {
			continue
		}
		if failed {
			b, _ := os.ReadFile(w.path(p.name, "log")) // shown as far as it can be read
			fmt.Fprintf(os.Stderr, "\nthe log of replica %s:\n%s", p.name, b[max(0, len(b)-8192):])
		}
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait()
	}
	if w.store != nil && w.store.Process != nil {
		_ = w.store.Process.Kill()
		_ = w.store.Wait()
	}
	w.issuer.Close()
	return os.RemoveAll(w.dir)
}

// person is somebody with groups, as the issuer knows him.
func (w *world) person(name string, groups ...string) string {
	if len(groups) > 0 {
		w.issuer.groups[name] = groups
	}
	return name
}

// issuer is an OpenID Connect issuer: its tokens are what people log in with.
type issuer struct {
	*httptest.Server
	key    *ecdsa.PrivateKey
	groups map[string][]string
}

func newIssuer() *issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		key = nil // never fails
	}
	i := &issuer{key: key, groups: map[string][]string{}}
	mux := http.NewServeMux()
	answer := func(path string, doc func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(doc()) // the client is gone
		})
	}
	answer("/.well-known/openid-configuration", func() any {
		return map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/auth", "token_endpoint": i.URL + "/token"}
	})
	answer("/keys", func() any {
		point, err := key.PublicKey.Bytes()
		if err != nil {
			return nil
		}
		text := base64.RawURLEncoding.EncodeToString
		return map[string]any{"keys": []any{map[string]string{
			"kty": "EC", "crv": "P-256", "kid": "k", "alg": "ES256", "use": "sig", "x": text(point[1:33]), "y": text(point[33:]),
		}}}
	})
	i.Server = httptest.NewServer(mux)
	return i
}

// token is a JWT for a person.
func (i *issuer) token(name string) string {
	now := time.Now().Unix()
	part := func(v any) string {
		b, _ := json.Marshal(v) // of strings and numbers
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := part(map[string]string{"alg": "ES256", "kid": "k", "typ": "JWT"}) + "." + part(map[string]any{
		"iss": i.URL, "sub": "id-" + name, "aud": "okara", "iat": now, "exp": now + 3600, "name": name, "groups": i.groups[name],
	})
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		return ""
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}
