// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// auditBody is the page of changes, or of decisions.
type auditBody struct {
	auditNote
	Tabs      []site.Tab
	Decisions bool
	site.Pages
	Filtered bool
	Actor    string // of the filters, like the five below
	Address  string
	Action   string
	Since    string
	Until    string
	Kinds    []site.Choice
	Results  []site.Choice
	Outcomes []site.Choice
	Rows     []auditRow
	Exports  []site.Link // downloads of the same records
}

// auditNote says how complete the shown records are.
type auditNote struct {
	Unprotected bool
	Unreadable  int       // number of parts that do not open
	Reading     bool      // nothing has been read yet
	Stale       time.Time // since when the registry does not answer; zero: it answers
	Older       int       // number of parts that are not in memory
	Waiting     int
	Dropped     int
}

type auditRow struct {
	At           site.Timestamp
	Who          string
	Action, Kind string
	Result       site.Mark
	Object       string
	Details      []site.Choice // name and value
}

// audits shows changes and decisions.
type audits struct {
	auditLog *auditlog.Log
	clock    site.Clock
}

func (a *audits) addRoutes(r *site.Routes) { r.Show("GET /ui/audit", site.Administer, a.show) }

// show shows the changes by all replicas, or the decisions of this one.
func (a *audits) show(r *site.Request) (*site.Page, error) {
	v := r.URL.Query()
	q, err := auditlog.ParseQuery(v)
	if err != nil {
		return nil, &service.Error{Status: http.StatusBadRequest, Text: err.Error()}
	}
	found := a.auditLog.Find(r.Context(), q)
	body := auditBody{
		auditNote: noteOf(found.View), Decisions: q.Decisions, Actor: q.Actor, Address: q.Address, Action: q.Action, Since: v.Get("since"), Until: v.Get("until"),
		Kinds: site.Choose(auditKinds(), q.Kind), Pages: site.PagesOf(r, "page", found.Total),
	}
	body.Results = site.Choose([]site.Choice{{Text: "Any decision"}, {Value: "allowed", Text: "allowed"}, {Value: "denied", Text: "denied"}}, q.Decision)
	body.Outcomes = site.Choose([]site.Choice{{Text: "Any result"}, {Value: access.Done, Text: access.Done}, {Value: access.Failed, Text: access.Failed}, {Value: access.Refused, Text: access.Refused}}, q.Outcome)
	body.Filtered = q.Actor+q.Address+q.Action+q.Kind+q.Decision+q.Outcome+body.Since+body.Until != ""
	for _, e := range found.Entries {
		body.Rows = append(body.Rows, a.row(e))
	}
	for _, f := range []struct{ text, format string }{{"CSV", "csv"}, {"JSON lines", "jsonl"}} {
		all := url.Values{}
		maps.Copy(all, v)
		all.Del("page")
		all.Set("format", f.format)
		body.Exports = append(body.Exports, site.Link{Text: f.text, Href: "../api/v1/audit?" + all.Encode()})
	}
	body.Tabs = []site.Tab{
		{Link: site.Link{Text: "Changes", Href: "audit"}, Count: -1, Here: !q.Decisions},
		{Link: site.Link{Text: "Decisions", Href: "audit?what=" + auditlog.WhatDecisions}, Count: -1, Here: q.Decisions},
	}
	command := "okara admin audit"
	if q.Decisions {
		command += " --decisions"
	}
	return &site.Page{Template: "audit.html", Title: "Audit", Command: command, Body: body}, nil
}

func noteOf(v auditlog.View) auditNote {
	n := auditNote{Unprotected: !v.Protected, Reading: v.Read.IsZero(), Older: v.Older, Waiting: v.Waiting, Dropped: int(v.Dropped), Unreadable: v.Unreadable}
	if v.Failed != nil {
		n.Stale = v.Read
	}
	return n
}

func (a *audits) row(e *auditlog.Entry) auditRow {
	row := auditRow{
		At: a.clock.When(e.Time), Who: text.Block(e.NameActor()), Action: text.Block(e.Action), Kind: text.Block(strings.Trim(e.Kind, "*")),
		Object: text.Block(e.Object()), Result: resultMark(cmp.Or(e.Result(), e.Decision)),
	}
	for _, d := range []site.Choice{
		{Text: "Detail", Value: e.Detail}, {Text: "Lock", Value: e.Lock}, {Text: "Digest", Value: e.Digest}, {Text: "Rule", Value: e.Rule},
		{Text: "Login", Value: strings.TrimSpace(e.Mode + " " + e.Issuer)}, {Text: "Address", Value: e.ClientIP}, {Text: "Client", Value: e.UserAgent}, {Text: "Request", Value: e.RequestID},
	} {
		if d.Value != "" {
			d.Value = text.Block(d.Value)
			row.Details = append(row.Details, d)
		}
	}
	return row
}

func resultMark(result string) site.Mark {
	m := site.Mark{Text: text.Block(result), Kind: "bad"}
	switch result {
	case access.Done:
		m.Kind = "good"
	case "allowed":
		m.Kind = "plain"
	}
	return m
}

// auditKinds returns the kinds of things that records are about.
func auditKinds() []site.Choice {
	all := []site.Choice{{Text: "Any kind"}}
	for _, kind := range []string{"module", "provider", "mirror", "state", "template", "instance", "depot", "audit"} {
		all = append(all, site.Choice{Value: kind, Text: kind})
	}
	return all
}
