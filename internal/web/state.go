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
	"github.com/seed-141914ff/okara/internal/remedy"
	"github.com/seed-141914ff/okara/internal/stateview"
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

// readState is the right to a state.
func readState(name string) access.Right {
	return access.Right{Action: access.Read, Kind: addr.KindState, Address: name}
}

// states lists those that the caller may read.
func (s *server) states(r *request) (*page, error) {
	if err := s.list(r); err != nil {
		return nil, err
	}
	if err := s.o.Kit.Guard.AllowLogin(r.Request); err != nil {
		return nil, err
	}
	names, err := s.o.States.Names(r.Context())
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !r.grant.May(readState(name)) })
	body := statesBody{Total: len(names), Any: r.grant.May(readState(access.Somewhere)), Address: "https://" + s.host(r)}
	var first, last int
	first, last, body.Before, body.After = cut(r, len(names))
	body.Rows = s.stateRows(r.Context(), names[first:last])
	for _, row := range body.Rows {
		if row.Count < 0 && row.Problem == "" {
			body.Left++
		}
	}
	return &page{Template: "states.html", Title: "States", Command: "okara state list --all " + s.registry(r), Body: body}, nil
}

// stateRows asks for several states at once, and leaves out what is not there in time.
func (s *server) stateRows(ctx context.Context, names []string) []stateRow {
	ctx, cancel := context.WithTimeout(ctx, stateWait)
	defer cancel()
	rows := make([]stateRow, len(names))
	var g errgroup.Group
	g.SetLimit(stateParallel)
	for i, name := range names {
		g.Go(func() error {
			sum, err := s.o.States.Summary(ctx, name)
			rows[i] = s.stateRow(name, sum)
			if err != nil && ctx.Err() == nil {
				rows[i].Problem = "The registry does not answer as it should."
			}
			return nil
		})
	}
	_ = g.Wait() // what fails is in its row
	return rows
}

// stateRow is what is known of a state; nil: nothing yet.
func (s *server) stateRow(name string, sum *stateview.Summary) stateRow {
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
		row.Holders = append(row.Holders, holder{clean(h.Workspace), whoHolds(h)})
	}
	return row
}

func whoHolds(h statebackend.Held) string {
	return cmp.Or(clip(clean(h.Info.Who)), "somebody who gave no name")
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
	if err := s.may(r, readState(name)); err != nil {
		return nil, err
	}
	sum, err := s.o.States.Summary(r.Context(), name)
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
		row := stateRow{link: link{clean(h.Workspace), statePath(name, h.Workspace)}, Version: h.N, Written: s.when(h.Created)}
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
		Command: "okara state list " + remedy.Quote(s.registry(r)+"/"+repository),
	}, nil
}

// noState is the answer to a state, a workspace or a version that is not there.
func noState(err error, what string) error {
	if errors.Is(err, oci.ErrNotFound) {
		return notFound("there is no state %s that this server knows", clean(what))
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
		Who: whoHolds(*h), Operation: clip(clean(statebackend.Version{Operation: h.Info.Operation}.Why())), Info: clip(clean(h.Info.Info)),
		ID: artifact.ShownID(h.Info.ID), Since: s.when(h.Info.Created), Lease: h.TTL, Unreadable: h.Unreadable,
	}
	if clean(workspace) == workspace {
		l.Unlock = remedy.Unlock(repository, workspace, h.Info.ID)
	}
	return l
}
