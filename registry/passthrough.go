// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"net/http"
	"slices"
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
	servers map[oci.Credential]onBehalf
}

type onBehalf struct {
	h     http.Handler
	until time.Time
}

func newPassThrough(s *server) *passThrough {
	return &passThrough{s: s, servers: map[oci.Credential]onBehalf{}}
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

// credential returns what the caller brings, in a link or as its token.
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
	return p.s.access.Credential(r)
}

// PassesThrough reports whether a route reads or writes modules and providers.
// Only there callers may bring their own credential.
func PassesThrough(r *http.Request) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return slices.Contains([]string{"v1", "origin", "mirror", "archives"}, first)
}

// server returns the handler for a credential, a new one after a minute.
func (p *passThrough) server(c oci.Credential) (http.Handler, error) {
	now := p.s.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, ok := p.servers[c]; ok && now.Before(b.until) {
		return b.h, nil
	}
	s, err := p.newServer(c)
	if err != nil {
		return nil, err
	}
	p.makeRoom(now)
	p.servers[c] = onBehalf{h: s.routes(), until: now.Add(onBehalfTTL)}
	return p.servers[c].h, nil
}

func (p *passThrough) newServer(c oci.Credential) (*server, error) {
	o := p.s.o
	client, err := o.PassThrough(c)
	if err != nil {
		return nil, err
	}
	o.Client, o.PassThrough, o.PullThrough, o.Metrics = client, nil, nil, p.s.metrics
	o.Blobs, o.Files = blobcache.Options{}, nil // others filled them
	o.Archives.TTL = min(o.Archives.TTL, onBehalfLink)
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	s.counts, s.slots = p.s.counts, p.s.slots // of the process
	if s.links.sealed, err = p.s.keys.Seal(sealPassThrough, c); err != nil {
		return nil, err
	}
	s.onBehalf = true
	return s, nil
}

// makeRoom drops the servers that have ended, and the oldest if there are too
// many. It needs mu.
func (p *passThrough) makeRoom(now time.Time) {
	var oldest oci.Credential
	var end time.Time
	for c, b := range p.servers {
		if !now.Before(b.until) {
			delete(p.servers, c)
			continue
		}
		if end.IsZero() || cmp.Compare(b.until.UnixNano(), end.UnixNano()) < 0 {
			oldest, end = c, b.until
		}
	}
	if len(p.servers) >= onBehalfMost {
		delete(p.servers, oldest)
	}
}
