// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/statebackend"
)

// Depot is what keeps the registry filled, as far as this replica and the registry
// know it.
type Depot interface {
	// Depot answers from memory while what it knows is new.
	Depot(ctx context.Context) (DepotView, error)
	// Sync asks this replica for a run now; false: it runs none.
	Sync() bool
	// Approve publishes what waits, and asks the registry whether it still does. An
	// error of [service.Error] says for people what is in the way.
	Approve(ctx context.Context, a Approval) (Approved, error)
}

// DepotView is a depot as it is now. It is shared and never changed.
type DepotView struct {
	Runs     bool      // this replica runs a depot file
	Problem  string    // why the file cannot be read; "": it can
	Next     time.Time // run of this replica; zero: it runs now, or never
	Last     DepotRun  // of this replica
	Held     *statebackend.Held
	Lock     string         // repository of the lock, without host
	Entries  []DepotEntry   // in the order of the file, then those that only the record has
	Versions []DepotVersion // that are kept back or drifted
}

// DepotRun is how a run ended.
type DepotRun struct {
	Ended    time.Time // zero: none has since the start
	Problem  string    // why it was none
	Failures []DepotFailure
	More     int // failures that are not among them
}

// DepotFailure is what a run could not do.
type DepotFailure struct{ Entry, Version, Reason string }

// DepotEntry is a module or provider that the depot keeps here.
type DepotEntry struct {
	Name               string // "module net/vpc/aws"
	Constraint, Origin string // as the file says
	Declared           bool   // by the file of this replica
	Newest             string // version that is published
	Published, Waiting int
	Blocked, Drifted   int
}

// DepotVersion is a version that a person should look at.
type DepotVersion struct {
	Approval
	State  string // waiting, blocked or drift
	Reason string
	Since  time.Time // zero: unknown
}

// Approval names what is approved as somebody saw it.
type Approval struct{ Entry, Version, Digest string }

// Approved is what came of an approval.
type Approved struct {
	Before   bool     // somebody else had published the same content already
	Late     bool     // a run is under way, so the record follows with the next one
	Warnings []string // of what could not be done beside it
}

// depotBody is the depot for people.
type depotBody struct {
	Runs      bool
	Problem   string
	Next      moment
	Due       string // until the next run, in words
	Last      moment
	LastBad   string
	Failures  []DepotFailure
	More      int
	Lock      *lockBody
	Counts    []fact
	Held      []depotHeldRow
	HeldPages pages
	Rows      []depotRow
	Pages     pages
}

// depotRow is an entry.
type depotRow struct {
	entryName
	Constraint, Origin string
	Marks              []mark
	Newest             string
	Published          int
}

// depotHeldRow is a version that a person should look at.
type depotHeldRow struct {
	entryName
	Approval
	Mark    mark
	Reason  string
	Since   moment
	Approve bool
	Command string // "": none that a shell should get
}

// entryName is the name of an entry, with the page of what it is, if it is something.
type entryName struct {
	link
	Kind string
}

// depots shows what keeps the registry filled, and lets people help it.
type depots struct {
	depot Depot
	hosts hosts
	clock clock
}

func (d *depots) routes(r *routes) {
	r.Show("GET /ui/depot", administer, d.show)
	r.Post("POST /ui/depot/sync", holds(administer), d.sync)
	r.Post("POST /ui/depot/approve", holds(administer), d.approve)
}

// show has what the depot keeps here.
func (d *depots) show(r *request) (*page, error) {
	v, err := d.depot.Depot(r.Context())
	if err != nil {
		return nil, err
	}
	now := d.clock()
	body := depotBody{
		Runs: v.Runs, Problem: clip(text.Block(v.Problem)), Next: d.clock.When(v.Next), Last: d.clock.When(v.Last.Ended), LastBad: clip(text.Block(v.Last.Problem)), More: v.Last.More,
		Lock: newLock(d.clock, v.Held, d.hosts.RegistryOf(r)+"/"+v.Lock, depotLock), Counts: depotCounts(v.Entries),
	}
	if v.Next.After(now) {
		body.Due = "in " + span(v.Next.Sub(now).Round(time.Minute))
	}
	for _, f := range v.Last.Failures {
		body.Failures = append(body.Failures, DepotFailure{text.Block(f.Entry), text.Block(f.Version), clip(text.Block(f.Reason))})
	}
	body.HeldPages = pagesOf(r, "held", len(v.Versions))
	for _, held := range v.Versions[body.HeldPages.First:body.HeldPages.Last] {
		row := d.heldRow(held)
		if !slices.ContainsFunc(v.Entries, func(e DepotEntry) bool { return e.Name == held.Entry && e.Published > 0 }) {
			row.Href = ""
		}
		body.Held = append(body.Held, row)
	}
	body.Pages = pagesOf(r, "page", len(v.Entries))
	for _, e := range v.Entries[body.Pages.First:body.Pages.Last] {
		body.Rows = append(body.Rows, depotRowOf(v, e))
	}
	return &page{Template: "depot.html", Title: "Depot", Key: d.clock.NewKey(), Command: "okara depot status --registry " + d.hosts.RegistryOf(r), Body: body}, nil
}

// depotLock is the workspace whose lock a run holds.
const depotLock = "depot"

// depotCounts are the versions of all entries by what is with them.
func depotCounts(all []DepotEntry) []fact {
	var n [4]int
	for _, e := range all {
		for i, more := range []int{e.Published, e.Waiting, e.Blocked, e.Drifted} {
			n[i] += more
		}
	}
	facts := []fact{{Name: "Entries", Text: fmt.Sprint(len(all))}}
	for i, name := range []string{"Published", "Waiting", "Blocked", "Drifted"} {
		facts = append(facts, fact{Name: name, Text: fmt.Sprint(n[i])})
	}
	return facts
}

func depotRowOf(v DepotView, e DepotEntry) depotRow {
	row := depotRow{
		entryName: nameOfEntry(e.Name), Constraint: clip(text.Block(e.Constraint)), Origin: clip(text.Block(e.Origin)), Newest: text.Block(e.Newest), Published: e.Published,
	}
	if e.Published == 0 { // there is no page of it yet
		row.Href = ""
	}
	for _, c := range []struct {
		n    int
		word string
		kind string
	}{{e.Waiting, "waiting", "warn"}, {e.Blocked, "blocked", "bad"}, {e.Drifted, "drifted", "bad"}} {
		if c.n > 0 {
			row.Marks = append(row.Marks, mark{fmt.Sprintf("%d %s", c.n, c.word), c.kind})
		}
	}
	if v.Runs && v.Problem == "" && !e.Declared {
		row.Marks = append(row.Marks, mark{"not in the file", "plain"})
	}
	return row
}

func (d *depots) heldRow(v DepotVersion) depotHeldRow {
	row := depotHeldRow{
		entryName: nameOfEntry(v.Entry), Approval: v.Approval, Reason: clip(text.Block(v.Reason)), Since: d.clock.When(v.Since), Mark: mark{text.Block(v.State), "bad"},
	}
	row.Version, row.Digest = text.Block(v.Version), clip(text.Block(v.Digest))
	_, _, ok := v.Approval.Item()
	switch {
	case v.State == "drift":
		row.Mark.Text = "drifted"
	case v.State == "waiting":
		row.Mark.Kind, row.Approve = "warn", ok
	case ok:
		row.Command = "okara approve " + states.ShellQuote(row.Text+"@"+row.Version)
	}
	return row
}

// nameOfEntry reads the name of an entry. What no depot writes is text.
func nameOfEntry(name string) entryName {
	it, ok := parseEntry(name)
	if !ok {
		return entryName{link: link{Text: clip(text.Block(name))}}
	}
	path := "modules/"
	if it.Kind == addr.KindMirror {
		path = "mirror/"
	}
	return entryName{link{it.String(), path + escapePath(it.String())}, it.Kind}
}

// sync asks for a run now.
func (d *depots) sync(r *request, _ *form) (*answer, error) {
	if !d.depot.Sync() {
		return &answer{To: "depot", Text: "This replica runs no depot file, so nothing was begun.", Bad: true}, nil
	}
	r.Grant.Record(depotLock, access.Change{Action: "sync", Status: 303})
	return &answer{To: "depot", Text: "Sync requested. It starts when the current run ends."}, nil
}

// approve publishes what waits, as it was seen.
func (d *depots) approve(r *request, f *form) (*answer, error) {
	a := Approval{f.Get("entry"), f.Get("version"), f.Get("digest")}
	it, v, ok := a.Item()
	if !ok {
		return nil, badForm("the form names no version: send it from its page")
	}
	done, err := d.depot.Approve(r.Context(), a)
	if err != nil {
		return nil, err
	}
	what := it.String() + " " + v.String()
	if done.Before {
		return &answer{To: "depot", Text: what + " was published already."}, nil
	}
	r.Grant.Record(it.String(), access.Change{Action: access.Approve, Version: v.String(), Digest: a.Digest, Detail: it.Kind, Status: 303})
	var words strings.Builder
	words.WriteString(what + " is published.")
	if done.Late {
		words.WriteString(" A run is under way, so it may be listed as waiting until the next one.")
	}
	for _, w := range done.Warnings {
		words.WriteString(" " + sentence(text.Block(w)) + ".")
	}
	return &answer{To: "depot", Text: words.String()}, nil
}

// Item reads the name of the entry and the version; false: no depot writes such a
// thing.
func (a Approval) Item() (it addr.Item, v addr.Version, ok bool) {
	it, ok = parseEntry(a.Entry)
	v, err := addr.ParseVersion(a.Version)
	return it, v, ok && err == nil && v.String() == a.Version
}

// parseEntry reads the name of an entry: the kind and the address.
func parseEntry(name string) (addr.Item, bool) {
	kind, address, _ := strings.Cut(name, " ")
	it, err := addr.ParseItem(address)
	return it, err == nil && it.Kind == kind && it.String() == address && (kind == addr.KindModule || kind == addr.KindMirror)
}
