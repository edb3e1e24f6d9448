// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/blobcache"
	"github.com/seed-141914ff/okara/oci"
)

// Pass-through: a token that is none of ours is the caller's own credential for
// the registry behind the front-end. A server of its own answers such a caller,
// with a client that has this credential and nothing else and with caches that
// nobody else fills, so the registry's rules decide about everything. It lives
// for a minute: that is how long a right may be remembered after the registry
// has withdrawn it. Archive links carry the credential sealed, because clients
// fetch archives without a token.
const (
	onBehalfTTL  = time.Minute
	onBehalfMost = 256              // servers at a time; the oldest goes first
	onBehalfLink = 12 * time.Minute // life of a link with a credential in it; rounding makes it 15 at most
)

// sealPassThrough is the purpose of the sealed credentials.
const sealPassThrough = "pass-through"

// passThrough keeps the servers of callers who bring their own credential.
type passThrough struct {
	s *server // the front-end itself

	mu      sync.Mutex // guards servers
	servers map[[sha256.Size]byte]onBehalf
}

type onBehalf struct {
	h     http.Handler
	until time.Time
}

func newPassThrough(s *server) *passThrough {
	return &passThrough{s: s, servers: map[[sha256.Size]byte]onBehalf{}}
}

// around hands requests that carry a registry credential, or a link with one,
// to the server of that credential, and all others to next.
func (p *passThrough) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok, err := p.credential(r)
		if err == nil && !ok {
			next.ServeHTTP(w, r)
			return
		}
		var h http.Handler
		if err == nil {
			h, err = p.server(c)
		}
		if err != nil {
			p.s.wrap(func(http.ResponseWriter, *http.Request) error { return err }).ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// credential returns what the caller brings. Only the routes that read and
// write modules and providers take it.
func (p *passThrough) credential(r *http.Request) (oci.Credential, bool, error) {
	if rest, ok := strings.CutPrefix(r.URL.Path, "/archives/"); ok {
		token, _, _ := strings.Cut(rest, "/")
		if _, sealed := cutSealed(token); sealed != "" {
			var c oci.Credential
			if p.s.keys.Open(sealPassThrough, sealed, &c) != nil {
				return c, false, forged()
			}
			return c, true, nil
		}
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "v1", "origin", "mirror", "archives":
	default:
		return oci.Credential{}, false, nil
	}
	token, ok := bearer(r)
	if !ok || token == "" || strings.HasPrefix(token, tokenPrefix) || strings.HasPrefix(token, loginPrefix) {
		return oci.Credential{}, false, nil
	}
	if _, ours := p.s.issuers.find(token); ours {
		return oci.Credential{}, false, nil
	}
	c, err := parseCredential(token)
	return c, err == nil, err
}

// parseCredential reads the forms that `okara auth token` prints.
func parseCredential(token string) (oci.Credential, error) {
	refused := &httpError{status: http.StatusUnauthorized, text: "the token has not the form of a registry credential"}
	decode := func(s string) (string, bool) {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
		return string(b), err == nil && len(b) > 0
	}
	if rest, ok := strings.CutPrefix(token, "basic."); ok {
		text, good := decode(rest)
		user, password, colon := strings.Cut(text, ":")
		if !good || !colon {
			return oci.Credential{}, refused
		}
		return oci.Credential{Username: user, Password: password}, nil
	}
	if rest, ok := strings.CutPrefix(token, "identity."); ok {
		text, good := decode(rest)
		if !good {
			return oci.Credential{}, refused
		}
		return oci.Credential{IdentityToken: text}, nil
	}
	return oci.Credential{RegistryToken: token}, nil
}

// server returns the handler for a credential, a new one after a minute.
func (p *passThrough) server(c oci.Credential) (http.Handler, error) {
	id := sha256.Sum256([]byte(strings.Join([]string{c.Username, c.Password, c.IdentityToken, c.RegistryToken}, "\x00")))
	now := p.s.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, ok := p.servers[id]; ok && now.Before(b.until) {
		return b.h, nil
	}
	s, err := p.newServer(c, hex.EncodeToString(id[:4]))
	if err != nil {
		return nil, err
	}
	p.makeRoom(now)
	p.servers[id] = onBehalf{h: s.routes(), until: now.Add(onBehalfTTL)}
	return p.servers[id].h, nil
}

func (p *passThrough) newServer(c oci.Credential, name string) (*server, error) {
	o := p.s.o
	client, err := o.PassThrough(c)
	if err != nil {
		return nil, err
	}
	o.Client, o.PassThrough, o.Access, o.PullThrough = client, nil, Access{}, nil
	o.Login, o.Embedded, o.State, o.Depot, o.Metrics = nil, nil, nil, nil, p.s.metrics
	o.Blobs, o.Files = blobcache.Options{}, nil // others filled them
	o.Archives.TTL = min(o.Archives.TTL, onBehalfLink)
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	s.counts, s.busy, s.slots, s.bodies = p.s.counts, p.s.busy, p.s.slots, p.s.bodies // of the process
	if s.links.sealed, err = p.s.keys.Seal(sealPassThrough, c); err != nil {
		return nil, err
	}
	s.onBehalf = &caller{mode: "pass-through", subject: name, scopes: []Scope{{"admin", "*", "**"}}}
	return s, nil
}

// makeRoom drops the servers that have ended, and the oldest if there are too
// many. It needs mu.
func (p *passThrough) makeRoom(now time.Time) {
	var oldest [sha256.Size]byte
	var end time.Time
	for id, b := range p.servers {
		if !now.Before(b.until) {
			delete(p.servers, id)
			continue
		}
		if end.IsZero() || cmp.Compare(b.until.UnixNano(), end.UnixNano()) < 0 {
			oldest, end = id, b.until
		}
	}
	if len(p.servers) >= onBehalfMost {
		delete(p.servers, oldest)
	}
}
