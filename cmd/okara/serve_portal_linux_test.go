// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

const (
	portalAnna = "oks_anna_portal0123456789abcdef"
	portalBoss = "oks_boss_portal0123456789abcdef"
)

const portalTemplate = `
template "lab/vpc" {
  title    = "A network"
  approval = "request"
  module { address = "net/vpc/aws" }
}
`

const portalServer = `
registry = %q
archives {
  key_files = [%q]
}
ui {
  session_key_files = [%q]
}
instances {
  templates                = %q
  unsealed                 = true
  advertise                = "http://%s"
  portal_session_key_files = [%q]
}
executor "local" {
  program   = %q
  isolation = "none"
}
`

const portalPortal = `
registry = %q
ui {
  session_key_files = [%q]
}
instances {
  role = "portal"
}
`

// twoServers are a server that leads and a portal before it, as processes with one registry.
type twoServers struct{ full, portal *serveProcess }

func newTwoServers(t *testing.T) twoServers {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	at := l.Addr().String()
	if err := l.Close(); err != nil { // the address has to be known before it is served
		t.Fatal(err)
	}
	tool := filepath.Join(t.TempDir(), "tofu")
	must.Succeed(t, os.WriteFile(tool, []byte("#!/bin/sh\necho 'OpenTofu v1.12.6'\n"), 0o700))
	key := func(s string) string { return newFile(t, "key", hex.EncodeToString([]byte(strings.Repeat(s, 32)))) }
	registry, portalKey := ocitest.New(t, ocitest.Quirks{})+"/okara", key("p")
	full := newFile(t, "okara.hcl", fmt.Sprintf(portalServer, registry, key("a"), key("s"), filepath.Dir(newFile(t, "lab.hcl", portalTemplate)), at, portalKey, tool))
	portal := newFile(t, "okara.hcl", fmt.Sprintf(portalPortal, registry, portalKey))
	tokens := newFile(t, "tokens", portalAnna+" use:instance:lab/* read:*:** write:state:** admin:*:**\n"+portalBoss+" publish:module:** read:*:**\n")
	var s twoServers
	s.full = newServeProcess(t, nil, "--listen", at, "--config", full, "--token-file", tokens)
	s.portal = newServeProcess(t, nil, "--config", portal, "--token-file", tokens)
	return s
}

// visit makes a request like a browser, or with a token.
func (p *serveProcess) visit(t *testing.T, who, method, path, body string) (status int, header http.Header, text string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body)))(t)
	switch {
	case strings.HasPrefix(who, "oks_"):
		r.Header.Set("Authorization", "Bearer "+who)
	case who != "":
		r.Header.Set("Cookie", who)
	}
	if method == http.MethodPost {
		r.Header.Set("Origin", p.url)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/state/") {
			r.Header.Set("Content-Type", "application/json")
		}
	}
	resp := must.Get(http.DefaultTransport.RoundTrip(r))(t) // a redirect is an answer
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, resp.Header, string(b)
}

// until waits for a status: a server has to lead.
func (p *serveProcess) until(t *testing.T, status int, who, method, path, body string) string {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		got, _, text := p.visit(t, who, method, path, body)
		if got == status {
			return text
		}
		if time.Now().After(end) {
			t.Fatalf("%s %s: %d %s, want %d; log:\n%s", method, path, got, text, status, p.log)
		}
	}
}

// logIn starts a browser session with a token, and returns its cookie.
func (p *serveProcess) logIn(t *testing.T, token string) *http.Cookie {
	t.Helper()
	status, header, text := p.visit(t, "", http.MethodPost, "/ui/login", url.Values{"token": {token}, "return": {"/ui/"}}.Encode())
	for _, c := range (&http.Response{Header: header}).Cookies() {
		if c.Name == p.cookieName() {
			return c
		}
	}
	t.Fatalf("no session: %d %v %s", status, header, text)
	return nil
}

// TestServePortal logs in at a portal, launches there, and presents its session to the server
// that leads: it opens only the pages of instances, and the portal accepts no session of that
// server.
//
// Shows: platform-attacks 16 | a portal's session used at the leading server, and the other way
// round, as processes
func TestServePortal(t *testing.T) {
	s := newTwoServers(t)
	module := depottest.ZipOf(t, map[string]string{"main.tf": "output \"id\" { value = 1 }\n"})
	s.full.until(t, http.StatusCreated, portalBoss, http.MethodPut, "/v1/modules/net/vpc/aws/1.0.0", string(module))
	s.full.until(t, http.StatusOK, portalAnna, http.MethodPost, "/state/shop/default", `{"version":4,"serial":1,"lineage":"l","resources":[]}`)
	const launch = `{"template":"lab/vpc","name":"annas network"}`
	s.full.until(t, http.StatusAccepted, portalAnna, http.MethodPost, "/api/v1/instances", launch) // a server leads and knows the template

	here := s.portal.logIn(t, portalAnna)
	cookie := s.portal.named(here)
	if page := s.portal.until(t, http.StatusOK, cookie, http.MethodGet, "/ui/templates", ""); !strings.Contains(page, "A network") {
		t.Errorf("templates at the portal: %s", page)
	}
	if status, _, text := s.portal.visit(t, cookie, http.MethodPost, "/api/v1/instances", launch); status != http.StatusAccepted {
		t.Errorf("launched at the portal: %d %s", status, text)
	}
	for where, page := range map[string]string{
		"the portal": s.portal.until(t, http.StatusOK, cookie, http.MethodGet, "/ui/instances", ""),
		"the server": s.full.until(t, http.StatusOK, s.full.named(here), http.MethodGet, "/ui/instances", ""),
	} {
		if strings.Contains(page, `/states"`) {
			t.Errorf("%s leads from instances to states: %s", where, page)
		}
		if n := strings.Count(page, ">annas network<"); n != 2 {
			t.Errorf("%s lists %d instances: %s", where, n, page)
		}
	}

	there := s.full.logIn(t, portalAnna)
	own := s.full.named(there)
	for _, path := range []string{
		"/ui/", "/ui/search?q=vpc", "/ui/modules/net", "/ui/modules/net/vpc/aws", "/ui/modules/net/vpc/aws/1.0.0/files", "/ui/states", "/ui/states/shop", "/ui/states/shop/default",
		"/ui/doctor", "/api/v1/search?q=vpc",
	} {
		if status, _, text := s.full.visit(t, own, http.MethodGet, path, ""); status != http.StatusOK {
			t.Errorf("%s with a session of the server: %d %s", path, status, text)
		}
		status, _, text := s.full.visit(t, s.full.named(here), http.MethodGet, path, "")
		text = strings.ReplaceAll(text, path, "") // the form that changes the theme links back
		if status != http.StatusForbidden || strings.Contains(text, "net/vpc/aws") || strings.Contains(text, "shop") {
			t.Errorf("%s with a session of the portal: %d %s", path, status, text)
		}
	}
	if status, _, text := s.full.visit(t, s.full.named(here), http.MethodGet, "/v1/modules/net/vpc/aws/versions", ""); status != http.StatusUnauthorized {
		t.Errorf("the registry takes the session of a portal: %d %s", status, text)
	}
	for _, path := range []string{"/ui/templates", "/ui/instances"} { // for the API the leader decides
		status, header, text := s.portal.visit(t, s.portal.named(there), http.MethodGet, path, "")
		if status == http.StatusOK || status == http.StatusSeeOther && !strings.Contains(header.Get("Location"), "login") {
			t.Errorf("%s at the portal with a session of the server: %d %v %s", path, status, header, text)
		}
	}
	for _, path := range []string{"/ui/states", "/ui/states/shop", "/v1/modules/net/vpc/aws/versions", "/state/shop/default", "/v2/"} {
		if status, _, text := s.portal.visit(t, portalAnna, http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s at the portal: %d %s", path, status, text)
		}
	}
	for _, p := range []*serveProcess{s.portal, s.full} {
		p.signal(t, syscall.SIGTERM)
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, p.log)
		}
		for _, secret := range []string{portalAnna, portalBoss, here.Value, there.Value} {
			if strings.Contains(p.log.String(), secret) {
				t.Errorf("a log has %s", secret)
			}
		}
	}
}

// named returns a cookie as a browser sends it, with the port.
func (p *serveProcess) named(c *http.Cookie) string { return p.cookieName() + "=" + c.Value }

func (p *serveProcess) cookieName() string { return "okara-" + p.url[strings.LastIndex(p.url, ":")+1:] }
