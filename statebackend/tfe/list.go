// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// readableWorkspaces lists what a caller may read, by name; if split, workspaces with a record.
func (s *stores) readableWorkspaces(ctx context.Context, organization string, g access.Grant) ([]statebackend.Workspace, error) {
	store, err := s.openNamed(ctx, organization)
	if err != nil {
		return nil, err
	}
	list, err := store.List(ctx)
	if err != nil {
		return nil, err
	}
	all, err := list.Workspaces(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(w statebackend.Workspace) bool {
		return !validWorkspace(w.Name) || !s.gate.mayAct(g, rights.Read, organization, w.Name)
	}), nil
}

func (s workspaces) listWorkspaces(w http.ResponseWriter, r *http.Request, organization string, g access.Grant) error {
	q := r.URL.Query()
	f, err := newFilter(organization, q)
	if err != nil {
		return err
	}
	all, err := s.stores.readableWorkspaces(r.Context(), organization, g)
	if err != nil {
		return err
	}
	if err := s.docs.books.settleAll(r.Context(), organization, all); err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(w statebackend.Workspace) bool { return !f.takesWorkspace(w) })
	reserved, _ := s.gate.split(organization)
	return answerPage(w, r, all, func(w statebackend.Workspace) resource {
		item := s.docs.workspaceResource(workspaceRef{organization, w.Name}, "", g, w.Live())
		if !reserved || w.Record == nil || w.Record.State != format.StateSplit { // the lock of a split workspace is in another repository
			item = item.withLock(w.Held)
		}
		return s.docs.forClient(r, item)
	})
}

// settleAll is settleRecord for the workspaces of an organization, if some may run something here.
func (s *books) settleAll(ctx context.Context, organization string, all []statebackend.Workspace) error {
	if !slices.ContainsFunc(all, func(w statebackend.Workspace) bool { return s.runsHere(w.Live()) }) {
		return nil
	}
	book, err := s.open(ctx, organization)
	if err != nil {
		return err
	}
	decisions, err := book.Settings(ctx, "")
	for i, w := range all {
		if w.Live() != nil {
			r := applyDecisions(*w.Record, decisions[w.Name])
			all[i].Record = &r
		}
	}
	return err
}

type filter struct {
	name, wildcard string
	tags, without  []string
	tagged         []binding // without value: any value
	project        string    // name; "": any
}

// maxFilters bounds the parts of a filter, each of which is compared with each workspace.
const maxFilters = 64

func newFilter(organization string, q url.Values) (filter, error) {
	f := filter{
		name: q.Get("search[name]"), wildcard: q.Get("search[wildcard-name]"),
		tags: splitWords(q.Get("search[tags]")), without: splitWords(q.Get("search[exclude-tags]")),
	}
	if id := q.Get("filter[project][id]"); id != "" {
		of, name, err := parseProjectID(id)
		if f.project = name; err != nil || of != "" && of != organization {
			f.project = "\x00" // no workspace has it
		}
	}
	for key := range q {
		index, ok := strings.CutPrefix(key, "filter[tagged][")
		if !ok {
			continue
		}
		index, ok = strings.CutSuffix(index, "][key]")
		if ok {
			f.tagged = append(f.tagged, binding{q.Get(key), q.Get("filter[tagged][" + index + "][value]")})
		}
	}
	if len(f.tags)+len(f.without)+len(f.tagged) > maxFilters {
		return filter{}, invalidError("more than %d filters", maxFilters)
	}
	for _, text := range []string{f.name, f.wildcard} {
		if len(text) > maxWorkspace {
			return filter{}, invalidError("a name has at most %d bytes", maxWorkspace)
		}
	}
	return f, nil
}

func splitWords(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
}

func (f filter) takesWorkspace(w statebackend.Workspace) bool {
	r := w.Live()
	if r == nil {
		r = &statebackend.Record{}
	}
	has := func(tag string) bool {
		_, ok := r.Tags[tag]
		return ok
	}
	switch {
	case !strings.Contains(w.Name, f.name), f.wildcard != "" && !addr.MatchText(f.wildcard, w.Name),
		f.project != "" && f.project != cmp.Or(r.Project, defaultProject), slices.ContainsFunc(f.without, has):
		return false
	}
	for _, tag := range f.tags {
		if !has(tag) {
			return false
		}
	}
	for _, b := range f.tagged {
		if !has(b.Key) || b.Value != "" && r.Tags[b.Key] != b.Value {
			return false
		}
	}
	return true
}
