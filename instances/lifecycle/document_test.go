// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// every returns all IDs, sorted.
func (w *world) every() []string {
	var ids []string
	for _, p := range phases {
		ids = append(ids, w.all(p)...)
	}
	return ids
}

// allPhases returns a world with an instance in each phase.
func allPhases(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	for _, p := range phases {
		w.reach(p)
	}
	w.must(anna, lifecycle.Transfer{ID: w.all(lifecycle.Ready)[0], To: user(ben)})
	w.must(admin, lifecycle.PauseTemplate{Template: "a/b", Reason: "x"})
	return w
}

func TestDocumentRoundTrip(t *testing.T) {
	w := allPhases(t)
	first := must.Get(lifecycle.Encode(w.d))(t)
	d := must.Get(lifecycle.Decode(first))(t)
	if second, err := lifecycle.Encode(d); err != nil || !bytes.Equal(first, second) {
		t.Errorf("%v\n%s\n%s", err, first, second)
	}
	if v := lifecycle.Check(d); len(v) > 0 {
		t.Error(v)
	}
}

// TestDecodeBefore: a document from before offers and costs stays the same.
func TestDecodeBefore(t *testing.T) {
	w := newWorld(t)
	id := w.reach(lifecycle.Ready)
	before, err := lifecycle.Encode(w.d)
	if err != nil || bytes.Contains(before, []byte("offer")) || bytes.Contains(before, []byte("priced")) {
		t.Fatalf("%v: %s", err, before)
	}
	if w.d, err = lifecycle.Decode(before); err != nil {
		t.Fatal(err)
	}
	if after, err := lifecycle.Encode(w.d); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v\n%s\n%s", err, before, after)
	}
	w.must(anna, lifecycle.Transfer{ID: id, To: user(ben)})
	kept := must.Get(lifecycle.Encode(w.d))(t)
	if w.d, err = lifecycle.Decode(kept); err != nil {
		t.Fatal(err)
	}
	w.must(ben, lifecycle.Take{ID: id})
}

func TestDecodeRefuses(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":      ``,
		"no version":   `{}`,
		"another one":  `{"version":2}`,
		"no object":    `[]`,
		"two":          `{"version":1}{"version":1}`,
		"deep":         `{"version":1,"x":` + strings.Repeat("[", 30) + strings.Repeat("]", 30) + `}`,
		"very deep":    `{"version":1,"x":` + strings.Repeat("[", 1<<20),
		"null record":  `{"version":1,"records":{"abcdefghjk":null}}`,
		"null pool":    `{"version":1,"pools":{"a/b":null}}`,
		"another name": `{"version":1,"records":{"abcdefghjk":{"id":"abcdefghjm"}}}`,
		"many answers": `{"version":1,"requests":{` + strings.TrimSuffix(many(5000), ",") + `}}`,
		"many runs":    `{"version":1,"records":{"abcdefghjk":{"id":"abcdefghjk","runs":[` + strings.TrimSuffix(strings.Repeat("{},", 50), ",") + `]}}}`,
	} {
		if _, err := lifecycle.Decode([]byte(body)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := lifecycle.Decode(make([]byte, 64<<20+1)); err == nil {
		t.Error("large: taken")
	}
	if _, err := lifecycle.Decode([]byte(`{"version":1,"lineage":"x","serial":7}`)); err != nil {
		t.Error(err)
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":{},`, i)
	}
	return b.String()
}

// TestCheck breaks each rule.
func TestCheck(t *testing.T) {
	for name, b := range map[string]struct {
		phase  lifecycle.Phase
		change func(*lifecycle.Record)
	}{
		"identity phase":            {lifecycle.Ready, func(r *lifecycle.Record) { r.Phase = "gone" }},
		"identity snapshot":         {lifecycle.Ready, func(r *lifecycle.Record) { r.Snapshot = "sha256:x" }},
		"identity id":               {lifecycle.Ready, func(r *lifecycle.Record) { r.ID = "abcdefghjk" }},
		"owner nobody's":            {lifecycle.Ready, func(r *lifecycle.Record) { r.Owner = template.Owner{} }},
		"owner available, owned":    {lifecycle.Available, func(r *lifecycle.Record) { r.Owner = user(anna) }},
		"owner pooled, unclaimed":   {lifecycle.Ready, func(r *lifecycle.Record) { r.Pooled = true }},
		"owner claimed, unpooled":   {lifecycle.Ready, func(r *lifecycle.Record) { r.ClaimedAt = epoch }},
		"runs nothing runs":         {lifecycle.Provisioning, func(r *lifecycle.Record) { r.Run = nil }},
		"runs it runs":              {lifecycle.Failed, func(r *lifecycle.Record) { r.Run = &lifecycle.Run{N: 99, Kind: lifecycle.RunApply} }},
		"runs another run":          {lifecycle.Destroying, func(r *lifecycle.Record) { r.Run = &lifecycle.Run{N: 99, Kind: lifecycle.RunApply} }},
		"runs back":                 {lifecycle.Updating, func(r *lifecycle.Record) { r.Run = &lifecycle.Run{N: 1, Kind: lifecycle.RunApply} }},
		"runs follows nothing":      {lifecycle.Ready, func(r *lifecycle.Record) { r.Then = &lifecycle.Run{N: 99} }},
		"runs follows unstopped":    {lifecycle.Updating, func(r *lifecycle.Record) { r.Then = &lifecycle.Run{N: 99} }},
		"leftovers never destroyed": {lifecycle.Destroyed, func(r *lifecycle.Record) { r.Runs = nil }},
		"leftovers failed": {lifecycle.Destroyed, func(r *lifecycle.Record) {
			r.Runs = []lifecycle.Run{{N: 2, Kind: lifecycle.RunDestroy, Result: lifecycle.RunFailed, EndedAt: epoch}}
		}},
		"end no end":     {lifecycle.Ready, func(r *lifecycle.Record) { r.ExpiresAt = r.FinishedAt }},
		"outputs output": {lifecycle.Ready, func(r *lifecycle.Record) { r.Outputs = outputs("password") }},
		"final alive":    {lifecycle.Ready, func(r *lifecycle.Record) { r.FinishedAt = epoch }},
		"final runs":     {lifecycle.Destroyed, func(r *lifecycle.Record) { r.Run = &lifecycle.Run{N: 99, Kind: lifecycle.RunDestroy} }},
		"attempts nameless": {lifecycle.Updating, func(r *lifecycle.Record) {
			r.Run = &lifecycle.Run{N: 99, Kind: lifecycle.RunApply, StartedAt: epoch, Attempt: 1}
		}},
		"offer to its owner":      {lifecycle.Ready, func(r *lifecycle.Record) { r.Offer = &lifecycle.Offer{To: user(anna)} }},
		"offer to nobody":         {lifecycle.Ready, func(r *lifecycle.Record) { r.Offer = &lifecycle.Offer{To: template.Owner{Issuer: anna.Issuer}} }},
		"offer by nobody":         {lifecycle.Available, func(r *lifecycle.Record) { r.Offer = &lifecycle.Offer{To: user(ben)} }},
		"offer to another issuer": {lifecycle.Ready, func(r *lifecycle.Record) { r.Offer = &lifecycle.Offer{To: template.Owner{Kind: "user", ID: "ben"}} }},
		"offer of the destroyed":  {lifecycle.Destroyed, func(r *lifecycle.Record) { r.Offer = &lifecycle.Offer{To: user(ben)} }},
		"offer of what goes":      {lifecycle.Destroying, func(r *lifecycle.Record) { r.Offer = &lifecycle.Offer{To: user(ben)} }},
		"attempts other plan":     {lifecycle.Planned, func(r *lifecycle.Record) { r.Run.Approved = "sha256:other" }},
	} {
		w := newWorld(t)
		id := w.reach(b.phase)
		r := *w.record(id)
		if r.Run != nil {
			run := *r.Run
			r.Run = &run
		}
		b.change(&r)
		d := *w.d
		d.Records = map[string]*lifecycle.Record{id: &r}
		found := false
		for _, v := range lifecycle.Check(&d) {
			found = found || strings.HasPrefix(name, v.Rule+" ") && v.ID == id
		}
		if !found {
			t.Errorf("%s: found %v", name, lifecycle.Check(&d))
		}
	}
	w := newWorld(t)
	a, b := w.create(anna, with(func(t *template.Template) { t.Max = 2 })), w.create(ben, with(func(t *template.Template) { t.Max = 2 }))
	less := *with(func(t *template.Template) { t.Max = 1 })
	d := *w.d
	d.Templates = map[string]*template.Template{w.record(a).Snapshot: &less}
	if v := lifecycle.Check(&d); len(v) != 1 || v[0].Rule != "limits" || w.record(b).Template != less.Name {
		t.Errorf("limits: found %v", v)
	}
}

// FuzzDecode: decoded documents can be checked, and stepped.
func FuzzDecode(f *testing.F) {
	w := newWorld(&testing.T{})
	for _, p := range phases {
		w.reach(p)
	}
	body := must.Get(lifecycle.Encode(w.d))(f)
	f.Add(body)
	f.Add([]byte(`{"version":1,"records":{"abcdefghjk":{"id":"abcdefghjk","phase":"planned"}}}`))
	f.Add([]byte(`{"version":1,"records":{"abcdefghjk":{"id":"abcdefghjk","phase":"destroying","run":{"n":-1}}},"pools":{"a/b":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := lifecycle.Decode(b)
		if err != nil {
			return
		}
		for _, v := range lifecycle.Check(d) {
			delete(d.Records, v.ID) // it is set aside
		}
		m := lifecycle.Machine{}
		m.Outstanding(d)
		pending, _ := d.PendingIDs(epoch)
		for id, r := range d.Records {
			events := []lifecycle.Event{
				lifecycle.ExpireCheck{ID: id}, lifecycle.Retry{ID: id}, lifecycle.Cancel{ID: id}, lifecycle.Approve{ID: id}, lifecycle.Reject{ID: id},
				lifecycle.DestroyNow{ID: id}, lifecycle.Update{ID: id}, lifecycle.Extend{ID: id}, lifecycle.Take{ID: id}, lifecycle.Archived{ID: id}, lifecycle.Schedule{Concurrency: 1},
			}
			if r.Run != nil {
				ref := r.Run.Ref(id)
				events = append(events, lifecycle.Ended{Ref: ref, Result: lost})
			}
			for _, e := range events {
				if _, _, _, err := m.Step(d, lifecycle.Command{Event: e, Actor: admin}, epoch); err != nil {
					continue
				}
			}
		}
		if _, err := lifecycle.Encode(d); err != nil && len(pending) >= 0 {
			t.Log(err) // a time that cannot be formatted
		}
	})
}

func outputs(name string) map[string]json.RawMessage {
	return map[string]json.RawMessage{name: json.RawMessage(`"x"`)}
}
