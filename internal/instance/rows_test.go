// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/instance"
)

func planned() *instance.Template {
	return with(func(t *instance.Template) { t.Name, t.Approval = "sandbox/plan", "plan" })
}

func requested() *instance.Template {
	return with(func(t *instance.Template) { t.Name, t.Approval = "sandbox/ask", "request" })
}

func pooled() *instance.Template {
	return with(func(t *instance.Template) {
		t.Name = "sandbox/pool"
		t.Pool = &instance.PoolSize{Size: 2, Max: 6, MaxAge: 24 * time.Hour, WhenEmpty: "refuse"}
	})
}

func (w *world) fill(t *instance.Template) {
	w.t.Helper()
	w.serve(instance.Fill{Name: t.Name, Template: t, Digest: digestOf(t), Source: source("1.0.0")})
}

// members are the ids of a phase, sorted.
func (w *world) all(p instance.Phase) []string {
	var ids []string
	for id, r := range w.d.Records {
		if r.Phase == p {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// runAll starts all that waits and ends each with a result.
func (w *world) runAll(r instance.Result) {
	w.t.Helper()
	w.start()
	for _, e := range w.effects {
		if e.Kind == instance.StartRun {
			w.serve(instance.Ended{Ref: e.Ref, Result: r})
		}
	}
}

// broke lets an instance fail for good.
func (w *world) broke(id string) {
	w.t.Helper()
	for w.record(id).Phase != instance.Failed {
		w.run(id, broken)
		w.pass(5 * time.Minute)
	}
}

// reach brings an instance of anna into a phase.
func (w *world) reach(p instance.Phase) string {
	w.t.Helper()
	switch p {
	case instance.Requested:
		return w.create(anna, requested())
	case instance.Rejected:
		id := w.create(anna, requested())
		w.must(ben, instance.Reject{ID: id, Reason: "no"})
		return id
	case instance.Planned:
		id := w.create(anna, planned())
		w.run(id, plan("sha256:p1", instance.Counts{Add: 1}))
		return id
	case instance.Available:
		w.fill(pooled())
		w.runAll(good)
		return w.all(instance.Available)[0]
	}
	id := w.create(anna, plain())
	if p == instance.Provisioning {
		return id
	}
	if p == instance.Failed {
		w.broke(id)
		return id
	}
	w.run(id, good)
	switch p {
	case instance.Updating:
		w.must(anna, instance.Update{ID: id})
	case instance.Orphaned:
		w.must(admin, instance.Orphan{ID: id, Reason: "kept"})
	case instance.Destroying, instance.Destroyed, instance.DestroyFailed:
		w.must(anna, instance.DestroyNow{ID: id})
	}
	if p == instance.Destroyed {
		w.run(id, gone)
	}
	for p == instance.DestroyFailed && w.record(id).Phase != p {
		w.run(id, broken)
		w.pass(time.Hour)
	}
	return id
}

// TestRows are the rows of the table of the life of an instance, each with what
// its effect is.
func TestRows(t *testing.T) {
	rows := map[string]func(*world){}
	for _, part := range []map[string]func(*world){rowsOfBegin(), rowsOfEnd(), rowsOfRest()} {
		maps.Copy(rows, part)
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) { row(newWorld(t)) })
	}
	for n := range 23 {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(rows)), func(name string) bool {
			return slices.Contains(strings.FieldsFunc(name, func(c rune) bool { return c == ' ' || c == ',' }), fmt.Sprint(n+1))
		}) {
			t.Errorf("row %d is not tested", n+1)
		}
	}
}
