// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// States gives a registry's states, directly and over HTTP for an issuer's runs.
type States struct {
	URL  *url.URL // of the HTTP server
	host string   // of the registry

	mu     sync.Mutex // guards the field below
	stores map[string]*statebackend.Store
}

// NewStates serves backend http for an issuer's keys, with runs' rights in cluster prod.
func NewStates(t testing.TB, host, issuer string, keys []byte, now func() time.Time) *States {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jwks.json")
	must.Succeed(t, os.WriteFile(file, keys, 0o600))
	ring, err := keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}})
	if err != nil {
		t.Fatal(err)
	}
	right := rights.Scope{Action: rights.Write, Kind: addr.KindState, Glob: "prod.{namespace}/{workspace}"}
	guard := must.Get(access.New(access.Options{Keyring: ring, Now: now, Policy: access.Policy{
		Issuers: []access.Issuer{{URL: issuer, Audiences: []string{"okara"}, KeysFile: file}},
		Rules:   []access.Rule{{Name: "runs", Issuer: issuer, Allow: []rights.Scope{right}}},
	}}))(t)
	s := &States{host: host, stores: map[string]*statebackend.Store{}}
	other := &States{host: host, stores: map[string]*statebackend.Store{}} // as in another process
	states := httpbackend.New(httpbackend.Options{Open: func(_ context.Context, name string) (*statebackend.Store, error) { return other.Store(name) }})
	mux := http.NewServeMux()
	mux.HandleFunc("/state/{name}/{workspace}", func(w http.ResponseWriter, r *http.Request) {
		grant, err := guard.Allow(r, rights.StateRight(addr.Layout{}, rights.Write, r.PathValue("name"), r.PathValue("workspace")))
		if refusal, ok := errors.AsType[*access.Refusal](err); ok {
			http.Error(w, refusal.Text, refusal.Status)
			return
		}
		states.For(grant.Run()).ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	if s.URL, err = url.Parse(server.URL); err != nil {
		t.Fatal(err)
	}
	return s
}

// Names returns the names of the states that are not empty.
func (s *States) Names(ctx context.Context) ([]string, error) {
	c, err := oci.New(s.host, oci.Options{PlainHTTP: true})
	if err != nil {
		return nil, err
	}
	all, err := c.Repositories(ctx)
	for i := range all {
		all[i] = strings.TrimPrefix(all[i], "state/")
	}
	return all, err
}

// Store returns the repository of a state, the same one at each call.
func (s *States) Store(name string) (*statebackend.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if store := s.stores[name]; store != nil {
		return store, nil
	}
	r, err := oci.OpenRepo(s.host+"/state/"+name, oci.Options{PlainHTTP: true})
	if err != nil {
		return nil, err
	}
	s.stores[name] = statebackend.New(r, statebackend.Options{Tool: "test", StrictReads: true})
	return s.stores[name], nil
}
