// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/service"
)

// Bounds of lists.
const (
	defaultPage = 50
	maxPage     = 500
)

// page is the requested part of a list.
type page struct {
	limit int
	after string
}

func pageOf(r *http.Request) (page, error) {
	q := r.URL.Query()
	p := page{defaultPage, q.Get("after")}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return p, fieldError("/limit", "must be a number up to %d", maxPage)
		}
		p.limit = n
	}
	return p, nil
}

// cursorAfter returns the position in a list after an instance, which may be gone later.
func cursorAfter(r *lifecycle.Record) string {
	return strconv.FormatInt(startTime(r).UnixNano(), 10) + "-" + r.ID
}

// parseCursor returns a record that sorts where the one of the cursor did.
func parseCursor(s string) (*lifecycle.Record, error) {
	at, id, ok := strings.Cut(s, "-")
	n, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return nil, fieldError("/after", "must be the value of next from the previous page")
	}
	return &lifecycle.Record{ID: id, CreatedAt: time.Unix(0, n)}, nil
}

// listInstances answers the instances that the caller may see.
func listInstances(s *server, w http.ResponseWriter, r call[struct{}]) error {
	doc, err := selectInstances(s, r, reads)
	if err != nil {
		return err
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

func selectInstances(s *server, r call[struct{}], needed role) (api.Instances, error) {
	p, err := pageOf(r.request)
	if err != nil {
		return api.Instances{}, err
	}
	match, err := r.filter()
	if err != nil {
		return api.Instances{}, err
	}
	d := r.view.Document
	as := r.judgeFor(d)
	if r.request.URL.Query().Get("owner") == offeredToCaller {
		needed = receives
	}
	toApprove := slices.Contains(strings.Split(r.request.URL.Query().Get("phase"), ","), approvable)
	var found []*lifecycle.Record
	for _, record := range d.Records {
		switch {
		case !match(record):
		case toApprove && (lifecycle.Awaits(record) == "" || as.role(record)&approves == 0 || s.o.Machine.CheckApprover(r.actor, record) != nil):
		case as.role(record)&needed != 0:
			found = append(found, record)
		case needed != receives && r.isUnsure(record), needed == receives && r.unsureOf(record.Offer.To, record.Template):
			return api.Instances{}, r.stale
		}
	}
	slices.SortFunc(found, compareListed)
	doc := api.Instances{Count: len(found)}
	doc.Used, doc.Shared = r.countInstances(d)
	doc.Limit = userLimit(s, r.caller, d)
	if p.after != "" {
		last, err := parseCursor(p.after)
		if err != nil {
			return doc, err
		}
		from, _ := slices.BinarySearchFunc(found, last, compareListed)
		for from < len(found) && compareListed(found[from], last) == 0 {
			from++
		}
		found = found[from:]
	}
	if len(found) > p.limit {
		found = found[:p.limit]
		doc.Next = cursorAfter(found[p.limit-1])
	}
	doc.Instances = make([]api.Instance, len(found))
	for i, record := range found {
		doc.Instances[i] = listDocument(d, record, as.role(record))
		s.addAwaited(r.actor, &doc.Instances[i], record, as.role(record))
	}
	return doc, nil
}

// Bounds of the values that a list shows of a request.
const (
	maxListedValues = 8
	maxListedValue  = 500 // bytes
)

// addAwaited adds to an entry of a list whether the caller may answer what it waits for, and
// the values that differ from those before, or from the defaults.
func (s *server) addAwaited(by lifecycle.Actor, doc *api.Instance, r *lifecycle.Record, have role) {
	if doc.Pending == nil {
		return
	}
	if have&approves != 0 && s.o.Machine.CheckApprover(by, r) == nil {
		doc.Actions = []string{api.ActApprove, api.ActReject}
	}
	whole := *doc.Pending
	fillPending(&whole, r)
	now, ok := s.o.Catalog.Current(r.Template)
	for _, v := range whole.Values {
		usual := ok && now.Schema != nil && whole.Was == nil && now.Schema.IsDefault(v.Name, v.New)
		if v.Changed && !usual && len(v.New) <= maxListedValue && len(doc.Pending.Values) < maxListedValues {
			doc.Pending.Values = append(doc.Pending.Values, v)
		}
	}
}

// filter returns the condition that the query sets.
func (r call[A]) filter() (func(*lifecycle.Record) bool, error) {
	q := r.request.URL.Query()
	owner := q.Get("owner")
	template := q.Get("template")
	phase := q.Get("phase")
	wanted := strings.Split(phase, ",")
	for _, p := range wanted {
		if phase != "" && !slices.Contains([]string{"live", awaiting, approvable}, p) && !lifecycle.Phase(p).IsKnown() {
			return nil, fieldError("/phase", "%.40q must be one of %s", p, strings.Trim(fmt.Sprint(append(lifecycle.Phases(), "live", awaiting, approvable)), "[]"))
		}
	}
	d := r.view.Document
	own := r.owner()
	return func(record *lifecycle.Record) bool {
		switch {
		case template != "" && !addr.Match(template, record.Template):
			return false
		case phase != "" && !slices.ContainsFunc(wanted, func(p string) bool { return inPhase(record, p) }):
			return false
		case owner == "":
			return true
		case owner == offeredToCaller:
			return record.Offer != nil
		case owner == "me":
			return record.Owner.Same(own)
		case owner == "mine":
			return r.isOwner(d, record) || r.isUnsure(record)
		}
		return record.Owner.Kind != "" && ownerText(record.Owner) == owner
	}, nil
}

// offeredToCaller as the owner selects what is offered to the caller.
const offeredToCaller = "offered"

// Filter words for what waits for approval in any phase, and for what the caller may approve.
const (
	awaiting   = "approval"
	approvable = "approvable"
)

// inPhase reports whether an instance matches a phase or word of the filter.
func inPhase(r *lifecycle.Record, word string) bool {
	switch word {
	case "live":
		return r.Phase.Live()
	case awaiting, approvable:
		return lifecycle.Awaits(r) != ""
	}
	return string(r.Phase) == word
}

// userLimit returns the limit on the caller's live instances; 0: none.
func userLimit(s *server, c caller, d *lifecycle.Document) int {
	for _, q := range s.o.Machine.Quotas(d, &template.Template{Name: "-/-"}, c.owner(), c.actor) {
		return q.Limit
	}
	return 0
}

// countInstances counts the instances of the caller and the caller's groups against limits.
func (c caller) countInstances(d *lifecycle.Document) (used, shared int) {
	own := c.owner()
	for _, record := range d.Records {
		switch {
		case !record.Counts() || lifecycle.IsWorkspaceTemplate(record.Template):
		case record.Owner.Same(own):
			used++
		case c.isOwner(d, record):
			shared++
		}
	}
	return used, shared
}

// Kinds are a cluster's kinds, shown beside templates: users write their objects themselves.
type Kinds interface {
	Kinds() []api.Kind // by name
}

// kindsNamespace is the first part of a kind's address: read:template:apps.okara.dev/* shows all.
const kindsNamespace = "apps.okara.dev"

// visibleKinds returns the kinds that the caller may see.
func (s *server) visibleKinds(c caller) []api.Kind {
	if s.o.Kinds == nil {
		return nil
	}
	return slices.DeleteFunc(s.o.Kinds.Kinds(), func(k api.Kind) bool { return !c.mayRead(kindsNamespace + "/" + k.Name) })
}

// findKind finds the kind that a path names, if the caller may see it.
func findKind(s *server, r *http.Request, c caller, _ lifecycle.View) (api.Kind, caller, error) {
	all := s.visibleKinds(c)
	i := slices.IndexFunc(all, func(k api.Kind) bool { return k.Name == r.PathValue("name") })
	if i >= 0 {
		return all[i], c, nil
	}
	if err := c.refuseUnknown(); err != nil {
		return api.Kind{}, c, err
	}
	return api.Kind{}, c, &service.Error{Status: http.StatusNotFound, Text: "kind not found or not visible to you"}
}

func showKind(_ *server, w http.ResponseWriter, r call[api.Kind]) error {
	return service.WriteJSON(w, http.StatusOK, r.at)
}
