// SPDX-License-Identifier: Apache-2.0

package statepages

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const (
	wait     = 2 * time.Second // maximum wait for the parts of a list
	parallel = 8
)

// statesBody is the list of states that the caller may read.
type statesBody struct {
	site.Pages
	Rows    []stateRow
	Left    int    // rows that could not be read in time
	Address string // of this server
	Any     bool   // the caller may read some states, though none is known
	Reading bool   // the names of states have not been read yet
	Unread  bool   // there may be further states of which the caller may read a part
}

// stateRow is a state, or one of its workspaces.
type stateRow struct {
	site.Link
	Count   int // of workspaces; -1: not known yet
	Version int64
	Written site.Timestamp
	Holders []holder
	Problem string
}

// Empty reports whether a state has no page: it has settings and runs, and no version yet.
func (r stateRow) Empty() bool { return r.Count == 0 && len(r.Holders) == 0 }

// holder is the holder of a lock.
type holder struct{ Workspace, Who string }

// lists has the pages with lists of states and workspaces.
type lists struct {
	states     *states.States
	visibility visibility
	hosts      site.Hosts
	clock      site.Clock
	beside     func(r *site.Request, name, workspace string) []site.Link
}

// addressOf returns the address of this server for a backend: http only where the reader is on the
// same machine.
func addressOf(hosts site.Hosts, r *site.Request) string {
	if hosts.Server == "" && r.TLS == nil && netaddr.IsLoopback(r.Host) {
		return "http://" + r.Host
	}
	return "https://" + hosts.Of(r)
}

// listStates lists the states that the caller may read.
func (s *lists) listStates(r *site.Request) (*site.Page, error) {
	if err := r.AllowLogin(); err != nil {
		return nil, err
	}
	body := statesBody{Any: r.Grant.May(anyState()), Address: addressOf(s.hosts, r)}
	wait, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	names, err := s.states.Names(wait)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil:
		body.Reading = true
	case err != nil:
		return nil, err
	}
	names, body.Unread = s.listableStates(r, names)
	names, body.Pages = site.OnePage(r, "page", names)
	body.Rows = s.rows(r, names)
	for _, row := range body.Rows {
		if row.Count < 0 && row.Problem == "" {
			body.Left++
		}
	}
	return &site.Page{Template: "states.html", Title: "States", Command: "okara state list --all " + s.hosts.RegistryOf(r), Also: s.beside(r, "", ""), Body: body}, nil
}

// listableStates returns the states in which the caller may read something. If the caller may
// read only some workspaces of a state, it is listed if one of these exists; unread says
// that not all such states were checked, without their number.
func (s *lists) listableStates(r *site.Request, names []string) (all []string, unread bool) {
	show := make([]bool, len(names))
	var partly []string
	for i, name := range names {
		if show[i] = r.Grant.May(s.visibility.readRight(name, "")); !show[i] && r.Grant.May(s.visibility.readAny(name)) {
			partly = append(partly, name)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	known, left := s.states.Glance(ctx, partly)
	some := map[string]bool{}
	for name, sum := range known {
		sum = s.visibility.visibleSummary(r, name, sum)
		some[name] = len(sum.Heads)+len(sum.Locks) > 0
	}
	for i, name := range names {
		if show[i] || some[name] {
			all = append(all, name)
		}
	}
	return all, left > 0
}

// summaries reads several states in parallel, each as the caller may see it, as far as
// that is done in time.
func (s *lists) summaries(r *site.Request, names []string, each func(i int, name string, sum *states.Summary, err error)) {
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(parallel)
	for i, name := range names {
		g.Go(func() error {
			if ctx.Err() != nil { // the request would be made even so
				each(i, name, nil, ctx.Err())
				return nil
			}
			sum, err := s.states.Summary(ctx, name)
			if ctx.Err() != nil {
				sum = nil
				err = ctx.Err()
			}
			each(i, name, s.visibility.visibleSummary(r, name, sum), err)
			return nil
		})
	}
	_ = g.Wait() // each error is shown in its row
}

// rows reads several states in parallel. A row that is not read in time has no details.
func (s *lists) rows(r *site.Request, names []string) []stateRow {
	rows := make([]stateRow, len(names))
	s.summaries(r, names, func(i int, name string, sum *states.Summary, err error) {
		rows[i] = s.row(name, sum)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			rows[i].Problem = "The request to the registry failed."
		}
	})
	return rows
}

// row returns the row of a state; sum is nil if it was not read.
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

// statePath returns the path of the page of a state, or of a workspace, below Up.
func statePath(name string, more ...string) string {
	var path strings.Builder
	path.WriteString("states/" + site.EscapePath(name))
	for _, m := range more {
		path.WriteString("/" + site.EscapePath(m))
	}
	return path.String()
}

func (s *lists) workspaces(r *site.Request) (*site.Page, error) {
	name := r.PathValue("name")
	sum, err := s.states.Summary(r.Context(), name)
	sum = s.visibility.visibleSummary(r, name, sum)
	if err == nil && len(sum.Heads)+len(sum.Locks) == 0 {
		err = oci.ErrNotFound
	}
	if err != nil {
		return nil, noState(err, name)
	}
	var body statesBody
	heads := slices.Clone(sum.Heads)
	for _, h := range sum.Locks { // a first run has not written a version yet
		if !slices.ContainsFunc(heads, func(o statebackend.Head) bool { return o.Workspace == h.Workspace }) {
			heads = append(heads, statebackend.Head{Workspace: h.Workspace})
		}
	}
	heads, body.Pages = site.OnePage(r, "page", heads)
	for _, h := range heads {
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
		Command: "okara state list " + text.ShellWord(s.hosts.RegistryOf(r)+"/"+repository),
	}, nil
}

// noState returns the error for a state, a workspace or a version that does not exist.
func noState(err error, what string) error {
	if errors.Is(err, oci.ErrNotFound) {
		return site.NotFound("state %s not found", text.Block(what))
	}
	return err
}
