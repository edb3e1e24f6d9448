// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
)

// Options configure the API. Kit, Store, Machine and Catalog are required.
type Options struct {
	Kit     *service.Kit
	Store   lifecycle.Store
	Catalog Catalog
	Kinds   Kinds              // of the cluster; nil: there is no cluster
	Results Results            // what runs left behind; nil: 501 for logs, plans and reveal
	Adopter *Adopter           // finds instances that the ledger lost; nil: 501
	Machine *lifecycle.Machine // that of the store, which says what limits there are
	Rate    int                // changes a minute and caller; 0: 60
	// GroupAge is how long an issuer's statement of groups counts for ownership; 0: 24 h.
	GroupAge time.Duration
	Now      func() time.Time // nil: time.Now
	Random   io.Reader        // of ids and nonces; nil: crypto/rand
	Streams  service.Pace
}

// Catalog has the templates that may be launched now.
type Catalog interface {
	Current(name string) (*template.Entry, bool)
	All() []template.Entry
	// Pin returns the template with a version of its module; "" is that of [Catalog.Current].
	// [lifecycle.ErrNotFound]: no template; [template.ErrInvalid]: not this version.
	Pin(ctx context.Context, name, version string) (*template.Entry, error)
	// Versions returns what [Catalog.Pin] takes, the highest first, as far as shown.
	Versions(ctx context.Context, name string) ([]string, error)
}

// Comparer is a [Catalog] that can compare versions of a module.
type Comparer interface {
	// Compare returns what differs between two versions of a module.
	Compare(ctx context.Context, was, is api.Source) ([]description.Difference, error)
}

// Results gives access to what runs leave behind outside the document.
type Results interface {
	// Log returns the log of an attempt from a byte on, as far as it is there.
	Log(ctx context.Context, r *lifecycle.Record, u *lifecycle.Run, offset int64) (io.ReadCloser, error)
	// Plan returns the plan of a run as text.
	Plan(ctx context.Context, r *lifecycle.Record, u *lifecycle.Run) ([]byte, error)
	// Outputs returns all outputs of the last state.
	Outputs(ctx context.Context, r *lifecycle.Record) (map[string]states.Output, error)
	// Resources returns the addresses in the last state, without data sources.
	Resources(ctx context.Context, r *lifecycle.Record) ([]string, error)
}

// server answers all routes. Its only state are counters, and whom it has seen.
type server struct {
	people  people
	o       Options
	kit     *service.Kit
	rate    *service.Rate
	streams *service.Streams
}

// New returns the API of templates and instances, to be served below /api/v1/. It
// makes no request.
func New(o Options) (http.Handler, error) {
	if o.Kit == nil || o.Store == nil || o.Machine == nil || o.Catalog == nil {
		return nil, errors.New("no kit, store, machine or templates")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	o.Rate = cmp.Or(o.Rate, 60)
	s := &server{o: o, kit: o.Kit, rate: service.NewRate(o.Rate, o.Now), streams: service.NewStreams(o.Kit, o.Streams)}
	return s.apiRoutes(), nil
}

// apiRoutes declares the whole API: what a request is about, which role it needs, which function
// answers. GET changes nothing; HEAD works too.
func (s *server) apiRoutes() http.Handler {
	mux := s.kit.Mux()
	get := func(path string, h service.Handler) { mux.Handle("GET /api/v1/"+path, s.wrap(s.kit.Limit(h))) }
	post := func(path string, h service.Handler) { mux.Handle("POST /api/v1/"+path, s.wrap(s.kit.Limit(h))) }
	destroy := func(path string, h service.Handler) { mux.Handle("DELETE /api/v1/"+path, s.wrap(s.kit.Limit(h))) }
	stream := func(path string, h service.Handler) { mux.Handle("GET /api/v1/"+path, s.wrap(h)) }

	get("templates", handleCall(s, allowEveryone, listTemplates))
	get("templates/{namespace}/{name}", handleCall(s, findTemplate, showTemplate))
	post("templates/{namespace}/{name}/pause", handleCall(s, findPausable, pauseTemplate))
	post("templates/{namespace}/{name}/resume", handleCall(s, findPausable, resumeTemplate))

	get("kinds/{name}", handleCall(s, findKind, showKind))

	post("instances", handleCall(s, requireLauncher, createInstance))
	get("instances", handleCall(s, requireUser, listInstances))
	get("instances/{id}", handleCall(s, findInstance(reads|receives), showInstance))
	destroy("instances/{id}", handleCall(s, findInstance(owns|administers), destroyInstance))
	post("instances/{id}/extend", handleCall(s, findInstance(owns|administers), extendInstance))
	post("instances/{id}/update", handleCall(s, findInstance(owns|administers), updateInstance))
	post("instances/{id}/approve", handleCall(s, findInstance(approves), approveInstance))
	post("instances/{id}/reject", handleCall(s, findInstance(approves), rejectInstance))
	for _, verb := range listActions() {
		if !verb.plain {
			continue
		}
		if verb.needs == receives { // a caller that took it may repeat that; any other owner is refused
			verb.needs |= owns
		}
		post("instances/{id}/"+verb.name, handleCall(s, findInstance(verb.needs), func(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
			return handleChange(s, w, r, rights.Action(verb.name), func(struct{}) (lifecycle.Event, error) { return verb.event(r.at), nil })
		}))
	}
	post("instances/{id}/transfer", handleCall(s, findInstance(owns|administers), transferInstance))
	post("instances/{id}/orphan", handleCall(s, findInstance(administers), orphanInstance))

	get("instances/{id}/runs", handleCall(s, findInstance(reads), listRuns))
	get("instances/{id}/runs/{n}", handleCall(s, findRunOf(reads), showRun))
	get("instances/{id}/runs/{n}/plan", handleCall(s, findRunOf(readsLogs), showPlan))
	stream("instances/{id}/runs/{n}/log", handleCall(s, findRunOf(readsLogs), showLog))
	get("instances/{id}/outputs", handleCall(s, findInstance(owns|administers), showOutputs))
	get("instances/{id}/resources", handleCall(s, findInstance(owns|approves|administers), showResources))
	post("instances/{id}/outputs/reveal", handleCall(s, findInstance(owns), showSensitive))

	post("run/{namespace}/{name}", handleCall(s, findLaunchable, runTemplate))
	get("run/{namespace}/{name}/status", handleCall(s, findOwnInstance, showInstance))
	post("run/{namespace}/{name}/extend", handleCall(s, findOwnInstance, extendInstance))
	destroy("run/{namespace}/{name}", handleCall(s, findOwnInstance, destroyInstance))

	get("me", handleCall(s, requireUser, showUser))
	stream("events", handleCall(s, requireUser, streamEvents))
	get("admin/instances", handleCall(s, requireAdmin, listAdminInstances))
	get("admin/templates", handleCall(s, requireAdmin, listAdminTemplates))
	post("admin/clock", handleCall(s, requireAdmin, acceptClock))
	post("admin/adopt", handleCall(s, requireAdmin, adoptInstance))
	mux.Handle("/api/v1/", s.wrap(func(http.ResponseWriter, *http.Request) error {
		return &service.Error{Status: http.StatusNotFound, Text: "unknown path"}
	}))
	return mux
}

// call is a request that the caller may make.
type call[A any] struct {
	request *http.Request
	caller
	view lifecycle.View
	at   A // what the request is about
}

// finder reads from the path what a request is about, and decides on it, before the body.
type finder[A any] func(s *server, r *http.Request, c caller, v lifecycle.View) (A, caller, error)

// handleCall identifies the caller, finds what the request is about, checks rights, and answers.
func handleCall[A any](s *server, find finder[A], answer func(*server, http.ResponseWriter, call[A]) error) service.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Cache-Control", "no-store")
		c, err := identifyCaller(s, r)
		if err != nil {
			return err
		}
		v, err := s.o.Store.View(r.Context())
		if err != nil {
			return err
		}
		at, c, err := find(s, r, c, v)
		if err != nil {
			return err
		}
		if !readOnly(r) {
			if err := s.admitChange(w, r, c); err != nil {
				return err
			}
			service.DecideAgain(r, func() error {
				c, err := identifyCaller(s, r)
				if err != nil {
					return err
				}
				v, err := s.o.Store.View(r.Context())
				if err == nil {
					_, _, err = find(s, r, c, v)
				}
				return err
			})
		}
		return answer(s, w, call[A]{r, c, v, at})
	}
}

// admitChange opens the body of a change, if the caller has not made too many.
func (s *server) admitChange(w http.ResponseWriter, r *http.Request, c caller) error {
	if wait, ok := s.rate.Allow(c.key); !ok {
		return &apiError{Status: http.StatusTooManyRequests, Reason: api.ReasonRate, After: max(1, int(wait/time.Second)),
			Text: fmt.Sprintf("more than %d changes a minute", s.o.Rate)}
	}
	return s.kit.OpenBody(r)
}

func (s *server) wrap(h service.Handler) http.Handler { return s.kit.Handle(h, s.writeError) }
