// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/statebackend"
)

// stateStores holds stores of states by name, kept, as each knows the locks that this process won.
type stateStores struct {
	back    backend
	options statebackend.Options

	mu     sync.Mutex // guards byName
	byName map[string]*statebackend.Store
}

// maxStores is the number of names from which on those without locks are forgotten: anybody may
// ask for names that do not exist.
const maxStores = 2000

// stateMemory bounds, in bytes, the states of all requests, separately for reading and writing.
const stateMemory = 512 << 20

// newStateStores returns the stores of the layout's states.
func newStateStores(b backend, o statebackend.Options, log *slog.Logger) *stateStores {
	o.Logger = log
	o.Budget = statebackend.NewBudget(stateMemory)
	if b.acts != nil {
		o.Maker = b.acts.makerOf
	}
	return &stateStores{back: b, options: o, byName: make(map[string]*statebackend.Store)}
}

// storeNamed returns the store of a name; a name that cannot be stored is not found.
func (s *stateStores) storeNamed(_ context.Context, name string) (*statebackend.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if store := s.byName[name]; store != nil {
		return store, nil
	}
	store, err := states.Open(s.back.client, s.back.layout, name, s.options)
	if err == nil {
		if len(s.byName) >= maxStores {
			maps.DeleteFunc(s.byName, func(_ string, store *statebackend.Store) bool { return statebackend.IsIdle(store) })
		}
		s.byName[name] = store
	}
	return store, err
}

// pageMemory bounds the memory for the states that pages read.
const pageMemory = 128 << 20

// states returns the states of the layout, for the pages.
func (s *Settings) states(b backend, env Env) (*states.States, error) {
	o := env.States
	o.Budget = statebackend.NewBudget(pageMemory)
	states, err := states.New(states.Options{Client: b.client, Layout: b.layout, State: o, Names: s.UI.States, Logger: env.Log})
	if err != nil {
		return nil, syntax.WrongAt(s.UI.Range, err)
	}
	return states, nil
}

// shownStates returns the states that pages show; nil: none.
func (o *Options) shownStates() *states.States {
	if o.off.States {
		return nil
	}
	return o.States
}

// lockAddress serves /lock below a state: POST or PUT locks, DELETE unlocks, as for GitLab.
func lockAddress(state service.Handler) service.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		method, ok := map[string]string{http.MethodPost: "LOCK", http.MethodPut: "LOCK", http.MethodDelete: "UNLOCK", "LOCK": "LOCK", "UNLOCK": "UNLOCK"}[r.Method]
		if !ok {
			w.Header().Set("Allow", "POST, PUT, DELETE, LOCK, UNLOCK")
			return &service.Error{Status: http.StatusMethodNotAllowed, Text: "acquire a lock with POST, PUT or LOCK, release it with DELETE or UNLOCK"}
		}
		asked := r.Clone(r.Context())
		asked.Method = method
		asked.URL.Path = strings.TrimSuffix(r.URL.Path, "/lock")
		asked.URL.RawPath = strings.TrimSuffix(r.URL.RawPath, "/lock")
		return state(w, asked)
	}
}

// serveState passes an authorised request on. All but GET and HEAD need the right to write.
func (f *Front) serveState(w http.ResponseWriter, r *http.Request) error {
	action := rights.Write
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		action = rights.Read
	}
	grant, err := f.kit.Guard.Allow(r, rights.StateRight(f.o.Layout, action, r.PathValue("name"), r.PathValue("workspace")))
	if err != nil {
		return err
	}
	if err := f.kit.OpenBody(r); err != nil {
		return err
	}
	rec := httpserve.NewResponse(w)
	var made []access.Change
	f.states.For(grant.Run()).Noting(grant.Identity(), func(c access.Change) { made = append(made, c) }).ServeHTTP(rec, r.WithContext(statebackend.WithCaller(r.Context(), grant.Identity(), grant.Name())))
	if action == rights.Write {
		recordState(grant, r, made, max(rec.Status(), http.StatusOK)) // 0: nothing was written, which means 200
	}
	wrote := slices.ContainsFunc(made, func(c access.Change) bool { return c.Version != "" && !c.Found })
	if wrote && f.o.States != nil {
		f.o.States.Wrote(r.Context(), r.PathValue("name"))
	}
	return nil
}
