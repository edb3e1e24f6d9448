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
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/statebackend"
)

// Depot provides the data of the depot page, from this replica and the registry.
type Depot interface {
	// Depot returns the current view, from a cache while that is fresh.
	Depot(ctx context.Context) (DepotView, error)
	// Sync requests a run of this replica now; false: it runs none.
	Sync() bool
	// Approve publishes a waiting version, after checking with the registry that it still
	// waits. A [service.Error] has a text for the user.
	Approve(ctx context.Context, a Approval) (Approved, error)
}

// DepotView is the current state of a depot. It is shared and never changed.
type DepotView struct {
	Runs     bool      // this replica runs a depot file
	Problem  string    // why the file cannot be read; "": it can
	Next     time.Time // next run of this replica; zero: it runs now, or never
	Last     DepotRun  // last run of this replica
	Held     *statebackend.Held
	Lock     string         // repository of the lock, without host
	Entries  []DepotEntry   // in the order of the file, followed by those that only the record has
	Versions []DepotVersion // versions that are held back or have drifted
}

// DepotRun is the result of a run.
type DepotRun struct {
	Ended    time.Time // zero: none since the start
	Problem  string    // why the whole run failed
	Failures []DepotFailure
	More     int // number of further failures
}

// DepotFailure is a version that a run could not bring in.
type DepotFailure struct{ Entry, Version, Reason string }

// DepotEntry is a module or provider that the depot mirrors.
type DepotEntry struct {
	Name               string // "module net/vpc/aws"
	Constraint, Origin string // as in the file
	Declared           bool   // by the file of this replica
	Newest             string // published version
	Published, Waiting int
	Blocked, Drifted   int
}

// DepotVersion is a version that needs a decision.
type DepotVersion struct {
	Approval
	State  string // waiting, blocked or drift
	Reason string
	Since  time.Time // zero: unknown
}

// Approval identifies the content that the approver saw.
type Approval struct{ Entry, Version, Digest string }

// Approved is the result of an approval.
type Approved struct {
	Before   bool     // the same content had been published already
	Late     bool     // a run is under way, so the record is updated by the next one
	Warnings []string // additional steps that failed
}

type depotBody struct {
	Runs      bool
	Problem   string
	Next      site.Timestamp
	Due       string // until the next run, in words
	Last      site.Timestamp
	LastBad   string
	Failures  []DepotFailure
	More      int
	Lock      *site.Lock
	Counts    []site.Fact
	Held      []depotHeldRow
	HeldPages site.Pages
	Rows      []depotRow
	Pages     site.Pages
}

type depotRow struct {
	entryName
	Constraint, Origin string
	Marks              []site.Mark
	Newest             string
	Published          int
}

// depotHeldRow is a row for a version that needs a decision.
type depotHeldRow struct {
	entryName
	Approval
	Mark    site.Mark
	Reason  string
	Since   site.Timestamp
	Approve bool
	Command string // "": the names are not safe for a shell
}

// entryName is the name of an entry, with a link to the page of its item, if it has one.
type entryName struct {
	site.Link
	Kind string
}

// depots shows the depot, and starts runs and approves versions for administrators.
type depots struct {
	depot Depot
	hosts site.Hosts
	clock site.Clock
}

func (d *depots) addRoutes(r *site.Routes) {
	r.Show("GET /ui/depot", site.Administer, d.show)
	r.Post("POST /ui/depot/sync", site.Holds(site.Administer), d.sync)
	r.Post("POST /ui/depot/approve", site.Holds(site.Administer), d.approve)
}

func (d *depots) show(r *site.Request) (*site.Page, error) {
	v, err := d.depot.Depot(r.Context())
	if err != nil {
		return nil, err
	}
	now := d.clock()
	body := depotBody{
		Runs: v.Runs, Problem: site.Clip(text.Block(v.Problem)), Next: d.clock.When(v.Next), Last: d.clock.When(v.Last.Ended), LastBad: site.Clip(text.Block(v.Last.Problem)), More: v.Last.More,
		Lock: site.NewLock(d.clock, v.Held, d.hosts.RegistryOf(r)+"/"+v.Lock, depotLock), Counts: depotCounts(v.Entries),
	}
	if v.Next.After(now) {
		body.Due = "in " + site.Span(v.Next.Sub(now).Round(time.Minute))
	}
	for _, f := range v.Last.Failures {
		body.Failures = append(body.Failures, DepotFailure{text.Block(f.Entry), text.Block(f.Version), site.Clip(text.Block(f.Reason))})
	}
	body.HeldPages = site.PagesOf(r, "held", len(v.Versions))
	for _, held := range v.Versions[body.HeldPages.First:body.HeldPages.Last] {
		row := d.heldRow(held)
		if !slices.ContainsFunc(v.Entries, func(e DepotEntry) bool { return e.Name == held.Entry && e.Published > 0 }) {
			row.Href = ""
		}
		body.Held = append(body.Held, row)
	}
	body.Pages = site.PagesOf(r, "page", len(v.Entries))
	for _, e := range v.Entries[body.Pages.First:body.Pages.Last] {
		body.Rows = append(body.Rows, depotRowOf(v, e))
	}
	return &site.Page{Template: "depot.html", Title: "Depot", Key: d.clock.NewKey(), Command: "okara depot status --registry " + d.hosts.RegistryOf(r), Body: body}, nil
}

// depotLock is the workspace whose lock a run holds.
const depotLock = "depot"

// depotCounts returns the number of versions of all entries, by state.
func depotCounts(all []DepotEntry) []site.Fact {
	var n [4]int
	for _, e := range all {
		for i, more := range []int{e.Published, e.Waiting, e.Blocked, e.Drifted} {
			n[i] += more
		}
	}
	facts := []site.Fact{{Name: "Entries", Text: fmt.Sprint(len(all))}}
	for i, name := range []string{"Published", "Waiting", "Blocked", "Drifted"} {
		facts = append(facts, site.Fact{Name: name, Text: fmt.Sprint(n[i])})
	}
	return facts
}

func depotRowOf(v DepotView, e DepotEntry) depotRow {
	row := depotRow{
		entryName: nameOfEntry(e.Name), Constraint: site.Clip(text.Block(e.Constraint)), Origin: site.Clip(text.Block(e.Origin)), Newest: text.Block(e.Newest), Published: e.Published,
	}
	if e.Published == 0 { // it has no page yet
		row.Href = ""
	}
	for _, c := range []struct {
		n    int
		word string
		kind string
	}{{e.Waiting, "waiting", "warn"}, {e.Blocked, "blocked", "bad"}, {e.Drifted, "drifted", "bad"}} {
		if c.n > 0 {
			row.Marks = append(row.Marks, site.Mark{Text: fmt.Sprintf("%d %s", c.n, c.word), Kind: c.kind})
		}
	}
	if v.Runs && v.Problem == "" && !e.Declared {
		row.Marks = append(row.Marks, site.Mark{Text: "not in the file", Kind: "plain"})
	}
	return row
}

func (d *depots) heldRow(v DepotVersion) depotHeldRow {
	row := depotHeldRow{
		entryName: nameOfEntry(v.Entry), Approval: v.Approval, Reason: site.Clip(text.Block(v.Reason)), Since: d.clock.When(v.Since), Mark: site.Mark{Text: text.Block(v.State), Kind: "bad"},
	}
	row.Version = text.Block(v.Version)
	row.Digest = site.Clip(text.Block(v.Digest))
	_, _, ok := v.Approval.Item()
	switch {
	case v.State == "drift":
		row.Mark.Text = "drifted"
	case v.State == "waiting":
		row.Mark.Kind = "warn"
		row.Approve = ok
	case ok:
		row.Command = "okara depot approve " + text.ShellWord(row.Text+"@"+row.Version)
	}
	return row
}

// nameOfEntry parses the name of an entry. An invalid name is shown as text.
func nameOfEntry(name string) entryName {
	it, ok := parseEntry(name)
	if !ok {
		return entryName{Link: site.Link{Text: site.Clip(text.Block(name))}}
	}
	path := "modules/"
	if it.Kind == addr.KindMirror {
		path = "mirror/"
	}
	return entryName{site.Link{Text: it.String(), Href: path + site.EscapePath(it.String())}, it.Kind}
}

// sync requests a run now.
func (d *depots) sync(r *site.Request, _ *site.Form) (*site.Answer, error) {
	if !d.depot.Sync() {
		return &site.Answer{To: "depot", Text: "This replica runs no depot file, so no sync was started.", Bad: true}, nil
	}
	r.Grant.Record(depotLock, access.Change{Action: "sync", Status: 303})
	return &site.Answer{To: "depot", Text: "Sync requested. It starts when the current run ends."}, nil
}

// approve publishes a waiting version with the digest that the form shows.
func (d *depots) approve(r *site.Request, f *site.Form) (*site.Answer, error) {
	a := Approval{f.Get("entry"), f.Get("version"), f.Get("digest")}
	it, v, ok := a.Item()
	if !ok {
		return nil, site.BadForm("the form has no version: submit it from its page")
	}
	done, err := d.depot.Approve(r.Context(), a)
	if err != nil {
		return nil, err
	}
	what := it.String() + " " + v.String()
	if done.Before {
		return &site.Answer{To: "depot", Text: what + " was already published."}, nil
	}
	r.Grant.Record(it.String(), access.Change{Action: rights.Approve, Version: v.String(), Digest: a.Digest, Detail: it.Kind, Status: 303})
	var words strings.Builder
	words.WriteString(what + " is published.")
	if done.Late {
		words.WriteString(" A run is under way, so it may be listed as waiting until the next one.")
	}
	for _, w := range done.Warnings {
		words.WriteString(" " + site.Sentence(text.Block(w)) + ".")
	}
	return &site.Answer{To: "depot", Text: words.String()}, nil
}

// Item parses the name of the entry and the version; false: a depot never writes such
// names.
func (a Approval) Item() (it addr.Item, v addr.Version, ok bool) {
	it, ok = parseEntry(a.Entry)
	v, err := addr.ParseVersion(a.Version)
	return it, v, ok && err == nil && v.String() == a.Version
}

// parseEntry parses the name of an entry: the kind and the address.
func parseEntry(name string) (addr.Item, bool) {
	kind, address, _ := strings.Cut(name, " ")
	it, err := addr.ParseItem(address)
	hasEntries := kind == addr.KindModule || kind == addr.KindMirror
	return it, err == nil && hasEntries && it.Kind == kind && it.String() == address
}
