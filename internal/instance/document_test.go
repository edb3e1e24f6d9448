// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/instance"
)

// every are all ids, sorted.
func (w *world) every() []string {
	var ids []string
	for _, p := range phases {
		ids = append(ids, w.all(p)...)
	}
	return ids
}

// allPhases is a document with an instance in each phase.
func allPhases(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	for _, p := range phases {
		w.reach(p)
	}
	w.must(admin, instance.Pause{Template: "a/b", Reason: "x"})
	return w
}

func TestDocumentRoundTrip(t *testing.T) {
	w := allPhases(t)
	first, err := instance.Encode(w.d)
	if err != nil {
		t.Fatal(err)
	}
	d, err := instance.Decode(first)
	if err != nil {
		t.Fatal(err)
	}
	second, err := instance.Encode(d)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("%v\n%s\n%s", err, first, second)
	}
	if v := instance.Check(d); len(v) > 0 {
		t.Error(v)
	}
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
		if _, err := instance.Decode([]byte(body)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := instance.Decode(make([]byte, 64<<20+1)); err == nil {
		t.Error("large: taken")
	}
	if _, err := instance.Decode([]byte(`{"version":1,"lineage":"x","serial":7}`)); err != nil {
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
		phase  instance.Phase
		change func(*instance.Record)
	}{
		"I1 phase":             {instance.Ready, func(r *instance.Record) { r.Phase = "gone" }},
		"I1 snapshot":          {instance.Ready, func(r *instance.Record) { r.Snapshot = "sha256:x" }},
		"I1 id":                {instance.Ready, func(r *instance.Record) { r.ID = "abcdefghjk" }},
		"I2 nobody's":          {instance.Ready, func(r *instance.Record) { r.Owner = instance.Owner{} }},
		"I2 available, owned":  {instance.Available, func(r *instance.Record) { r.Owner = user(anna) }},
		"I2 pooled, unclaimed": {instance.Ready, func(r *instance.Record) { r.Pooled = true }},
		"I2 claimed, unpooled": {instance.Ready, func(r *instance.Record) { r.ClaimedAt = epoch }},
		"I4 nothing runs":      {instance.Provisioning, func(r *instance.Record) { r.Run = nil }},
		"I4 it runs":           {instance.Failed, func(r *instance.Record) { r.Run = &instance.Run{N: 99, Kind: instance.RunApply} }},
		"I4 another run":       {instance.Destroying, func(r *instance.Record) { r.Run = &instance.Run{N: 99, Kind: instance.RunApply} }},
		"I4 back":              {instance.Updating, func(r *instance.Record) { r.Run = &instance.Run{N: 1, Kind: instance.RunApply} }},
		"I4 follows nothing":   {instance.Ready, func(r *instance.Record) { r.Then = &instance.Run{N: 99} }},
		"I4 follows unstopped": {instance.Updating, func(r *instance.Record) { r.Then = &instance.Run{N: 99} }},
		"I5 never destroyed":   {instance.Destroyed, func(r *instance.Record) { r.Runs = nil }},
		"I5 failed": {instance.Destroyed, func(r *instance.Record) {
			r.Runs = []instance.Run{{N: 2, Kind: instance.RunDestroy, Result: instance.RunFailed, EndedAt: epoch}}
		}},
		"I6 no end": {instance.Ready, func(r *instance.Record) { r.ExpiresAt = r.FinishedAt }},
		"I7 output": {instance.Ready, func(r *instance.Record) { r.Outputs = outputs("password") }},
		"I8 alive":  {instance.Ready, func(r *instance.Record) { r.FinishedAt = epoch }},
		"I8 runs":   {instance.Destroyed, func(r *instance.Record) { r.Run = &instance.Run{N: 99, Kind: instance.RunDestroy} }},
		"I9 nameless": {instance.Updating, func(r *instance.Record) {
			r.Run = &instance.Run{N: 99, Kind: instance.RunApply, StartedAt: epoch, Attempt: 1}
		}},
		"I9 other plan": {instance.Planned, func(r *instance.Record) { r.Run.Approved = "sha256:other" }},
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
		d.Records = map[string]*instance.Record{id: &r}
		found := false
		for _, v := range instance.Check(&d) {
			found = found || v.Rule == name[:2] && v.ID == id
		}
		if !found {
			t.Errorf("%s: found %v", name, instance.Check(&d))
		}
	}
	w := newWorld(t)
	a, b := w.create(anna, with(func(t *instance.Template) { t.Max = 2 })), w.create(ben, with(func(t *instance.Template) { t.Max = 2 }))
	less := *with(func(t *instance.Template) { t.Max = 1 })
	d := *w.d
	d.Templates = map[string]*instance.Template{w.record(a).Snapshot: &less}
	if v := instance.Check(&d); len(v) != 1 || v[0].Rule != "I3" || w.record(b).Template != less.Name {
		t.Errorf("I3: found %v", v)
	}
}

// FuzzDecode reads documents; whatever it reads can be looked at, and what no
// rule is broken by can be gone on with.
func FuzzDecode(f *testing.F) {
	w := newWorld(&testing.T{})
	for _, p := range phases {
		w.reach(p)
	}
	body, err := instance.Encode(w.d)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"version":1,"records":{"abcdefghjk":{"id":"abcdefghjk","phase":"planned"}}}`))
	f.Add([]byte(`{"version":1,"records":{"abcdefghjk":{"id":"abcdefghjk","phase":"destroying","run":{"n":-1}}},"pools":{"a/b":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := instance.Decode(b)
		if err != nil {
			return
		}
		for _, v := range instance.Check(d) {
			delete(d.Records, v.ID) // is set aside
		}
		m := instance.Machine{}
		m.Outstanding(d)
		due, _ := d.Due(epoch)
		for id, r := range d.Records {
			events := []instance.Event{
				instance.Tick{ID: id}, instance.Retry{ID: id}, instance.Cancel{ID: id}, instance.Approve{ID: id}, instance.Reject{ID: id},
				instance.DestroyNow{ID: id}, instance.Update{ID: id}, instance.Extend{ID: id}, instance.Archived{ID: id}, instance.Schedule{Places: 1},
			}
			if r.Run != nil {
				ref := instance.Ref{ID: id, Kind: r.Run.Kind, N: r.Run.N, Attempt: r.Run.Attempt, Nonce: r.Run.Nonce}
				events = append(events, instance.Ended{Ref: ref, Result: lost})
			}
			for _, e := range events {
				if _, _, _, err := m.Step(d, instance.Command{Event: e, Actor: admin}, epoch); err != nil {
					continue
				}
			}
		}
		if _, err := instance.Encode(d); err != nil && len(due) >= 0 {
			t.Log(err) // a time that no text can say
		}
	})
}

func outputs(name string) map[string]json.RawMessage {
	return map[string]json.RawMessage{name: json.RawMessage(`"x"`)}
}
