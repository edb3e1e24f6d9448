// SPDX-License-Identifier: Apache-2.0

package statepages

import (
	"context"
	"embed"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const (
	wait     = 2 * time.Second // for the parts of a list
	parallel = 8
)

// statesBody are the states that the caller may read.
type statesBody struct {
	Rows    []stateRow
	Total   int
	Left    int    // rows that were not there in time
	Before  string // the page before this one, with its query
	After   string
	Address string // of this server
	Any     bool   // the caller may read some states, though none is known
	Reading bool   // their names were never read
	Unread  bool   // there may be more, of which the caller may read a part
}

// stateRow is a state, or one of its workspaces.
type stateRow struct {
	site.Link
	Count   int // of workspaces; -1: not known yet
	Version int64
	Written site.Moment
	Holders []holder
	Problem string
}

// holder is who holds a lock.
type holder struct{ Workspace, Who string }

// Options is what the pages of states need.
type Options struct {
	States *states.States
	Hosts  site.Hosts
	Cold   *site.Cold
	Now    site.Clock
}

//go:embed templates/*.html
var files embed.FS

// New returns the pages of states.
func New(o Options) site.Set {
	seen := visibility{o.States}
	lists := &lists{states: o.States, visibility: seen, hosts: o.Hosts, clock: o.Now}
	versions := &versions{states: o.States, visibility: seen, hosts: o.Hosts, cold: o.Cold, clock: o.Now}
	reveals := &reveals{versions: versions, clock: o.Now}
	return site.Set{Templates: files, Menu: menu, Routes: func(r *site.Routes) {
		r.Show("GET /ui/states", site.List, lists.all) // lists what may be read
		r.Show("GET /ui/states/{name}", seen.some, lists.workspaces)
		r.Show("GET /ui/states/{name}/{workspace}", seen.one, versions.show)
		r.Show("GET /ui/states/{name}/{workspace}/history", seen.one, versions.history)
		r.Show("GET /ui/states/{name}/{workspace}/diff", seen.one, versions.diff)
		r.Show("GET /ui/states/{name}/{workspace}/{n}", seen.one, versions.show)
		r.Show("GET /ui/states/{name}/{workspace}/{n}/resources", seen.one, versions.resources)
		r.Show("GET /ui/states/{name}/{workspace}/{n}/reveal", seen.one, reveals.show)
		r.Post("POST /ui/states/{name}/{workspace}/{n}/reveal", site.Holds(seen.one), reveals.reveal)
	}}
}

// menu has the states for who may read any.
func menu(r *site.Request) []site.Entry {
	if !r.Grant.May(anyState()) {
		return nil
	}
	return []site.Entry{{Link: site.Link{Text: "States", Href: "states"}}}
}

// visibility says what of the states a caller may see.
type visibility struct{ states *states.States }

// read is the right to a workspace of a state, "" for all of them.
func (v visibility) read(name, workspace string) access.Right {
	return access.StateRight(v.states.Layout(), access.Read, name, workspace)
}

// readAny is the right to some workspace of a state.
func (v visibility) readAny(name string) access.Right {
	return access.AnyStateRight(v.states.Layout(), access.Read, name)
}

// one is the right to the workspace that a path names.
func (v visibility) one(r *site.Request) (access.Right, error) {
	return v.read(r.PathValue("name"), r.PathValue("workspace")), nil
}

// some is that to anything of the state that a path names.
func (v visibility) some(r *site.Request) (access.Right, error) {
	return v.readAny(r.PathValue("name")), nil
}

// of are the workspaces of a state that the caller may read.
func (v visibility) of(r *site.Request, name string, sum *states.Summary) *states.Summary {
	if sum == nil || r.Grant.May(v.read(name, "")) {
		return sum
	}
	return &states.Summary{
		Heads: slices.DeleteFunc(slices.Clone(sum.Heads), func(h statebackend.Head) bool { return !r.Grant.May(v.read(name, h.Workspace)) }),
		Locks: slices.DeleteFunc(slices.Clone(sum.Locks), func(h statebackend.Held) bool { return !r.Grant.May(v.read(name, h.Workspace)) }),
	}
}

// lists are the lists of states and of their workspaces.
type lists struct {
	states     *states.States
	visibility visibility
	hosts      site.Hosts
	clock      site.Clock
}

// all lists the states that the caller may read.
func (s *lists) all(r *site.Request) (*site.Page, error) {
	if err := r.AllowLogin(); err != nil {
		return nil, err
	}
	body := statesBody{Any: r.Grant.May(anyState()), Address: "https://" + s.hosts.Of(r)}
	wait, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	names, err := s.states.Names(wait)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil:
		body.Reading = true
	case err != nil:
		return nil, err
	}
	names, body.Unread = s.listable(r, names)
	body.Total = len(names)
	var first, last int
	first, last, body.Before, body.After = site.Cut(r, len(names))
	body.Rows = s.rows(r, names[first:last])
	for _, row := range body.Rows {
		if row.Count < 0 && row.Problem == "" {
			body.Left++
		}
	}
	return &site.Page{Template: "states.html", Title: "States", Command: "okara state list --all " + s.hosts.RegistryOf(r), Body: body}, nil
}

// anyState is the right to anything of any state.
func anyState() access.Right {
	return access.Right{Action: access.Read, Kind: addr.KindState, Address: access.Somewhere}
}

// listable are the states of which the caller may read something. Of one with some
// workspaces that he may read, were they there, he is told if they are; unread says
// that not all were looked at, and not how many.
func (s *lists) listable(r *site.Request, names []string) (all []string, unread bool) {
	show := make([]bool, len(names))
	var partly []string
	for i, name := range names {
		if show[i] = r.Grant.May(s.visibility.read(name, "")); !show[i] && r.Grant.May(s.visibility.readAny(name)) {
			partly = append(partly, name)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	known, left := s.states.Glance(ctx, partly)
	some := map[string]bool{}
	for name, sum := range known {
		sum = s.visibility.of(r, name, sum)
		some[name] = len(sum.Heads)+len(sum.Locks) > 0
	}
	for i, name := range names {
		if show[i] || some[name] {
			all = append(all, name)
		}
	}
	return all, left > 0
}

// summaries reads several states at once, each as the caller may see it, as far as
// that is done in time.
func (s *lists) summaries(r *site.Request, names []string, each func(i int, name string, sum *states.Summary, err error)) {
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(parallel)
	for i, name := range names {
		g.Go(func() error {
			if ctx.Err() != nil { // it would be asked for all the same
				each(i, name, nil, ctx.Err())
				return nil
			}
			sum, err := s.states.Summary(ctx, name)
			if ctx.Err() != nil {
				sum, err = nil, ctx.Err()
			}
			each(i, name, s.visibility.of(r, name, sum), err)
			return nil
		})
	}
	_ = g.Wait() // what fails, each is told
}

// rows asks for several states at once, and leaves out what is not there in time.
func (s *lists) rows(r *site.Request, names []string) []stateRow {
	rows := make([]stateRow, len(names))
	s.summaries(r, names, func(i int, name string, sum *states.Summary, err error) {
		rows[i] = s.row(name, sum)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			rows[i].Problem = "The registry does not answer as it should."
		}
	})
	return rows
}

// row is what is known of a state; nil: nothing yet.
func (s *lists) row(name string, sum *states.Summary) stateRow {
	row := stateRow{Link: site.Link{Text: name, Href: statePath(name)}, Count: -1}
	if sum == nil {
		return row
	}
	row.Count = len(sum.Heads)
	var last time.Time
	for _, h := range sum.Heads {
		if h.Created.After(last) {
			last = h.Created
		}
	}
	row.Written = s.clock.When(last)
	for _, h := range sum.Locks {
		row.Holders = append(row.Holders, holder{text.Block(h.Workspace), site.WhoHolds(h)})
	}
	return row
}

// statePath is the page of a state, or of one of its workspaces, below Up.
func statePath(name string, more ...string) string {
	var path strings.Builder
	path.WriteString("states/" + site.EscapePath(name))
	for _, m := range more {
		path.WriteString("/" + site.EscapePath(m))
	}
	return path.String()
}

// workspaces lists those of a state.
func (s *lists) workspaces(r *site.Request) (*site.Page, error) {
	name := r.PathValue("name")
	sum, err := s.states.Summary(r.Context(), name)
	sum = s.visibility.of(r, name, sum)
	if err == nil && len(sum.Heads)+len(sum.Locks) == 0 {
		err = oci.ErrNotFound
	}
	if err != nil {
		return nil, noState(err, name)
	}
	var body statesBody
	heads := slices.Clone(sum.Heads)
	for _, h := range sum.Locks { // of a first run that has not written yet
		if !slices.ContainsFunc(heads, func(o statebackend.Head) bool { return o.Workspace == h.Workspace }) {
			heads = append(heads, statebackend.Head{Workspace: h.Workspace})
		}
	}
	var first, last int
	body.Total = len(heads)
	first, last, body.Before, body.After = site.Cut(r, len(heads))
	for _, h := range heads[first:last] {
		row := stateRow{Link: site.Link{Text: text.Block(h.Workspace), Href: statePath(name, h.Workspace)}, Version: h.N, Written: s.clock.When(h.Created)}
		if held := sum.Held(h.Workspace); held != nil {
			row.Holders = []holder{{Who: site.WhoHolds(*held)}}
		}
		body.Rows = append(body.Rows, row)
	}
	repository, err := s.states.Repository(name)
	if err != nil {
		return nil, err
	}
	return &site.Page{
		Template: "state.html", Title: name, Body: body, Crumbs: []site.Link{{Text: "States", Href: "states"}},
		Command: "okara state list " + states.ShellQuote(s.hosts.RegistryOf(r)+"/"+repository),
	}, nil
}

// noState is the answer to a state, a workspace or a version that is not there.
func noState(err error, what string) error {
	if errors.Is(err, oci.ErrNotFound) {
		return site.NotFound("there is no state %s that this server knows", text.Block(what))
	}
	return err
}
