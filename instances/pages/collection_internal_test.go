// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/span"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// FuzzParts: what no page sends is read as JSON or nothing, and, shown, read the same again.
func FuzzParts(f *testing.F) {
	for _, form := range []string{
		"p.x=&p.x.0.size=1&p.x.0.tags=&p.x.0.tags.3=a&p.x.0.labels=&p.x.0.labels.1.key=k&p.x.0.labels.1.value=v", "p.x=[1,{}]", "p.x=[", "p.x.0.labels.0.key=a&p.x.0.labels.0.value=b&p.x.0.labels.2.key=a",
		"p.x.-1=a&p.x.01=b&p.x.99999999999999999999=c&p.x.#=d", "more=p.x&p.x.7=1", "less=p.x.0&p.x.0=1",
	} {
		f.Add(form)
	}
	const schema = `{"properties":{"x":{"type":"array","items":{"type":"object","required":["size"],"properties":{
  "size":{"type":"number"},"tags":{"type":"array","items":{"type":"string"}},"labels":{"type":"object","additionalProperties":{"type":"string"}}}}}},"x-okara-order":["x"]}`
	f.Fuzz(func(t *testing.T, query string) {
		form, err := url.ParseQuery(query)
		if err != nil || len(form) > 500 {
			return
		}
		p := must.Get(readParameters(json.RawMessage(schema)))(t)
		reshapeForm(form)
		_, values, ok := p.readForm(form, p.chooseValues())
		if !ok || values["x"] == nil {
			return
		}
		chosen := p.chooseValues(values)
		_, again, ok := p.readForm(p.shownForm(chosen), p.chooseValues())
		value := decodeJSON(values["x"])
		if !ok || !reflect.DeepEqual(p.Properties["x"].trim(decodeJSON(again["x"])), p.Properties["x"].trim(value)) {
			t.Errorf("%s becomes %s", values["x"], again["x"])
		}
	})
}

// TestEmptyParts: what an object needs is empty rather than absent, the rest has its default; a row in
// which nothing is written is none.
func TestEmptyParts(t *testing.T) {
	const object = `{"type":["object","null"],"default":null,"required":["name","tags","in"],"properties":{"name":{"type":"string"},
  "tags":{"type":"object","additionalProperties":{"type":"string"}},"in":{"type":"object","properties":{"on":{"type":["boolean","null"],"default":true}}},"zones":{"type":["array","null"],"items":{"type":"string"},"default":["z"]}}}`
	p := must.Get(readParameters(json.RawMessage(`{"properties":{"o":` + object + `,"l":{"type":"array","default":[],"items":` + object + `},
  "m":{"type":"object","additionalProperties":{"type":"object","properties":{"on":{"type":"boolean"}}}}},"x-okara-order":["o","l","m"]}`)))(t)
	for query, want := range map[string]string{
		"":           `map[l:[]]`,
		"p.o.name=a": `map[l:[] o:{"in":{},"name":"a","tags":{}}]`,
		"p.o.name=a&p.o.zones.0=y&p.o.tags.0.key=k&p.o.in.on=false": `map[l:[] o:{"in":{"on":false},"name":"a","tags":{"k":""},"zones":["y"]}]`,
		"p.l.0=&p.l.0.name=&p.l.0.zones=&p.l.2.name=b":              `map[l:[{"in":{},"name":"b","tags":{}}]]`,
		"p.m.0.key=k&p.m.1.key=&p.m.1.value.on=":                    `map[l:[] m:{"k":{}}]`,
	} {
		fields, values, ok := p.readForm(must.Get(url.ParseQuery(query))(t), p.chooseValues())
		if got := fmt.Sprintf("%s", values); got != want || !ok || len(fields[0].Fields) == 0 {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// TestGolden shows each page type; see [webtest.Golden].
func TestGolden(t *testing.T) {
	files := must.Get(site.ReadTemplates([]site.Set{{Templates: files}}))(t)
	webtest.Golden(t, files, map[string]webtest.Sheet{
		"admin_templates":         {Body: adminTemplatesBody{}},
		"approvals":               {Body: approvalsBody{}},
		"kind":                    {Body: kindBody{}},
		"instance":                {Body: instanceBody{}},
		"instance_show_sensitive": {Body: sensitiveBody{}},
		"instance_verb":           {Body: verbBody{}},

		"instances_several": {Body: severalBody{}},

		"instances":      {Body: instancesBody{}},
		"template":       {Body: templateBody{}},
		"templates":      {Body: templatesBody{}},
		"instances-own":  {Body: ownBody{}, Part: "own"},
		"run":            {Body: launchBody{}, Set: everyKind},
		"run-closed":     {Body: launchBody{}},
		"run_page":       {Body: runBody{}},
		"workspace_runs": {Body: workspaceRunsBody{}},
	}, func(s webtest.Sheet, title, key string, body any) any {
		if s.Part != "" {
			return site.Under{Up: "./../", Of: body}
		}
		return &site.Page{Title: title, Key: key, Up: "./../", Body: body}
	})
}

// everyKind gives a form a field of each kind.
func everyKind(b any) {
	l := b.(*launchBody)
	l.Closed = ""
	if len(l.Asks) > 0 {
		parameter := l.Asks[0]
		l.Asks = nil
		for _, parameter.Kind = range []string{kindText, kindNumber, kindSecret, kindCheck, kindChoose, kindArea, kindJSON} {
			l.Asks = append(l.Asks, parameter)
		}
	}
}

// FuzzLog reads plan output of a tool, or any other text: nothing in it acts in the browser
// of a reader, and the progress bar stays within bounds.
//
// Shows: platform-attacks 18
func FuzzLog(f *testing.F) {
	for _, s := range []string{
		"Plan: 2 to add, 0 to change, 0 to destroy.\naws_vpc.a: Creation complete after 1s\n",
		"Plan: 1 to import, 99999999999999999999 to add, 1 to change, 1 to destroy.", "\x1b[31mred\x1b[0m \u202eevent\r\n\x1b[2J", "\x1b[\x1b[0m1m\xff\u200b",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		var p Progress
		for line := range bytes.Lines(log) {
			p.updateFromLine(line)
			if p.Done < 0 || p.Total < 0 || p.Total > 3<<20 {
				t.Fatalf("%q makes %+v", line, p)
			}
		}
		shown := plainLog(log)
		if strings.ContainsFunc(shown, func(r rune) bool { return text.Hidden(r) && !strings.ContainsRune("\n\t\u200c\u200d\ufffd", r) }) {
			t.Errorf("%q is shown as %q", log, shown)
		}
	})
}

// TestPlanPieces loses and copies no line.
func TestPlanPieces(t *testing.T) {
	text := strings.Repeat("aws_vpc.a: Refreshing state...\n", 3) + "  + resource \"x\" \"y\" {\n      + id = 1\n    }\n  - b\n\n\n"
	var whole strings.Builder
	pieces := planPieces(text)
	for i, p := range pieces {
		whole.WriteString(p.Text)
		if i > 0 && p.Kind == pieces[i-1].Kind {
			t.Errorf("two pieces of kind %q beside each other", p.Kind)
		}
	}
	must.Equal(t, "the pieces", whole.String(), strings.TrimRight(text, "\n"))
	long := strings.Repeat("aws_vpc.a: Refreshing state...\n", 10_000)
	if n := testing.AllocsPerRun(1, func() { planPieces(long) }); n > 10 {
		t.Errorf("10,000 lines of one kind take %v allocations", n)
	}
}

// TestInstanceWords shows what the page of an instance says of its name, its end, what it made
// and what may be done with it.
func TestInstanceWords(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) // a Friday
	s := &instances{text: markdown.New(func() time.Time { return now }, nil), clock: func() time.Time { return now }}
	i := api.Instance{
		ID: "pgkmabcdef", Template: "lab/vm", Title: "Virtual machine", Phase: string(lifecycle.Ready), Role: "owner", ReadyAt: now.Add(-time.Hour),
		ExpiresAt: now.Add(41 * time.Hour), Extends: 1, ExtendsMax: 2, ExtendBy: span.Span(2 * time.Hour), Cost: &api.Cost{Hourly: 0.5, Currency: "EUR"}, Hours: "starts Mon 07:00 (Europe/Berlin)",
		Connection: &api.Connection{URL: "https://vm.example.com", Message: "Log in as **root**:\n<script>alert(1)</script>"},
		Outputs: map[string]json.RawMessage{
			"a": json.RawMessage(`"https://a.example.com/x"`), "b": json.RawMessage(`"https://me:secret@b.example.com"`), "c": json.RawMessage(`"javascript:alert(1)"`), "d": json.RawMessage(`null`),
		},
		Actions: []string{api.ActExtend, api.ActRename, api.ActTransfer, api.ActDestroy},
	}
	b := s.commonBody(i, "key", now)
	must.Equal(t, "name", b.Name, "Virtual machine · pgkm")
	must.Equal(t, "end", b.Left.At, "Sunday 05:00 UTC")
	must.Equal(t, "cost", b.Cost, "0.50 EUR so far, 0.50 EUR an hour")
	must.Equal(t, "message", strings.TrimSpace(string(b.Message)), "<p>Log in as <strong>root</strong>:</p>")
	for n, href := range []string{"https://a.example.com/x", "", "", ""} {
		must.Equal(t, "link of "+b.Outputs[n].Name, b.Outputs[n].Href, href)
	}
	must.Equal(t, "buttons", fmt.Sprint(len(b.Buttons), b.Buttons[0].Text, len(b.More)), "2Extend by 2 h (1 of 2 left)2")
	i.Stopped = true
	i.StartsAt = now.Add(70 * time.Hour)
	stopped := s.commonBody(i, "key", now)
	must.Equal(t, "warning", stopped.Next[0], "It ends before it would be started again.")
	if stopped.Open != "" || stopped.Message != "" || !slices.Contains(stopped.Facts, site.Fact{Name: "Schedule", Text: i.Hours}) {
		t.Errorf("stopped: %+v", stopped)
	}
	i.Name, i.Phase = "web", string(lifecycle.Failed)
	failed := s.commonBody(i, "key", now)
	if failed.Name != "web" || !failed.Failed || failed.Usable {
		t.Errorf("failed: %+v", failed)
	}
}
