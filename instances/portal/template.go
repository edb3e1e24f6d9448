// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/span"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
)

// listTemplates answers the templates that the caller may see, without the hidden ones.
func listTemplates(s *server, w http.ResponseWriter, r call[struct{}]) error {
	p, err := pageOf(r.request)
	if err != nil {
		return err
	}
	doc := api.Templates{Templates: []api.Template{}}
	wanted := r.templateFilter()
	last := ""
	for _, e := range s.o.Catalog.All() {
		if !e.Template.Visible || !r.mayRead(e.Template.Name) || !wanted(&e) {
			continue
		}
		doc.Count++
		switch {
		case e.Template.Name <= p.after || doc.Next != "":
		case len(doc.Templates) == p.limit:
			doc.Next = last
		default:
			listed := entryDoc(s, r.caller, r.view.Document, &e)
			// a list is for choosing
			listed.Schema = nil
			listed.Parameters = nil
			doc.Templates = append(doc.Templates, listed)
			last = listed.Name
		}
	}
	if q := r.request.URL.Query(); p.after == "" && q.Get("module")+q.Get("use") == "" {
		doc.Kinds = slices.DeleteFunc(s.visibleKinds(r.caller), func(k api.Kind) bool {
			return !containsWords(q.Get("q"), k.Name, k.Kind, k.Title, k.Description, k.Category, k.Module)
		})
		for i := range doc.Kinds {
			doc.Kinds[i].Example = ""
		}
	}
	if doc.Count == 0 && len(doc.Kinds) == 0 && !r.mayReadTemplates() {
		if err := r.refuseUnknown(); err != nil {
			return err
		}
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

// mayReadTemplates reports whether the caller may see some template.
func (c caller) mayReadTemplates() bool {
	return c.grant.May(rights.Right{Action: rights.Read, Kind: addr.KindTemplate, Address: rights.Somewhere}) || c.mayAny(rights.Use)
}

// templateFilter selects the templates that a query asks for: q words in texts, module the address
// of a module, use those that the caller can launch now.
func (r call[A]) templateFilter() func(*template.Entry) bool {
	q := r.request.URL.Query()
	words := q.Get("q")
	module := q.Get("module")
	use := q.Get("use") != ""
	return func(e *template.Entry) bool {
		t := e.Template
		address := cmp.Or(t.Module.Address, e.Source.Chart)
		if module != "" && module != address || !containsWords(words, t.Name, t.Title, t.Description, t.Category, address) {
			return false
		}
		if !use {
			return true
		}
		return t.Enabled && e.Problem == "" && whyPaused(r.view.Document, t.Name) == "" && r.mayInstance(rights.Use, t.Name)
	}
}

// containsWords reports whether each word is in one of the texts, ignoring case.
func containsWords(words string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	for word := range strings.FieldsSeq(strings.ToLower(words)) {
		if !strings.Contains(all, word) {
			return false
		}
	}
	return true
}

func showTemplate(s *server, w http.ResponseWriter, r call[string]) error {
	doc, ok := templateDoc(s, r.caller, r.view.Document, r.at)
	if !ok {
		return noTemplate(r.at)
	}
	if r.mayInstance(rights.Use, r.at) {
		var err error
		if doc.Versions, err = s.o.Catalog.Versions(r.request.Context(), r.at); err != nil { // the newest can be launched without the list
			s.kit.Log(r.request).Warn("versions of a template not listed", "template", r.at, "error", err)
		}
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

// templateDoc is a template as the caller sees it; false: it does not exist.
func templateDoc(s *server, c caller, d *lifecycle.Document, name string) (api.Template, bool) {
	e, ok := s.o.Catalog.Current(name)
	if !ok {
		return api.Template{}, false
	}
	return entryDoc(s, c, d, e), true
}

func entryDoc(s *server, c caller, d *lifecycle.Document, e *template.Entry) api.Template {
	t := e.Template
	doc := api.Template{
		Name: t.Name, Title: t.Title, Description: t.Description, Icon: t.Icon, Category: t.Category, Enabled: t.Enabled, Visible: t.Visible, Digest: e.Digest,
		Module: cmp.Or(t.Module.Address, e.Source.Chart), Version: t.Module.Version, Owner: t.Owner, Groups: t.Groups, PerOwner: t.PerOwner, Max: t.Max, Approval: t.Approval,
		Outputs: t.Outputs, Protection: t.Protection, Update: t.Update, Pool: poolDoc(d, t),
	}
	if l := t.TTL; l != nil {
		doc.TTL = &api.TTL{
			Default: span.Span(l.Default), Max: span.Span(l.Max), Extend: span.Span(l.Extend), Extends: l.Extends, OnExpire: l.OnExpire,
		}
	}
	doc.Cost = t.Cost
	doc.Hours = nextHours(t.Schedule, s.o.Now())
	if e.Schema != nil {
		doc.Schema = e.Schema.JSON()
	}
	for _, p := range t.Parameters {
		parameter := api.Parameter{
			Name: p.Name, Title: p.Title, Help: p.Help, Default: p.Default, Enum: p.Enum, Pattern: p.Pattern, Minimum: p.Minimum, Maximum: p.Maximum, Update: p.Update, When: p.When,
		}
		if parameter.Sensitive = e.Schema == nil || e.Schema.Sensitive(p.Name); parameter.Sensitive {
			parameter.Default = nil
		}
		doc.Parameters = append(doc.Parameters, parameter)
	}
	doc.Paused = whyPaused(d, t.Name)
	mends := c.grant.May(rights.Right{Action: rights.Publish, Kind: addr.KindTemplate, Address: t.Name}) || c.mayInstance(rights.Admin, t.Name)
	if mends {
		doc.Behind = e.Behind
	}
	if e.Problem != "" {
		doc.Invalid = "cannot be launched now"
		switch {
		case mends:
			doc.Invalid = cmp.Or(e.Cause, e.Problem)
		case c.mayInstance(rights.Use, t.Name):
			doc.Invalid = e.Problem
		}
	}
	if c.mayInstance(rights.Use, t.Name) {
		addOwn(s, c, d, t, &doc)
	} else {
		doc.Closed = "you may view it, but not launch it"
	}
	switch {
	case doc.Invalid != "":
		doc.Closed = doc.Invalid
	case doc.Paused != "":
		doc.Closed = "paused: " + doc.Paused
	case !doc.Enabled:
		doc.Closed = "disabled"
	}
	return doc
}

// whyPaused returns why creating instances of a template is paused; "": it is not.
func whyPaused(d *lifecycle.Document, template string) string {
	if pool := d.Pools[template]; pool != nil {
		return pool.Paused
	}
	return ""
}

// addOwn adds what is left of the caller's limits, and the owners to choose from.
func addOwn(s *server, c caller, d *lifecycle.Document, t *template.Template, doc *api.Template) {
	owners, err := c.owners(t)
	if err != nil {
		doc.Closed = err.Error()
		return
	}
	for _, o := range owners {
		doc.Owners = append(doc.Owners, *ownerDoc(o))
	}
	doc.Force = c.mayInstance(rights.Admin, t.Name)
	if !doc.Force && t.PerOwner != 1 { // a caller that may have one instance, and has it, gets that one
		doc.Closed = usedUpLimit(s.o.Machine, c, d, t, owners)
	}
	if len(owners) != 1 {
		return
	}
	doc.Quota = &api.Quota{}
	for _, q := range s.o.Machine.Quotas(d, t, owners[0], c.actor) { // the tightest one counts
		if doc.Quota.Limit == 0 || q.Limit-q.Used < doc.Quota.Limit-doc.Quota.Used {
			*doc.Quota = api.Quota{Limit: q.Limit, Used: q.Used}
		}
	}
}

// usedUpLimit names the caller's limit that is used up; "": one owner may have another.
func usedUpLimit(m *lifecycle.Machine, c caller, d *lifecycle.Document, t *template.Template, owners []template.Owner) (why string) {
	for _, o := range owners {
		quotas := m.Quotas(d, t, o, c.actor)
		i := slices.IndexFunc(quotas, func(q lifecycle.QuotaError) bool { return q.Used >= q.Limit })
		if i < 0 {
			return ""
		}
		why = cmp.Or(why, quotas[i].Error())
	}
	return why
}

// poolDoc counts the instances of a pool: available, claimed, all live ones.
func poolDoc(d *lifecycle.Document, t *template.Template) *api.Pool {
	if t.Pool == nil {
		return nil
	}
	doc := &api.Pool{Size: t.Pool.Size}
	for _, r := range d.Records {
		if r.Template != t.Name || !r.Pooled || !r.Phase.Live() {
			continue
		}
		doc.Total++
		switch {
		case r.Phase == lifecycle.Available:
			doc.Available++
		case r.Owner.Kind != "":
			doc.Claimed++
		}
	}
	return doc
}

// listAdminTemplates answers all templates, removed ones with instances too.
func listAdminTemplates(s *server, w http.ResponseWriter, r call[struct{}]) error {
	d := r.view.Document
	byName := map[string]*api.AdminTemplate{}
	for _, e := range s.o.Catalog.All() {
		byName[e.Template.Name] = &api.AdminTemplate{Template: entryDoc(s, r.caller, d, &e)}
	}
	for _, record := range d.Records {
		if lifecycle.IsWorkspaceTemplate(record.Template) {
			continue
		}
		entry := byName[record.Template]
		if entry == nil {
			entry = &api.AdminTemplate{Template: api.Template{Name: record.Template}, Gone: true}
			byName[record.Template] = entry
		}
		if entry.Phases == nil {
			entry.Phases = map[string]int{}
		}
		entry.Phases[string(record.Phase)]++
		if record.Phase.Live() {
			entry.Live++
		}
	}
	doc := api.AdminTemplates{Templates: []api.AdminTemplate{}}
	for name, entry := range byName {
		if pool := d.Pools[name]; pool != nil {
			entry.Failures = pool.Failures
			entry.Backoff = pool.Backoff
			entry.PausedBy = pool.By
		}
		doc.Templates = append(doc.Templates, *entry)
	}
	slices.SortFunc(doc.Templates, func(a, b api.AdminTemplate) int { return strings.Compare(a.Name, b.Name) })
	return service.WriteJSON(w, http.StatusOK, doc)
}

func listAdminInstances(s *server, w http.ResponseWriter, r call[struct{}]) error {
	list, err := selectInstances(s, r, administers)
	if err != nil {
		return err
	}
	doc := api.AdminInstances{Instances: list, Phases: map[string]int{}, ClockHeld: r.view.Document.Clock.Held}
	for _, record := range r.view.Document.Records {
		if !lifecycle.IsWorkspaceTemplate(record.Template) {
			doc.Phases[string(record.Phase)]++
		}
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

func showUser(s *server, w http.ResponseWriter, r call[struct{}]) error {
	used, shared := r.countInstances(r.view.Document)
	doc := api.Me{
		Mode: r.grant.Mode, Issuer: r.actor.Issuer, Subject: r.actor.Subject, Label: r.actor.Label, Groups: r.actor.Groups,
		Admin:    r.grant.May(rights.Right{Action: rights.Admin, Kind: addr.KindInstance, Address: rights.Everything}),
		Approver: r.mayAny(rights.Approve),
		Quota:    &api.Quota{Limit: userLimit(s, r.caller, r.view.Document), Used: used}, Shared: shared,
		AsOf: r.view.AsOf,
	}
	doc.Server.Rate = s.o.Rate
	return service.WriteJSON(w, http.StatusOK, doc)
}
