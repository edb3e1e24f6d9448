// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// clock is a clock that a test may move.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// setup is the configuration of a test server. The zero value works.
type setup struct {
	clock  *clock
	via    http.RoundTripper  // to the registry
	split  []string           // organizations whose workspaces have separate repositories
	change func(*tfe.Options) // of the handler
	wrap   func(http.Handler) http.Handler
	store  func(*statebackend.Options) // of each store
	audit  *slog.Logger
}

// tokens returns the callers of tests and their rights.
func tokens() map[string]string {
	return map[string]string{
		"admin":  "write:state:**",
		"reader": "read:state:acme/**",
		"dev":    "write:state:acme/dev-*",
		"ci":     "write:state:acme/**",
		"other":  "write:state:other/**",
		// with the right to run
		"runner":    "write:state:acme/** run:state:acme/**",
		"devrunner": "run:state:acme/dev-*",
		"devwriter": "write:state:acme/dev-* run:state:acme/dev-*",
	}
}

func tokenOf(caller string) string { return "oks_" + caller + "_" + strings.Repeat("s", 32) }

// newServer starts another process's server over host.
func newServer(t testing.TB, host string, o setup) string {
	t.Helper()
	h, _ := newHandler(t, host, o)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// newHandler returns the handler of such a server, and its stores.
func newHandler(t testing.TB, host string, o setup) (http.Handler, *stores) {
	t.Helper()
	if o.clock == nil {
		o.clock = &clock{}
	}
	keys := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}))(t)
	var policy access.Policy
	for caller, scope := range tokens() {
		id, hash := must.GetBoth(statictoken.Hash(tokenOf(caller)))(t)
		token := statictoken.Token{ID: id, Hash: hash}
		for text := range strings.FieldsSeq(scope) {
			s := must.Get(rights.ParseScope(text))(t)
			token.Scopes = append(token.Scopes, s)
		}
		policy.Tokens = append(policy.Tokens, token)
	}
	guard := must.Get(access.New(access.Options{Policy: policy, Keyring: keys, Audit: o.audit}))(t)
	layout := addr.Layout{Split: o.split}
	right := func(action rights.Action, organization, workspace string) rights.Right {
		if workspace == "" {
			return rights.AnyStateRight(layout, action, organization)
		}
		return rights.StateRight(layout, action, organization, workspace)
	}
	stores := &stores{t: t, host: host, o: o, byName: map[string]*statebackend.Store{}}
	options := tfe.Options{
		Kit: service.New(service.Options{Guard: guard}), Keys: keys, Open: stores.open, Now: o.clock.now, SnapshotInterval: 30 * time.Second,
		Right: right,
		Allow: func(r *http.Request, action rights.Action, organization, workspace string) (access.Grant, error) {
			if organization == "" {
				if action == rights.Run {
					return guard.Allow(r, rights.Right{Action: rights.Run, Kind: addr.KindState, Address: rights.Somewhere})
				}
				if err := guard.AllowLogin(r); err != nil {
					return access.Grant{}, err
				}
				return guard.Allow(r, rights.Right{Action: rights.List, Kind: addr.KindState})
			}
			return guard.Allow(r, right(action, organization, workspace))
		},
		Organizations: func(_ context.Context, g access.Grant) ([]string, error) {
			return slices.DeleteFunc([]string{"acme", "other"}, func(name string) bool { return !g.May(right(rights.Read, name, "")) }), nil
		},
		Split: func(organization string) (reserved, fresh bool) {
			return slices.Contains(o.split, organization), slices.Contains(o.split, organization)
		},
		PublicURL: func(r *http.Request) string { return "http://" + r.Host }, MaxState: 512 << 20, Memory: 1 << 30, Renew: func() {},
		Mode: func(string) string { return "" }, Wrote: func(context.Context, string) <-chan struct{} { return nil },
	}
	if o.change != nil {
		o.change(&options)
	}
	h := tfe.New(options)
	if o.wrap != nil {
		h = o.wrap(h)
	}
	return h, stores
}

type stores struct {
	t    testing.TB
	host string
	o    setup

	mu     sync.Mutex // guards byName
	byName map[string]*statebackend.Store
}

func (s *stores) open(_ context.Context, name string) (*statebackend.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if store := s.byName[name]; store != nil {
		return store, nil
	}
	repository, err := addr.Layout{}.StateRepo(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", oci.ErrNotFound, err)
	}
	r, err := oci.OpenRepo(s.host+"/"+repository, oci.Options{PlainHTTP: true, Transport: s.o.via, Retry: oci.Retry{MaxAttempts: 1}})
	if err != nil {
		return nil, err
	}
	so := statebackend.Options{Tool: "test", StrictReads: true, Now: s.o.clock.now}
	if s.o.store != nil {
		s.o.store(&so)
	}
	store := statebackend.New(r, so)
	s.byName[name] = store
	return store, nil
}

// client sends requests as one caller.
type client struct {
	t      testing.TB
	base   string
	caller string            // one of tokens; "": without a token
	tool   string            // version of the tool whose command it is; "": a script
	via    http.RoundTripper // nil: http.DefaultTransport
}

// newTool returns a client that sends the tools' requests.
func newTool(t testing.TB, base string) client {
	return client{t: t, base: base, caller: "ci", tool: "1.12.6"}
}

func newScript(t testing.TB, base string) client { return client{t: t, base: base, caller: "ci"} }

func (c client) as(caller string) client {
	c.caller = caller
	return c
}

func (c client) at(base string) client {
	c.base = base
	return c
}

// doc is a document with one resource, a list of them, or errors.
type doc struct {
	Data   json.RawMessage `json:"data"`
	Meta   json.RawMessage `json:"meta"`
	Errors []struct {
		Status, Title, Detail string
	} `json:"errors"`
}

type item struct {
	Type          string
	ID            string
	Attributes    map[string]any
	Relationships map[string]struct{ Data json.RawMessage }
}

type reply struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
}

// do sends JSON:API below /api/v2/ unless path has a scheme.
func (c client) do(method, path string, body any) reply {
	c.t.Helper()
	var b []byte
	switch body := body.(type) {
	case nil:
	case string:
		b = []byte(body)
	case []byte:
		b = body
	default:
		var err error
		if b, err = json.Marshal(body); err != nil {
			c.t.Fatal(err)
		}
	}
	if !strings.Contains(path, "://") {
		path = c.base + "/api/v2/" + path
	}
	r := must.Get(http.NewRequestWithContext(c.t.Context(), method, path, bytes.NewReader(b)))(c.t)
	if body != nil {
		r.Header.Set("Content-Type", "application/vnd.api+json")
	}
	if c.caller != "" {
		r.Header.Set("Authorization", "Bearer "+tokenOf(c.caller))
	}
	if c.tool != "" {
		r.Header.Set("Terraform-Version", c.tool)
	}
	resp := must.Get((&http.Client{Transport: c.via}).Do(r))(c.t)
	defer resp.Body.Close()
	b = must.Get(io.ReadAll(resp.Body))(c.t)
	return reply{c.t, resp.StatusCode, resp.Header, b}
}

// want sends a request and checks the status, and the headers that every answer has.
func (c client) want(status int, method, path string, body any) reply {
	c.t.Helper()
	a := c.do(method, path, body)
	if a.status != status {
		c.t.Fatalf("%s %s %.100v: status %d, want %d: %s", method, path, body, a.status, status, a.body)
	}
	if a.header.Get("TFP-API-Version") == "" || a.header.Get("Cache-Control") != "no-store" {
		c.t.Errorf("%s %s: header %v", method, path, a.header)
	}
	if status >= 400 {
		if d := a.doc(); len(d.Errors) != 1 || d.Errors[0].Status != fmt.Sprint(status) || d.Errors[0].Title == "" {
			c.t.Errorf("%s %s: %s is no document of an error", method, path, a.body)
		}
	}
	return a
}

func (a reply) doc() doc {
	a.t.Helper()
	var d doc
	if err := json.Unmarshal(a.body, &d); err != nil {
		a.t.Fatalf("%s: %v", a.body, err)
	}
	must.Equal(a.t, "the type", a.header.Get("Content-Type"), "application/vnd.api+json")
	return d
}

func (a reply) item() item {
	a.t.Helper()
	var i item
	if err := json.Unmarshal(a.doc().Data, &i); err != nil {
		a.t.Fatalf("%s: %v", a.body, err)
	}
	return i
}

func (a reply) items() []item {
	a.t.Helper()
	var list []item
	if err := json.Unmarshal(a.doc().Data, &list); err != nil {
		a.t.Fatalf("%s: %v", a.body, err)
	}
	return list
}

func (a reply) names() []string {
	a.t.Helper()
	names := []string{}
	for _, i := range a.items() {
		names = append(names, fmt.Sprint(i.Attributes["name"]))
	}
	return names
}

type object = map[string]any

// newWorkspace is the body of POST for a workspace with tags.
func newWorkspace(name string, tags ...string) object {
	list := []object{}
	for _, tag := range tags {
		list = append(list, object{"type": "tags", "attributes": object{"name": tag}})
	}
	return object{"data": object{
		"type": "workspaces", "attributes": object{"name": name},
		"relationships": object{"tags": object{"data": list}},
	}}
}

func (c client) create(name string, tags ...string) string {
	c.t.Helper()
	return c.want(http.StatusCreated, http.MethodPost, "organizations/acme/workspaces", newWorkspace(name, tags...)).item().ID
}

// read returns the id of a workspace as a command of the client receives it.
func (c client) read(name string) string {
	c.t.Helper()
	return c.want(http.StatusOK, http.MethodGet, "organizations/acme/workspaces/"+url.PathEscape(name), nil).item().ID
}

func (c client) lock(status int, id string) reply {
	c.t.Helper()
	return c.want(status, http.MethodPost, "workspaces/"+id+"/actions/lock", object{"reason": "test"})
}

func (c client) unlock(status int, id string) reply {
	c.t.Helper()
	return c.want(status, http.MethodPost, "workspaces/"+id+"/actions/unlock", nil)
}

// openStore returns a store on the repository of a NAME, as other APIs use it.
func openStore(t testing.TB, host, name string) *statebackend.Store {
	t.Helper()
	s := &stores{t: t, host: host, o: setup{clock: &clock{}}, byName: map[string]*statebackend.Store{}}
	return must.Get(s.open(t.Context(), name))(t)
}

func newRegistry(t testing.TB) string {
	t.Helper()
	return ocitest.New(t, ocitest.Quirks{})
}

func lockInfo() statebackend.LockInfo { return statebackend.NewLockInfo("test", "test") }

func mustLock(t testing.TB, s *statebackend.Store, workspace string) *statebackend.Lock {
	t.Helper()
	return must.Get(s.Lock(t.Context(), workspace, lockInfo()))(t)
}

// mustPut stores a state through another API.
func mustPut(t testing.TB, s *statebackend.Store, workspace, state string) {
	t.Helper()
	must.Succeed(t, s.Hold(t.Context(), workspace, lockInfo(), func(l *statebackend.Lock) error {
		_, err := l.Put(t.Context(), []byte(state))
		return err
	}))
}
