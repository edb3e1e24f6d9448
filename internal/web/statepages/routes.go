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
	return site.Set{Templates: files, Menu: statesMenu, Routes: func(r *site.Routes) {
		r.Show("GET /ui/states", site.List, lists.listStates) // each caller sees only readable states
		r.Show("GET /ui/states/{name}", seen.anyWorkspace, lists.workspaces)
		r.Show("GET /ui/states/{name}/{workspace}", seen.workspaceInPath, versions.show)
		r.Show("GET /ui/states/{name}/{workspace}/history", seen.workspaceInPath, versions.showHistory)
		r.Show("GET /ui/states/{name}/{workspace}/diff", seen.workspaceInPath, versions.diff)
		r.Show("GET /ui/states/{name}/{workspace}/{n}", seen.workspaceInPath, versions.show)
		r.Show("GET /ui/states/{name}/{workspace}/{n}/resources", seen.workspaceInPath, versions.resources)
		r.Show("GET /ui/states/{name}/{workspace}/{n}/reveal", seen.workspaceInPath, sensitive.show)
		r.Post("POST /ui/states/{name}/{workspace}/{n}/reveal", site.Holds(seen.workspaceInPath), sensitive.showValue)
	}}
}

// statesMenu returns the entry for callers that may read any state.
func statesMenu(r *site.Request) []site.Entry {
	if !r.Grant.May(anyState()) {
		return nil
	}
	return []site.Entry{{Link: site.Link{Text: "States", Href: "states"}}}
}

// visibility decides which states a caller may see.
type visibility struct{ states *states.States }

// readRight returns the right to a workspace of a state, "" for all of them.
func (v visibility) readRight(name, workspace string) rights.Right {
	return rights.StateRight(v.states.Layout(), rights.Read, name, workspace)
}

// readAny returns the right to any workspace of a state.
func (v visibility) readAny(name string) rights.Right {
	return rights.AnyStateRight(v.states.Layout(), rights.Read, name)
}

func (v visibility) workspaceInPath(r *site.Request) (rights.Right, error) {
	return v.readRight(r.PathValue("name"), r.PathValue("workspace")), nil
}

// anyWorkspace returns the right to any workspace of the state in the path.
func (v visibility) anyWorkspace(r *site.Request) (rights.Right, error) {
	return v.readAny(r.PathValue("name")), nil
}

// visibleSummary returns the workspaces of a state that the caller may read.
func (v visibility) visibleSummary(r *site.Request, name string, sum *states.Summary) *states.Summary {
	if sum == nil || r.Grant.May(v.readRight(name, "")) {
		return sum
	}
	return &states.Summary{
		Heads: slices.DeleteFunc(slices.Clone(sum.Heads), func(h statebackend.Head) bool { return !r.Grant.May(v.readRight(name, h.Workspace)) }),
		Locks: slices.DeleteFunc(slices.Clone(sum.Locks), func(h statebackend.Held) bool { return !r.Grant.May(v.readRight(name, h.Workspace)) }),
	}
}

func anyState() rights.Right {
	return rights.Right{Action: rights.Read, Kind: addr.KindState, Address: rights.Somewhere}
}
