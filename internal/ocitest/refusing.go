// SPDX-License-Identifier: Apache-2.0

package ocitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Refusals are rules by which a registry refuses, in Harbor 2.16's words unless noted; zero: none.
type Refusals struct {
	Immutable    []string // patterns of tags that can be neither moved nor deleted: 412
	Exempt       []string // patterns of tags exempt from Immutable
	NoUpdate     bool     // an account that may only create: 403 for a tag that exists (zot without "update")
	NoDelete     bool     // an account that may not delete: 403 (zot without "delete"), and 401 with Projects
	NoUntag      bool     // DELETE of a tag: 400 UNSUPPORTED; DELETE of a digest works
	ContentTrust bool     // reading a manifest without a cosign signature: 412
	// Projects are first path elements, with the rights of account "robot", password "secret":
	// pull, push, delete. Nil: no accounts.
	Projects map[string][]string
}

// Refusing is a registry whose rules may change, as Harbor's and zot's.
type Refusing struct {
	Host string

	inner http.Handler
	mu    sync.Mutex // guards rules
	rules Refusals
}

// NewRefusing starts a registry with rules.
func NewRefusing(t testing.TB, rules Refusals) *Refusing {
	t.Helper()
	g := &Refusing{inner: Handler(t, Quirks{}), rules: rules}
	g.Host = serveHandler(t, g)
	return g
}

// Refuse replaces the rules.
func (g *Refusing) Refuse(rules Refusals) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules = rules
}

func (g *Refusing) currentRules() Refusals {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rules
}

func (g *Refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rules := g.currentRules()
	p := parsePlace(r.URL.Path)
	if rules.Projects != nil && !rules.admitsRequest(w, r, p) {
		return
	}
	switch {
	case p.kind != "manifest":
		g.inner.ServeHTTP(w, r)
	case r.Method == http.MethodPut && !p.digest():
		g.putManifest(w, r, p, rules)
	case r.Method == http.MethodDelete:
		g.removeManifest(w, r, p, rules)
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && rules.ContentTrust:
		g.readSigned(w, r, p)
	default:
		g.inner.ServeHTTP(w, r)
	}
}

func (rules Refusals) isImmutable(tag string) bool {
	matches := func(pattern string) bool {
		ok, err := path.Match(pattern, tag)
		return err == nil && ok
	}
	return slices.ContainsFunc(rules.Immutable, matches) && !slices.ContainsFunc(rules.Exempt, matches)
}

// digestOf returns the digest of a tag, or "" if the tag does not exist.
func (g *Refusing) digestOf(r *http.Request, name, ref string) string {
	rec := httptest.NewRecorder()
	head := httptest.NewRequest(http.MethodHead, "/v2/"+name+"/manifests/"+ref, nil).WithContext(r.Context())
	head.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json")
	g.inner.ServeHTTP(rec, head)
	if rec.Code != http.StatusOK {
		return ""
	}
	return rec.Header().Get("Docker-Content-Digest")
}

func refuseImmutable(w http.ResponseWriter, tag string) {
	sendRefusal(w, http.StatusPreconditionFailed, "PRECONDITION", fmt.Sprintf("Failed to process request due to '%s' configured as immutable.", tag))
}

// putManifest refuses to overwrite an existing tag. Harbor does so even for identical bytes.
func (g *Refusing) putManifest(w http.ResponseWriter, r *http.Request, p place, rules Refusals) {
	immutable := rules.isImmutable(p.ref)
	exists := (immutable || rules.NoUpdate) && g.digestOf(r, p.name, p.ref) != ""
	switch {
	case exists && immutable:
		_, _ = io.Copy(io.Discard, r.Body)
		refuseImmutable(w, p.ref)
	case exists:
		_, _ = io.Copy(io.Discard, r.Body)
		sendRefusal(w, http.StatusForbidden, "DENIED", "requested access to the resource is denied")
	default:
		g.inner.ServeHTTP(w, r)
	}
}

func (g *Refusing) removeManifest(w http.ResponseWriter, r *http.Request, p place, rules Refusals) {
	if rules.NoDelete {
		sendRefusal(w, http.StatusForbidden, "DENIED", "requested access to the resource is denied")
		return
	}
	if rules.NoUntag && !p.digest() {
		sendRefusal(w, http.StatusBadRequest, "UNSUPPORTED", "unsupported digest "+p.ref+": invalid checksum digest format")
		return
	}
	tags := []string{p.ref}
	if p.digest() {
		tags = g.tagsOf(r, p)
	}
	for _, tag := range tags {
		if rules.isImmutable(tag) {
			refuseImmutable(w, tag)
			return
		}
	}
	g.inner.ServeHTTP(w, r)
}

func (g *Refusing) tagsOf(r *http.Request, p place) []string {
	list := httptest.NewRequest(http.MethodGet, "/v2/"+p.name+"/tags/list", nil).WithContext(r.Context())
	tags, _ := listTags(g.inner, list)
	return slices.DeleteFunc(tags, func(tag string) bool { return g.digestOf(r, p.name, tag) != p.ref })
}

// readSigned serves manifests with a cosign signature, and signatures.
func (g *Refusing) readSigned(w http.ResponseWriter, r *http.Request, p place) {
	d := p.ref
	if !p.digest() {
		d = g.digestOf(r, p.name, p.ref)
	}
	signature := strings.ReplaceAll(d, ":", "-") + ".sig"
	if d == "" || strings.HasSuffix(p.ref, ".sig") || g.digestOf(r, p.name, signature) != "" {
		g.inner.ServeHTTP(w, r)
		return
	}
	sendRefusal(w, http.StatusPreconditionFailed, "PROJECTPOLICYVIOLATION", "The image is not signed by cosign.")
}

// Account returns the name and the password of the registry's account.
func (g *Refusing) Account() (user, password string) { return "robot", "secret" }

// admitsRequest answers like Harbor: 401 for any missing right, a Basic challenge with credentials.
func (rules Refusals) admitsRequest(w http.ResponseWriter, r *http.Request, p place) bool {
	if p.kind == "token" {
		rules.anyToken(w, r)
		return false
	}
	user, authenticated := callerOf(r)
	project, _, _ := strings.Cut(p.name, "/")
	may, exists := rules.Projects[project]
	action := actionOf(r)
	switch {
	case user == "" && p.name == "":
		sendChallenge(w, r, "", authenticated)
		sendRefusal(w, http.StatusUnauthorized, "UNAUTHORIZED", "unauthorized: unauthorized")
		return false
	case p.name == "", user != "" && slices.Contains(may, action) && !(action == "delete" && rules.NoDelete):
		return true
	}
	text := fmt.Sprintf("unauthorized to access repository: %s, action: %s", p.name, action)
	if !exists && user != "" {
		text = "project " + project + " not found"
	}
	sendChallenge(w, r, "repository:"+p.name+":"+action, authenticated)
	sendRefusal(w, http.StatusUnauthorized, "UNAUTHORIZED", text+": "+text)
	return false
}

func actionOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return "pull"
	case http.MethodDelete:
		return "delete"
	}
	return "push"
}

// callerOf returns a request's user, or "", and whether it has credentials.
func callerOf(r *http.Request) (user string, authenticated bool) {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		c, _ := (&Issuer{}).readToken(token)
		return c.User, true
	}
	name, password, ok := r.BasicAuth()
	if name != "robot" || password != "secret" {
		return "", ok
	}
	return name, true
}

func sendChallenge(w http.ResponseWriter, r *http.Request, scope string, authenticated bool) {
	text := `Basic realm="harbor"`
	if !authenticated {
		text = fmt.Sprintf(`Bearer realm="http://%s/service/token",service="harbor-registry"`, r.Host)
		if scope != "" {
			text += fmt.Sprintf(",scope=%q", scope)
		}
	}
	w.Header().Set("WWW-Authenticate", text)
}

// anyToken issues a token for any scope; with a wrong password it names no user.
func (rules Refusals) anyToken(w http.ResponseWriter, r *http.Request) {
	user, _ := callerOf(r)
	scopes := r.URL.Query()["scope"]
	if user == "" && len(scopes) == 0 {
		sendRefusal(w, http.StatusUnauthorized, "UNAUTHORIZED", "unauthorized: unauthorized")
		return
	}
	issuer := &Issuer{Allow: func(_, repository, action string) bool {
		project, _, _ := strings.Cut(repository, "/")
		return slices.Contains(rules.Projects[project], action)
	}}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"token": issuer.issue(user, scopes)})
}
