// SPDX-License-Identifier: Apache-2.0

package statepages

import (
	"embed"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/statebackend"
)

// Options configure the pages of states.
type Options struct {
	States  *states.States
	Hosts   site.Hosts
	Renders site.RenderLimiter
	Now     site.Clock
	Beside  site.Set // its State links are shown on the pages
}

//go:embed templates/*.html
var files embed.FS

// New returns the pages of states.
func New(o Options) site.Set {
	seen := visibility{o.States}
	beside := o.Beside.State
	if beside == nil {
		beside = func(*site.Request, string, string) []site.Link { return nil }
	}
	lists := &lists{states: o.States, visibility: seen, hosts: o.Hosts, clock: o.Now, beside: beside}
	versions := &versions{states: o.States, visibility: seen, hosts: o.Hosts, renders: o.Renders, clock: o.Now, beside: beside}
	sensitive := &sensitiveValues{versions: versions, clock: o.Now}
	return site.Set{Templates: files, Menu: menu, Routes: func(r *site.Routes) {
		r.Show("GET /ui/states", site.List, lists.all) // each caller sees only readable states
		r.Show("GET /ui/states/{name}", seen.some, lists.workspaces)
		r.Show("GET /ui/states/{name}/{workspace}", seen.one, versions.show)
		r.Show("GET /ui/states/{name}/{workspace}/history", seen.one, versions.history)
		r.Show("GET /ui/states/{name}/{workspace}/diff", seen.one, versions.diff)
		r.Show("GET /ui/states/{name}/{workspace}/{n}", seen.one, versions.show)
		r.Show("GET /ui/states/{name}/{workspace}/{n}/resources", seen.one, versions.resources)
		r.Show("GET /ui/states/{name}/{workspace}/{n}/reveal", seen.one, sensitive.show)
		r.Post("POST /ui/states/{name}/{workspace}/{n}/reveal", site.Holds(seen.one), sensitive.showValue)
	}}
}

// menu returns the entry for callers that may read any state.
func menu(r *site.Request) []site.Entry {
	if !r.Grant.May(anyState()) {
		return nil
	}
	return []site.Entry{{Link: site.Link{Text: "States", Href: "states"}}}
}

// visibility decides which states a caller may see.
type visibility struct{ states *states.States }

// read returns the right to a workspace of a state, "" for all of them.
func (v visibility) read(name, workspace string) rights.Right {
	return rights.StateRight(v.states.Layout(), rights.Read, name, workspace)
}

// readAny returns the right to any workspace of a state.
func (v visibility) readAny(name string) rights.Right {
	return rights.AnyStateRight(v.states.Layout(), rights.Read, name)
}

// one returns the right to the workspace in the path.
func (v visibility) one(r *site.Request) (rights.Right, error) {
	return v.read(r.PathValue("name"), r.PathValue("workspace")), nil
}

// some returns the right to any workspace of the state in the path.
func (v visibility) some(r *site.Request) (rights.Right, error) {
	return v.readAny(r.PathValue("name")), nil
}

// of returns the workspaces of a state that the caller may read.
func (v visibility) of(r *site.Request, name string, sum *states.Summary) *states.Summary {
	if sum == nil || r.Grant.May(v.read(name, "")) {
		return sum
	}
	return &states.Summary{
		Heads: slices.DeleteFunc(slices.Clone(sum.Heads), func(h statebackend.Head) bool { return !r.Grant.May(v.read(name, h.Workspace)) }),
		Locks: slices.DeleteFunc(slices.Clone(sum.Locks), func(h statebackend.Held) bool { return !r.Grant.May(v.read(name, h.Workspace)) }),
	}
}

// anyState is the right to any workspace of any state.
func anyState() rights.Right {
	return rights.Right{Action: rights.Read, Kind: addr.KindState, Address: rights.Somewhere}
}
