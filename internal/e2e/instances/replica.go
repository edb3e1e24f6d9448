// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// replica is one okara serve process.
type replica struct {
	w      *world
	name   string
	url    string
	config string
	cmd    *exec.Cmd
	client *http.Client
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
	if err := l.Close(); err != nil { // the replica uses the port from now on
		return nil, err
	}
	p := &replica{w: w, name: name, url: "https://" + at, config: w.path(name, "okara.hcl")}
	config := fmt.Sprintf(replicaConfig, at, w.registry, w.path(name, "storage"), w.path(name, "audit"), w.path("archive.key"), w.issuer.URL,
		w.path("templates"), p.url, filepath.Join(w.root, ".cache/tofu/1.12.6/tofu"))
	if err := os.WriteFile(p.config, []byte(config), 0o600); err != nil {
		return nil, err
	}
	if name != "a" { // one certificate, so that they trust one another
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

// trust copies the certificate of the local CA to where all clients look for it.
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

// leads reports whether the replica itself says that it leads.
func (p *replica) leads(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/me", nil)
	if err != nil {
		return false
	}
	r.Header.Set("Authorization", "Bearer "+p.w.issuer.token(p.w.person("carla", "approvers")))
	r.Header.Set("Okara-Hop", "1") // a replica that does not lead refuses to forward it
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
		time.Sleep(time.Second) // the run waits in the queue
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

// do makes a request to the API of a replica.
func (p *replica) do(ctx context.Context, who, method, path, body string) (int, []byte, error) {
	status, b, _, err := p.ask(ctx, who, method, path, body)
	return status, b, err
}

func (p *replica) ask(ctx context.Context, who, method, path, body string) (status int, b []byte, asOf string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, p.url+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	r.Header.Set("Authorization", "Bearer "+p.w.issuer.token(who))
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
		key := make([]byte, 12)
		p.w.random(key)
		r.Header.Set("Idempotency-Key", base64.RawURLEncoding.EncodeToString(key))
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	b, err = io.ReadAll(io.LimitReader(resp.Body, 32<<20))
	return resp.StatusCode, b, resp.Header.Get("Okara-As-Of"), err
}

// call is do with an expected status, 0 for any success.
func (p *replica) call(ctx context.Context, who, method, path, body string, want int, v any) error {
	status, b, err := p.do(ctx, who, method, path, body)
	if err != nil {
		return err
	}
	if status != want && (want != 0 || status >= 300) {
		return fmt.Errorf("%s %s: %d, want %d: %s", method, path, status, want, b)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(b, v)
}
