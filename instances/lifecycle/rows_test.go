// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
)

func planned() *template.Template {
	return with(func(t *template.Template) { t.Name, t.Approval = "sandbox/plan", "plan" })
}

func requested() *template.Template {
	return with(func(t *template.Template) { t.Name, t.Approval = "sandbox/ask", "request" })
}

func pooled() *template.Template {
	return with(func(t *template.Template) {
		t.Name = "sandbox/pool"
		t.Pool = &template.PoolSize{Size: 2, Max: 6, MaxAge: 24 * time.Hour, WhenEmpty: "refuse"}
	})
}

func (w *world) fill(t *template.Template) {
	w.t.Helper()
	w.serve(lifecycle.Fill{Name: t.Name, Template: t, Digest: digestOf(t), Source: source("1.0.0")})
}

// all returns the IDs of the records in a phase, sorted.
func (w *world) all(p lifecycle.Phase) []string {
	var ids []string
	for id, r := range w.d.Records {
		if r.Phase == p {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// runAll starts all waiting runs and ends each with a result.
func (w *world) runAll(r lifecycle.Result) {
	w.t.Helper()
	w.start()
	for _, e := range w.effects {
		if e.Kind == lifecycle.StartRun {
			w.serve(lifecycle.Ended{Ref: e.Ref, Result: r})
		}
	}
}

// broke makes an instance fail permanently.
func (w *world) broke(id string) {
	w.t.Helper()
	for w.record(id).Phase != lifecycle.Failed {
		w.run(id, broken)
		w.advance(5 * time.Minute)
	}
}

// reach returns an instance of anna in a phase.
func (w *world) reach(p lifecycle.Phase) string {
	w.t.Helper()
	switch p {
	case lifecycle.Requested:
		return w.create(anna, requested())
	case lifecycle.Rejected:
		id := w.create(anna, requested())
		w.must(ben, lifecycle.Reject{ID: id, Reason: "no"})
		return id
	case lifecycle.Planned:
		id := w.create(anna, planned())
		w.run(id, plan("sha256:p1", lifecycle.Counts{Add: 1}))
		return id
	case lifecycle.Available:
		w.fill(pooled())
		w.runAll(good)
		return w.all(lifecycle.Available)[0]
	}
	id := w.create(anna, plain())
	if p == lifecycle.Provisioning {
		return id
	}
	if p == lifecycle.Failed {
		w.broke(id)
		return id
	}
	w.run(id, good)
	switch p {
	case lifecycle.Updating:
		w.must(anna, lifecycle.Update{ID: id})
	case lifecycle.Orphaned:
		w.must(admin, lifecycle.Orphan{ID: id, Reason: "kept"})
	case lifecycle.Destroying, lifecycle.Destroyed, lifecycle.DestroyFailed:
		w.must(anna, lifecycle.DestroyNow{ID: id})
	}
	if p == lifecycle.Destroyed {
		w.run(id, gone)
	}
	for p == lifecycle.DestroyFailed && w.record(id).Phase != p {
		w.run(id, broken)
		w.advance(time.Hour)
	}
	return id
}

// TestRows checks each row of the table of an instance's life, with its effects.
//
// Shows: platform 4 | offered to a colleague, who sees few details and accepts it within the
// colleague's quota and a week | transfer, take, decline
// Shows: platform 10 | lifetime, and when it begins; a limited number of extensions | `ttl`; 400
// without an end, 409 beyond the limit
// Shows: platform 14
// Shows: platform-mistakes 13
func TestRows(t *testing.T) {
	rows := map[string]func(*world){}
	for _, part := range []map[string]func(*world){rowsOfBegin(), rowsOfEnd(), rowsOfRest(), rowsOfOffer(), rowsOfSwitch()} {
		maps.Copy(rows, part)
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) { row(newWorld(t)) })
	}
	for n := range 25 {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(rows)), func(name string) bool {
			return slices.Contains(strings.FieldsFunc(name, func(c rune) bool { return c == ' ' || c == ',' }), fmt.Sprint(n+1))
		}) {
			t.Errorf("row %d is not tested", n+1)
		}
	}
}
