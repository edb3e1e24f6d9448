// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"embed"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// Options configure the pages of templates and instances.
type Options struct {
	API  http.Handler // all of /api/v1/, called with the credentials of the page's caller
	Mine http.Handler // the same from this replica's own copy, which may be a little behind; nil: none
	Now  site.Clock   // nil: time.Now
}

//go:embed templates/*.html
var files embed.FS

// New returns the pages of templates and instances. The API decides who may see and do
// what; the check of a form is that the caller can see what the form is about.
func New(o Options) site.Set {
	if o.Now == nil {
		o.Now = time.Now
	}
	api := &backend{o.API, o.Mine}
	i := &instances{api: api, text: markdown.New(o.Now, nil), clock: o.Now}
	t := &templates{api: api, clock: o.Now}
	return site.Set{Templates: files, Menu: api.menu, Home: i.firstPage, Related: t.relatedTemplates, Find: t.findTemplates, Routes: func(r *site.Routes) {
		r.Show("GET /ui/templates", listRight, t.list)
		r.Show("GET /ui/templates/{namespace}/{name}", listRight, t.show)
		r.Show("GET /ui/kinds/{name}", listRight, t.kindPage)
		r.Show("GET /ui/run/{namespace}/{name}", listRight, t.showLaunch)
		r.Post("POST /ui/run/{namespace}/{name}", checkSees(t.templateOf), t.launch)
		r.Show("GET /ui/instances", listRight, i.list)
		r.Show("GET /ui/instances/several", listRight, i.showSeveral)
		r.Post("POST /ui/instances/several", site.Holds(listRight), i.destroySeveral)
		r.Show("GET /ui/instances/{id}", listRight, i.show)
		r.Show("GET /ui/instances/{id}/runs/{n}", listRight, i.showRun)
		r.Show("GET /ui/instances/{id}/reveal", listRight, i.askSensitive)
		r.Post("POST /ui/instances/{id}/reveal", checkSees(i.instanceOf), i.showSensitive)
		r.Show("GET /ui/instances/{id}/{verb}", listRight, i.showVerb)
		r.Post("POST /ui/instances/{id}/{verb}", checkSees(i.verbCallOf), i.doVerb)
		r.Show("GET /ui/approvals", listRight, i.approvalsPage)
		r.Show("GET /ui/admin/instances", listRight, i.listAll)
		r.Show("GET /ui/admin/templates", listRight, i.listAllTemplates)
		r.Post("POST /ui/templates/{namespace}/{name}/pause", checkSees(t.templateOf), t.setPaused("pause", "Paused: nothing new is launched from it."))
		r.Post("POST /ui/templates/{namespace}/{name}/resume", checkSees(t.templateOf), t.setPaused("resume", "Resumed: it can be launched again."))
	}}
}

// listRight is the right to lists of templates and instances, which the session of a portal
// also has.
func listRight(*site.Request) (rights.Right, error) {
	return rights.Right{Action: rights.List, Kind: addr.KindInstance}, nil
}

// checkSees makes the check of a form: its caller can read what it is about. The API decides
// what the caller may do.
func checkSees[T any](read func(*site.Request) (T, error)) site.Check {
	may := site.Holds(listRight)
	return func(r *site.Request) error {
		if err := may(r); err != nil {
			return err
		}
		_, err := read(r)
		return err
	}
}

// menu returns the entries that the caller may open.
func (s *backend) menu(r *site.Request) (all []site.Entry) {
	if hasInstanceRights(r) {
		all = append(all, site.Entry{Link: site.Link{Text: "Launch", Href: "templates"}}, site.Entry{Link: site.Link{Text: "Instances", Href: "instances"}, Count: s.quota(r)})
	}
	if mayInstances(r, rights.Approve) {
		all = append(all, site.Entry{Link: site.Link{Text: "Approvals", Href: "approvals"}, Count: s.countAwaiting(r)})
	}
	return all
}

// countAwaiting returns how many instances wait for the caller's approval, as this replica knows
// it; "": none, or not known here.
func (s *backend) countAwaiting(r *site.Request) string {
	if s.mine == nil {
		return ""
	}
	q := url.Values{"phase": {"approvable"}, "limit": {"1"}}
	doc, err := callAPI[api.Instances](s, r, asked{method: http.MethodGet, path: "instances", query: q, mine: true})
	if err != nil || doc.Count == 0 {
		return "" // their own page gives the reason
	}
	return strconv.Itoa(doc.Count)
}

func hasInstanceRights(r *site.Request) bool {
	return mayInstances(r, rights.Use) || mayInstances(r, rights.Read) ||
		r.Grant.May(rights.Right{Action: rights.Read, Kind: addr.KindTemplate, Address: rights.Somewhere})
}

func mayInstances(r *site.Request, action rights.Action) bool {
	return r.Grant.May(rights.Right{Action: action, Kind: addr.KindInstance, Address: rights.Somewhere})
}

// quota returns how many instances the caller has, and the limit; "": not known here.
func (s *backend) quota(r *site.Request) string {
	if s.mine == nil || !mayInstances(r, rights.Use) {
		return ""
	}
	me, err := callAPI[api.Me](s, r, asked{method: "GET", path: "me", mine: true})
	switch {
	case err != nil || me.Quota == nil:
		return "" // the page is shown without it
	case me.Quota.Limit > 0:
		return fmt.Sprintf("%d of %d", me.Quota.Used, me.Quota.Limit)
	case me.Quota.Used > 0:
		return fmt.Sprint(me.Quota.Used)
	}
	return ""
}
