// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

// view is what a caller may see of the registry, by the credentials of its client.
type view struct {
	client           *oci.Client
	catalog          *catalog.Catalog
	depot            *depot.Depot
	links            *links
	pieces           *cache.Cache[*consisting] // repository@digest of the version
	pull             *pullThrough              // nil: no pull-through
	callerCredential bool                      // the credential is the caller's own
	hiding           bool                      // a refusal by the registry is treated as "not found"
}

func (o Options) newView(client *oci.Client, m *Metrics, l *links) *view {
	return &view{
		client: client, links: l, hiding: o.DeniedMeansMissing,
		pieces: cache.New("pieces", piecesBytes, func(c *consisting) int { return c.Size() }, o.Now, m.countLookup),
		depot:  depot.New(depot.Options{Client: client, Layout: o.Layout}),
		catalog: catalog.New(catalog.Options{
			Client: client, Layout: o.Layout, Require: o.Require, Revoked: o.Revoked, TagTTL: o.TagTTL,
			Watch: m.watch(), Logger: o.Logger, Now: o.Now,
		}),
	}
}

// isAbsent reports whether the registry does not have something, according to its answer.
func (v *view) isAbsent(err error) bool {
	if isOwnDecision(err) {
		return false
	}
	return errors.Is(err, oci.ErrNotFound) || v.hiding && isRefusal(err)
}

func isRefusal(err error) bool {
	return errors.Is(err, oci.ErrDenied) || errors.Is(err, oci.ErrUnauthenticated)
}

func (v *view) reportedError(err error) error {
	if v.callerCredential && isRefusal(err) {
		return &callerError{err}
	}
	return err
}

// callerError is a refusal by the registry of the caller's own credential.
type callerError struct{ error }

func (e *callerError) Unwrap() error { return e.error }

// Pass-through: a token in none of okara's own forms is the caller's own credential for the
// registry. Its view has a client with only this credential and caches that only this caller fills,
// so the registry's rules decide about everything. It lives for a minute: so long a right may be
// remembered after the registry has withdrawn it. Archive links carry the credential sealed,
// because clients fetch archives without a token.
const (
	callerTTL      = time.Minute
	maxCallerViews = 256              // concurrent views; the oldest is dropped first
	callerLink     = 12 * time.Minute // lifetime of a link with a credential in it; rounding makes it 15 min at most
)

const sealPassThrough = "pass-through"

// PassesThrough reports whether callers may use their own credential: where the registry itself
// then decides, for modules and providers.
func PassesThrough(r *http.Request) bool {
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	second, _, _ := strings.Cut(rest, "/")
	return slices.Contains([]string{"origin", "mirror", "archives"}, first) || first == "v1" && slices.Contains([]string{"modules", "providers", "catalog"}, second)
}

// views holds the view of the front-end itself, and those of callers with their own credential.
type views struct {
	own     *view
	o       Options
	metrics *Metrics

	mu       sync.Mutex // guards byCaller
	byCaller map[oci.Credential]callerView
}

type callerView struct {
	*view
	until time.Time
}

// viewFor returns the view for a caller's credential, renewed after a minute; nil: the front-end's.
func (s *views) viewFor(c *oci.Credential) (*view, error) {
	if c == nil {
		return s.own, nil
	}
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.byCaller[*c]; ok && now.Before(v.until) {
		return v.view, nil
	}
	v, err := s.newView(*c)
	if err != nil {
		return nil, err
	}
	s.makeRoom(now)
	s.byCaller[*c] = callerView{v, now.Add(callerTTL)}
	return v, nil
}

func (s *views) newView(c oci.Credential) (*view, error) {
	client, err := s.o.PassThrough(c)
	if err != nil {
		return nil, err
	}
	l := s.o.newLinks(min(s.o.Archives.TTL, callerLink))
	if l.sealed, err = s.o.Keys.Seal(sealPassThrough, c); err != nil {
		return nil, err
	}
	v := s.o.newView(client, s.metrics, l)
	v.callerCredential = true
	return v, nil
}

// makeRoom drops the expired views, and the oldest if there are too many. The caller must hold mu.
func (s *views) makeRoom(now time.Time) {
	var oldest oci.Credential
	var end time.Time
	for c, v := range s.byCaller {
		if !now.Before(v.until) {
			delete(s.byCaller, c)
			continue
		}
		if end.IsZero() || v.until.Before(end) {
			oldest = c
			end = v.until
		}
	}
	if len(s.byCaller) >= maxCallerViews {
		delete(s.byCaller, oldest)
	}
}

// viewOfLink returns the view that a link was made for, from the credential in the link.
func (s *views) viewOfLink(sealed string) (*view, error) {
	if sealed == "" {
		return s.own, nil
	}
	var c oci.Credential
	if s.o.PassThrough == nil || s.o.Keys.Open(sealPassThrough, sealed, &c) != nil {
		return nil, forgedError()
	}
	return s.viewFor(&c)
}
