// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/usage"
)

// outdatedDoc is the answer to GET /v1/outdated.
type outdatedDoc struct {
	Complete bool             `json:"complete"` // false until all states were read
	States   []usage.Outdated `json:"states"`
}

// UsesService answers who uses what, each caller for the states that it may read.
type UsesService struct {
	Uses     *states.Uses
	Catalog  *catalog.Catalog
	Hostname string // of this server, in addresses
	Layout   addr.Layout
	Guard    *access.Guard
	// Instances returns the instances of a module, as far as a caller may see them, and the number of owners of
	// the others; nil: there are none.
	Instances func(ctx context.Context, g access.Grant, module string) (seen []usage.UsedBy, others int, err error)
}

func (s *UsesService) mayReadState(g access.Grant) func(state, workspace string) bool {
	return func(state, workspace string) bool {
		return g.May(rights.StateRight(s.Layout, rights.Read, state, workspace))
	}
}

// judge says nothing about what a caller may not read.
func (s *UsesService) judge(ctx context.Context, g access.Grant) func(usage.Item) usage.Verdict {
	return func(u usage.Item) usage.Verdict {
		if it, _, ok := catalog.ItemInUse(u, s.Hostname); !ok || !g.MayRead(it.Kind, it.String()) {
			return usage.Verdict{}
		}
		return s.Catalog.Judge(ctx, u, s.Hostname)
	}
}

// Users answers a query of a caller that may list. Only one that may read what it asks for learns how
// many others use it.
func (s *UsesService) Users(ctx context.Context, g access.Grant, q usage.Query) usage.Answer {
	a := s.Uses.Ask(q, s.mayReadState(g))
	if s.Instances != nil && q.Kind == addr.KindModule && q.Address() != "" {
		seen, others, err := s.Instances(ctx, g, q.Address())
		for i := range seen {
			if s.Hostname != "" {
				seen[i].Source = s.Hostname + "/" + seen[i].Source
			}
		}
		a.Complete = a.Complete && err == nil
		a.AddInstances(q, s.Hostname, seen, others)
	}
	kinds := []string{addr.KindModule}
	if q.Kind == addr.KindProvider {
		kinds = []string{addr.KindProvider, addr.KindMirror}
	}
	if !slices.ContainsFunc(kinds, func(kind string) bool { return g.MayRead(kind, q.Address()) || g.MayRead(kind, q.Source) }) {
		a.Others = 0
		a.Some = false
	}
	a.Judge(s.judge(ctx, g))
	return a
}

// Behind returns what the states that a caller may read should no longer use, and whether all states
// were read.
func (s *UsesService) Behind(ctx context.Context, g access.Grant) (all []usage.Outdated, complete bool) {
	return s.Uses.Outdated(s.mayReadState(g), s.judge(ctx, g))
}

// maxUsesSeries bounds the series of the metric below; the rest is one more.
const maxUsesSeries = 500

// usesCollector counts states by module and version.
type usesCollector struct {
	uses *states.Uses
	desc *prometheus.Desc
}

func newUsesCollector(uses *states.Uses) usesCollector {
	return usesCollector{uses, prometheus.NewDesc("okara_module_states", "States whose newest version uses a version of a module.", []string{"module", "version"}, nil)}
}

// Describe implements prometheus.Collector.
func (c usesCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c usesCollector) Collect(out chan<- prometheus.Metric) {
	for _, n := range c.uses.CountModules(maxUsesSeries) {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n.States), n.Module, n.Version)
	}
}

// MadeOf returns what the newest version of a state is made of, if the caller may read it.
func (s *UsesService) MadeOf(ctx context.Context, g access.Grant, state, workspace string) (a usage.Answer, known bool) {
	if !s.mayReadState(g)(state, workspace) {
		return a, false
	}
	a.States, known = s.Uses.MadeOf(state, workspace)
	a.Judge(s.judge(ctx, g))
	return a, known
}

// serveUsers answers GET /v1/used-by?address=ADDRESS[@CONSTRAINT][&kind=provider].
func (s *UsesService) serveUsers(w http.ResponseWriter, r *http.Request) error {
	g, err := allowList(s.Guard, r)
	if err != nil {
		return err
	}
	q, err := usage.ParseQuery(r.URL.Query().Get("address"), r.URL.Query().Get("kind") == addr.KindProvider)
	if err != nil {
		return &service.Error{Status: http.StatusBadRequest, Text: err.Error()}
	}
	return service.Send(w, r, "private, no-cache", s.Users(r.Context(), g, q))
}

// serveBehind answers GET /v1/outdated.
func (s *UsesService) serveBehind(w http.ResponseWriter, r *http.Request) error {
	g, err := allowList(s.Guard, r)
	if err != nil {
		return err
	}
	var doc outdatedDoc
	doc.States, doc.Complete = s.Behind(r.Context(), g)
	return service.Send(w, r, "private, no-cache", doc)
}

// allowList returns the caller of a request whose answer has only what each caller may see.
func allowList(guard *access.Guard, r *http.Request) (access.Grant, error) {
	g, err := guard.Allow(r, rights.Right{Action: rights.List, Kind: rights.AnyKind})
	if err != nil {
		return g, err
	}
	return g, guard.AllowLogin(r)
}
