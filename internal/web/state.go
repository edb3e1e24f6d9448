// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
)

const (
	stateWait     = 2 * time.Second // for the parts of a list
	stateParallel = 8
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
	link
	Count   int // of workspaces; -1: not known yet
	Version int64
	Written moment
	Holders []holder
	Problem string
}

// holder is who holds a lock.
type holder struct{ Workspace, Who string }

// readState is the right to a workspace of a state, "" for all of them.
func (s *server) readState(name, workspace string) access.Right {
	return access.StateRight(s.o.States.Layout(), access.Read, name, workspace)
}

// readAny is the right to some workspace of a state.
func (s *server) readAny(name string) access.Right {
	return access.AnyStateRight(s.o.States.Layout(), access.Read, name)
}

// visible are the workspaces of a state that the caller may read.
func (s *server) visible(r *request, name string, sum *states.Summary) *states.Summary {
	if sum == nil || r.grant.May(s.readState(name, "")) {
		return sum
	}
	return &states.Summary{
		Heads: slices.DeleteFunc(slices.Clone(sum.Heads), func(h statebackend.Head) bool { return !r.grant.May(s.readState(name, h.Workspace)) }),
		Locks: slices.DeleteFunc(slices.Clone(sum.Locks), func(h statebackend.Held) bool { return !r.grant.May(s.readState(name, h.Workspace)) }),
	}
}

// states lists those that the caller may read.
func (s *server) states(r *request) (*page, error) {
	if err := s.list(r); err != nil {
		return nil, err
	}
	if err := s.o.Kit.Guard.AllowLogin(r.Request); err != nil {
		return nil, err
	}
	body := statesBody{Any: r.grant.May(anyState()), Address: "https://" + s.host(r)}
	wait, cancel := context.WithTimeout(r.Context(), stateWait)
	defer cancel()
	names, err := s.o.States.Names(wait)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil:
		body.Reading = true
	case err != nil:
		return nil, err
	}
	names, body.Unread = s.listable(r, names)
	body.Total = len(names)
	var first, last int
	first, last, body.Before, body.After = cut(r, len(names))
	body.Rows = s.stateRows(r, names[first:last])
	for _, row := range body.Rows {
		if row.Count < 0 && row.Problem == "" {
			body.Left++
		}
	}
	return &page{Template: "states.html", Title: "States", Command: "okara state list --all " + s.registry(r), Body: body}, nil
}

// anyState is the right to anything of any state.
func anyState() access.Right {
	return access.Right{Action: access.Read, Kind: addr.KindState, Address: access.Somewhere}
}

// listable are the states of which the caller may read something. Of one with some
// workspaces that he may read, were they there, he is told if they are; unread says
// that not all were looked at, and not how many.
func (s *server) listable(r *request, names []string) (all []string, unread bool) {
	show := make([]bool, len(names))
	var partly []string
	for i, name := range names {
		if show[i] = r.grant.May(s.readState(name, "")); !show[i] && r.grant.May(s.readAny(name)) {
			partly = append(partly, name)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), stateWait)
	defer cancel()
	known, left := s.o.States.Glance(ctx, partly)
	some := map[string]bool{}
	for name, sum := range known {
		sum = s.visible(r, name, sum)
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
func (s *server) summaries(r *request, names []string, each func(i int, name string, sum *states.Summary, err error)) {
	ctx, cancel := context.WithTimeout(r.Context(), stateWait)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(stateParallel)
	for i, name := range names {
		g.Go(func() error {
			if ctx.Err() != nil { // it would be asked for all the same
				each(i, name, nil, ctx.Err())
				return nil
			}
			sum, err := s.o.States.Summary(ctx, name)
			if ctx.Err() != nil {
				sum, err = nil, ctx.Err()
			}
			each(i, name, s.visible(r, name, sum), err)
			return nil
		})
	}
	_ = g.Wait() // what fails, each is told
}

// stateRows asks for several states at once, and leaves out what is not there in time.
func (s *server) stateRows(r *request, names []string) []stateRow {
	rows := make([]stateRow, len(names))
	s.summaries(r, names, func(i int, name string, sum *states.Summary, err error) {
		rows[i] = s.stateRow(name, sum)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			rows[i].Problem = "The registry does not answer as it should."
		}
	})
	return rows
}

// stateRow is what is known of a state; nil: nothing yet.
func (s *server) stateRow(name string, sum *states.Summary) stateRow {
	row := stateRow{link: link{name, statePath(name)}, Count: -1}
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
	row.Written = s.when(last)
	for _, h := range sum.Locks {
		row.Holders = append(row.Holders, holder{text.Block(h.Workspace), whoHolds(h)})
	}
	return row
}

func whoHolds(h statebackend.Held) string {
	return cmp.Or(clip(text.Block(h.Info.Who)), "somebody who gave no name")
}

// statePath is the page of a state, or of one of its workspaces, below Up.
func statePath(name string, more ...string) string {
	var path strings.Builder
	path.WriteString("states/" + escapePath(name))
	for _, m := range more {
		path.WriteString("/" + escapePath(m))
	}
	return path.String()
}

// state lists the workspaces of a state.
func (s *server) state(r *request) (*page, error) {
	name := r.PathValue("name")
	if err := s.may(r, s.readAny(name)); err != nil {
		return nil, err
	}
	sum, err := s.o.States.Summary(r.Context(), name)
	sum = s.visible(r, name, sum)
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
	first, last, body.Before, body.After = cut(r, len(heads))
	for _, h := range heads[first:last] {
		row := stateRow{link: link{text.Block(h.Workspace), statePath(name, h.Workspace)}, Version: h.N, Written: s.when(h.Created)}
		if held := sum.Held(h.Workspace); held != nil {
			row.Holders = []holder{{Who: whoHolds(*held)}}
		}
		body.Rows = append(body.Rows, row)
	}
	repository, err := s.o.States.Repository(name)
	if err != nil {
		return nil, err
	}
	return &page{
		Template: "state.html", Title: name, Body: body, Crumbs: []link{{"States", "states"}},
		Command: "okara state list " + states.ShellQuote(s.registry(r)+"/"+repository),
	}, nil
}

// noState is the answer to a state, a workspace or a version that is not there.
func noState(err error, what string) error {
	if errors.Is(err, oci.ErrNotFound) {
		return notFound("there is no state %s that this server knows", text.Block(what))
	}
	return err
}

// lockBody is who holds a workspace, and what to do if they are gone.
type lockBody struct {
	Who, Operation, Info, ID string
	Since                    moment
	Lease                    time.Duration // 0: the lock never ends by itself
	Unlock                   string        // "": the names hold what no shell should get
	Unreadable               bool
}

// newLock describes a lock; nil for none.
func (s *server) newLock(h *statebackend.Held, repository, workspace string) *lockBody {
	if h == nil {
		return nil
	}
	l := &lockBody{
		Who: whoHolds(*h), Operation: clip(text.Block(statebackend.Version{Operation: h.Info.Operation}.Why())), Info: clip(text.Block(h.Info.Info)),
		ID: artifact.ShownID(h.Info.ID), Since: s.when(h.Info.Created), Lease: h.TTL, Unreadable: h.Unreadable,
	}
	if text.Block(workspace) == workspace {
		l.Unlock = states.UnlockCommand(repository, workspace, h.Info.ID)
	}
	return l
}
