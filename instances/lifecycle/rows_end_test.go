// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// rowsOfEnd covers updates, extensions and the end.
func rowsOfEnd() map[string]func(*world) {
	return map[string]func(*world){
		"10, 11 update": func(w *world) {
			id := w.reach(lifecycle.Ready)
			newer, template := source("2.0.0"), with(func(t *template.Template) { t.Title = "newer" })
			w.must(anna, lifecycle.Update{ID: id, Source: &newer, Template: template, Digest: digestOf(template), Parameters: map[string]json.RawMessage{"size": json.RawMessage(`"large"`)}})
			r := w.want(id, lifecycle.Updating)
			if r.Source.Version != "1.0.0" || r.Run.Source.Version != "2.0.0" || r.Parameters != nil {
				w.t.Errorf("before it is done: %+v", r)
			}
			w.run(id, good)
			r = w.want(id, lifecycle.Ready)
			if r.Source.Version != "2.0.0" || r.Snapshot != digestOf(template) || string(r.Parameters["size"]) != `"large"` || len(w.d.Templates) != 1 {
				w.t.Errorf("done: %+v", r)
			}
		},
		"10 a failed update is destroyed by what it ran": func(w *world) {
			id := w.reach(lifecycle.Ready)
			newer := source("2.0.0")
			w.must(anna, lifecycle.Update{ID: id, Source: &newer})
			w.broke(id)
			w.must(anna, lifecycle.Retry{ID: id})
			if r := w.want(id, lifecycle.Updating); r.Run.Source != newer {
				w.t.Errorf("a retry runs %v", r.Run.Source)
			}
			w.broke(id)
			w.must(anna, lifecycle.DestroyNow{ID: id})
			if r := w.want(id, lifecycle.Destroying); r.Run.Source != newer {
				w.t.Errorf("destroyed by %v", r.Run.Source)
			}
		},
		"10 an update that applied nothing is no part of the destroy": func(w *world) {
			id := w.reach(lifecycle.Ready)
			before, newer := w.record(id).Source, source("2.0.0")
			w.must(anna, lifecycle.Update{ID: id, Source: &newer, Parameters: sized(`"large"`)})
			w.run(id, lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "init: no such module", Permanent: true, Untouched: true, Resources: 3})
			w.must(anna, lifecycle.DestroyNow{ID: id})
			if r := w.want(id, lifecycle.Destroying); r.Run.Source != before || r.Run.Parameters != nil {
				w.t.Errorf("destroyed by %v with %s", r.Run.Source, r.Run.Parameters)
			}
		},
		"19 what never was applied is destroyed at once": func(w *world) {
			failed := lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "init: no such module", Permanent: true, Untouched: true, Resources: -1}
			for _, tt := range []struct {
				before []lifecycle.Result
				want   lifecycle.Phase
			}{
				{[]lifecycle.Result{failed}, lifecycle.Destroyed},
				{[]lifecycle.Result{{Outcome: lifecycle.RunFailed, Error: "half", Permanent: true, Resources: -1}, failed}, lifecycle.Destroying},
				{[]lifecycle.Result{{Outcome: lifecycle.RunFailed, Error: "init", Permanent: true, Untouched: true, State: true, Resources: -1}}, lifecycle.Destroying},
			} {
				id := w.reach(lifecycle.Provisioning)
				for i, res := range tt.before {
					if i > 0 {
						w.must(anna, lifecycle.Update{ID: id, Parameters: sized(`"large"`)})
					}
					w.run(id, res)
				}
				w.must(anna, lifecycle.DestroyNow{ID: id})
				w.want(id, tt.want)
			}
		},
		"20 what a destroy leaves behind is in the record": func(w *world) {
			id := w.reach(lifecycle.Ready)
			w.must(anna, lifecycle.DestroyNow{ID: id})
			w.run(id, lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "no network", Resources: 2, Left: []string{"module.a.b[\"c\"]"}})
			w.advance(time.Hour)
			w.run(id, lifecycle.Result{Outcome: lifecycle.Done, Left: []string{"d.e"}})
			r := w.want(id, lifecycle.Destroyed)
			if !slices.Equal(r.Left, []string{"module.a.b[\"c\"]", "d.e"}) || r.Reason != `left behind, as the module specifies, and may incur costs: module.a.b["c"], d.e` {
				w.t.Errorf("left %q: %s", r.Left, r.Reason)
			}
		},
		"20 what an update leaves behind is in the record": func(w *world) {
			id := w.reach(lifecycle.Ready)
			forgets := func(addresses ...string) lifecycle.Result {
				res := good
				res.Counts = &lifecycle.Counts{Forget: len(addresses)}
				for _, a := range addresses {
					res.Notes = append(res.Notes, lifecycle.Note{Kind: lifecycle.NoteForget, Text: a})
				}
				return res
			}
			for _, size := range []string{`"large"`, `"small"`} { // a[1] is forgotten, made and forgotten again
				w.must(anna, lifecycle.Update{ID: id, Parameters: sized(size)})
				w.run(id, forgets("a[1]"))
			}
			const left = "left behind, as the module specifies, and may incur costs: a[1], a[1]"
			if r := w.want(id, lifecycle.Ready); r.Reason != left || !strings.HasSuffix(r.Events[0].Detail, left) {
				w.t.Errorf("%q: %q", r.Reason, r.Events[0].Detail)
			}
			w.must(anna, lifecycle.DestroyNow{ID: id})
			w.run(id, lifecycle.Result{Outcome: lifecycle.Done, Left: []string{"d.e"}, Counts: &lifecycle.Counts{Remove: 3}})
			if r := w.want(id, lifecycle.Destroyed); r.Reason != left+", d.e" || !strings.Contains(r.Events[0].Detail, "3 destroyed") {
				w.t.Errorf("%q: %q", r.Reason, r.Events[0].Detail)
			}
		},
		"10 what never was ready is changed and launched again": func(w *world) {
			id := w.create(anna, plain())
			given := w.record(id).ExpiresAt
			w.run(id, bare)
			if r := w.want(id, lifecycle.Failed); len(r.Runs) != 1 || r.Reason != "Invalid value for variable" {
				w.t.Errorf("%d runs, %s", len(r.Runs), r.Reason)
			}
			w.advance(3 * time.Hour)
			w.must(anna, lifecycle.Update{ID: id, Parameters: map[string]json.RawMessage{"size": json.RawMessage(`"large"`)}})
			if r := w.want(id, lifecycle.Updating); !r.ExpiresAt.Equal(given) {
				w.t.Errorf("ends at %s", r.ExpiresAt)
			}
			w.run(id, good)
			r := w.want(id, lifecycle.Ready)
			if string(r.Parameters["size"]) != `"large"` || !r.ExpiresAt.Equal(w.now.Add(8*time.Hour)) {
				w.t.Errorf("%v, ends at %s", r.Parameters, r.ExpiresAt)
			}
			var reported []string
			for _, e := range r.Events {
				reported = append(reported, e.Action+": "+e.Detail)
			}
			want := []string{"ready: run 2, requested by Anna; 3 added, 0 changed, 0 destroyed", "updated: ", "failed: run 1, requested by Anna: Invalid value for variable", "created: sandbox/vpc"}
			if !slices.Equal(reported, want) {
				w.t.Errorf("events %q", reported)
			}
		},
		"12 extend": func(w *world) {
			id := w.reach(lifecycle.Ready)
			end := w.record(id).ExpiresAt
			w.must(anna, lifecycle.Extend{ID: id, By: time.Hour})
			if got := w.record(id).ExpiresAt; !got.Equal(end.Add(time.Hour)) {
				w.t.Errorf("ends at %s", got)
			}
			w.refused(anna, lifecycle.Extend{ID: id, By: 3 * time.Hour}, lifecycle.ErrDenied, "only an admin can extend by more than 2h")
			w.must(admin, lifecycle.Extend{ID: id, By: 1000 * time.Hour})
			w.refused(anna, lifecycle.Extend{ID: id}, lifecycle.ErrExtends, "instance "+id+" must expire within 72h of its start")
		},
		"12 before it is ready": func(w *world) {
			for limit, want := range map[time.Duration]time.Duration{72 * time.Hour: 10 * time.Hour, 9 * time.Hour: 9*time.Hour - time.Minute} {
				w.now = w.now.Add(time.Minute)
				id := w.create(anna, with(func(t *template.Template) { t.TTL.Max = limit }))
				shown := w.record(id).ExpiresAt
				w.must(anna, lifecycle.Extend{ID: id})
				if got := w.record(id).ExpiresAt.Sub(shown); limit > 9*time.Hour && got != 2*time.Hour {
					w.t.Errorf("the end that is shown moves by %s", got)
				}
				w.advance(time.Minute)
				w.run(id, good)
				if got := w.record(id).ExpiresAt.Sub(w.now); got != want {
					w.t.Errorf("of at most %s it lives %s, want %s", limit, got, want)
				}
			}
		},
		"12 of what never was ready": func(w *world) {
			id := w.reach(lifecycle.Failed)
			end := w.record(id).ExpiresAt
			w.must(anna, lifecycle.Extend{ID: id})
			if got := w.record(id).ExpiresAt; !got.Equal(end.Add(2 * time.Hour)) {
				w.t.Errorf("ends at %s", got)
			}
			w.must(anna, lifecycle.Retry{ID: id})
			w.run(id, good)
			must.Equal(w.t, "it lives", w.record(id).ExpiresAt.Sub(w.now), 10*time.Hour)
		},
		"12 no end": func(w *world) {
			id := w.create(anna, with(func(t *template.Template) { t.TTL = nil }))
			w.refused(anna, lifecycle.Extend{ID: id}, lifecycle.ErrNoEnd, "instance "+id+" does not expire")
		},
		"12 to the max": func(w *world) {
			w.now = epoch
			id := w.create(anna, with(func(t *template.Template) { t.TTL.Max = 9 * time.Hour }))
			w.run(id, good)
			w.must(anna, lifecycle.Extend{ID: id})
			if got := w.record(id).ExpiresAt; !got.Equal(epoch.Add(9 * time.Hour)) {
				w.t.Errorf("ends at %s", got)
			}
		},
		"13 what runs is stopped first": func(w *world) {
			id := w.reach(lifecycle.Updating)
			w.start()
			ref := w.ref(id)
			w.advance(9 * time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			if r := w.want(id, lifecycle.Destroying); r.Run.Kind != lifecycle.RunApply || r.Run.Cancel == "" || len(w.effects) != 1 || w.effects[0].Ref != ref {
				w.t.Errorf("runs %+v, effects %v", r.Run, w.effects)
			}
			w.start()
			if len(w.effects) != 0 {
				w.t.Error("two runs at once")
			}
			w.end(id, lost)
			w.start()
			must.Equal(w.t, "then runs", w.ref(id).Kind, lifecycle.RunDestroy)
		},
		"13 keep": func(w *world) {
			id := w.create(anna, with(func(t *template.Template) { t.TTL.OnExpire = "keep"; t.PerOwner = 2 }))
			w.run(id, good)
			w.advance(8 * time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			if r := w.want(id, lifecycle.Orphaned); !r.Kept || r.Removing {
				w.t.Errorf("got %+v", r)
			}
			w.advance(30 * 24 * time.Hour)
			w.serve(lifecycle.Archived{ID: id})
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.want(id, lifecycle.Orphaned)
			if q := w.m.Quotas(w.d, with(func(t *template.Template) { t.PerOwner = 2 }), user(anna), anna); q[0].Used != 1 {
				w.t.Errorf("it does not count: %v", q)
			}
			w.must(admin, lifecycle.DestroyNow{ID: id})
			if len(w.effects) != 1 || w.effects[0].Kind != lifecycle.Remove {
				w.t.Errorf("effects %v", w.effects)
			}
			w.serve(lifecycle.Removed{ID: id})
			if len(w.d.Records) != 0 || len(w.d.Templates) != 0 {
				w.t.Errorf("%d records, %d templates", len(w.d.Records), len(w.d.Templates))
			}
		},
		"13 keep, in an apply": func(w *world) {
			id := w.create(anna, with(func(t *template.Template) { t.TTL.OnExpire = "keep" }))
			w.start()
			w.advance(100 * time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.want(id, lifecycle.Provisioning)
			before := w.d
			w.serve(lifecycle.ExpireCheck{ID: id})
			if w.d != before {
				w.t.Error("a second tick changes something")
			}
			w.end(id, good)
			w.want(id, lifecycle.Orphaned)
		},
		"14 an owner's protection": func(w *world) {
			id := w.reach(lifecycle.Ready)
			w.must(anna, lifecycle.Protect{ID: id, On: true})
			w.refused(anna, lifecycle.DestroyNow{ID: id}, lifecycle.ErrProtected, "")
			w.advance(8 * time.Hour)
			for range 2 {
				w.serve(lifecycle.ExpireCheck{ID: id})
				r := w.want(id, lifecycle.Ready)
				if len(w.effects) != 1 || w.effects[0].Notice.Kind != "expired_protected" {
					w.t.Errorf("effects %v", w.effects)
				}
				w.serve(lifecycle.Noticed{ID: id, Notice: w.effects[0].Notice.ID})
				before := w.d
				w.serve(lifecycle.ExpireCheck{ID: id})
				if w.d != before || !slices.ContainsFunc(r.Conditions, func(c lifecycle.Condition) bool { return c.Type == lifecycle.ExpiredProtected }) {
					w.t.Errorf("told twice a day, or without %v", r.Conditions)
				}
				w.advance(24 * time.Hour)
			}
			w.advance(24 * time.Hour) // beyond 72h
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.want(id, lifecycle.Destroying)
		},
		"14 an owner's protection without max": func(w *world) {
			id := w.create(anna, with(func(t *template.Template) { t.TTL.Max = 0 }))
			w.run(id, good)
			w.must(anna, lifecycle.Protect{ID: id, On: true})
			w.advance(8*time.Hour + 30*24*time.Hour - time.Second)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.want(id, lifecycle.Ready)
			w.advance(time.Second)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.want(id, lifecycle.Destroying)
		},
		"14 an admin's protection": func(w *world) {
			id := w.reach(lifecycle.Ready)
			w.must(admin, lifecycle.Protect{ID: id, On: true})
			w.refused(anna, lifecycle.Protect{ID: id}, lifecycle.ErrDenied, "")
			w.advance(10000 * time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.want(id, lifecycle.Ready)
			w.must(admin, lifecycle.Protect{ID: id})
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.want(id, lifecycle.Destroying)
		},
		"15 while an apply runs": func(w *world) {
			id := w.create(anna, plain())
			w.start()
			w.must(anna, lifecycle.DestroyNow{ID: id})
			w.want(id, lifecycle.Destroying)
			w.end(id, good)
			w.start()
			if r := w.want(id, lifecycle.Destroying); r.Run.Kind != lifecycle.RunDestroy {
				w.t.Errorf("runs %+v", r.Run)
			}
			w.end(id, gone)
			w.want(id, lifecycle.Destroyed)
		},
		"15 nothing was applied": func(w *world) {
			id := w.create(anna, planned())
			w.start()
			w.must(anna, lifecycle.DestroyNow{ID: id})
			w.want(id, lifecycle.Destroying)
			w.end(id, lifecycle.Result{Outcome: lifecycle.Cancelled, Resources: -1})
			w.want(id, lifecycle.Destroyed)
		},
	}
}

// rowsOfRest covers destroying, time, changes by users and drift.
func rowsOfRest() map[string]func(*world) {
	return map[string]func(*world){
		"16 retry": func(w *world) {
			id := w.reach(lifecycle.Failed)
			n := w.record(id).Runs[0].N
			w.must(anna, lifecycle.Retry{ID: id})
			if r := w.want(id, lifecycle.Provisioning); r.Run.N != n+1 || !r.ExpiresAt.After(w.now.Add(8*time.Hour)) {
				w.t.Errorf("run %d, ends at %s", r.Run.N, r.ExpiresAt)
			}
		},
		"16 trying again lengthens no life": func(w *world) {
			id := w.create(anna, with(func(t *template.Template) { t.TTL.Max, t.TTL.Failed, t.Retries = 0, time.Hour, 0 }))
			given := w.record(id).ExpiresAt
			for n := range 12 {
				w.run(id, bare)
				if r := w.want(id, lifecycle.Failed); r.ExpiresAt.After(w.now.Add(time.Hour)) {
					w.t.Errorf("%d: what failed ends at %s", n, r.ExpiresAt)
				}
				w.advance(50 * time.Minute)
				if given.Sub(w.now) < 10*time.Minute {
					break
				}
				again := lifecycle.Event(lifecycle.Retry{ID: id})
				if n%2 == 1 {
					again = lifecycle.Update{ID: id, Parameters: map[string]json.RawMessage{"size": json.RawMessage(`"large"`)}}
				}
				w.must(anna, again)
				if r := w.record(id); !r.ExpiresAt.Equal(given) {
					w.t.Errorf("%d: tried again it ends at %s, not at %s", n, r.ExpiresAt, given)
				}
			}
			if given.Sub(w.now) > time.Hour {
				w.t.Errorf("it was not tried until its end, %s, but until %s", given, w.now)
			}
			w.advance(time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			if r := w.record(id); r.Phase == lifecycle.Failed || r.Phase.Live() && r.Phase != lifecycle.Destroying {
				w.t.Errorf("after its end it is %s", r.Phase)
			}
		},
		"17 done": func(w *world) {
			id := w.reach(lifecycle.Destroying)
			w.run(id, gone)
			if r := w.want(id, lifecycle.Destroyed); !r.FinishedAt.Equal(w.now) {
				w.t.Errorf("finished at %s", r.FinishedAt)
			}
			if len(w.effects) != 2 || w.effects[0].Notice.Kind != "destroyed" || w.effects[1].Kind != lifecycle.Archive {
				w.t.Errorf("effects %v", w.effects)
			}
		},
		"18 resources are left": func(w *world) {
			id := w.reach(lifecycle.Destroying)
			for _, r := range []lifecycle.Result{{Outcome: lifecycle.Done, Resources: 1}, {Outcome: lifecycle.Done, Resources: -1}, {Outcome: lifecycle.RunFailed}, lost} {
				w.run(id, r)
				w.want(id, lifecycle.Destroying)
				w.advance(time.Hour)
			}
			w.run(id, broken)
			if r := w.want(id, lifecycle.DestroyFailed); r.Reason != "destroy failed 5 times: no such image" {
				w.t.Errorf("reason %q", r.Reason)
			}
		},
		"18 now instead of later": func(w *world) {
			id := w.reach(lifecycle.Destroying)
			w.refused(anna, lifecycle.Retry{ID: id}, lifecycle.ErrPhase, "")
			w.refused(anna, lifecycle.Cancel{ID: id}, lifecycle.ErrPhase, "")
			w.run(id, broken)
			w.start()
			if len(w.effects) != 0 {
				w.t.Errorf("effects %v", w.effects)
			}
			w.must(anna, lifecycle.Retry{ID: id})
			w.start()
			if r := w.want(id, lifecycle.Destroying); len(w.effects) != 1 || r.Run.Attempt != 2 || r.Run.Failures != 1 {
				w.t.Errorf("effects %v, %+v", w.effects, r.Run)
			}
			w.refused(anna, lifecycle.Retry{ID: id}, lifecycle.ErrPhase, "")
			w.refused(anna, lifecycle.Cancel{ID: id}, lifecycle.ErrPhase, "")
			w.end(id, gone)
			r := w.want(id, lifecycle.Destroyed)
			if e := r.Events[0]; e.Action != "destroyed" || e.Detail != "run 2, requested by Anna; 0 added, 0 changed, 3 destroyed: requested" {
				w.t.Errorf("%+v", e)
			}
		},
		"18 not any more": func(w *world) {
			id := w.reach(lifecycle.Destroying)
			w.run(id, broken)
			w.must(anna, lifecycle.Cancel{ID: id})
			if r := w.want(id, lifecycle.DestroyFailed); r.Reason != "stopped by Anna after 1 attempt: no such image" || r.Run != nil {
				w.t.Errorf("%s, %+v", r.Reason, r.Run)
			}
			w.advance(24 * time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.want(id, lifecycle.Destroying)
		},
		"19 each day": func(w *world) {
			id := w.reach(lifecycle.DestroyFailed)
			w.advance(24 * time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.want(id, lifecycle.Destroying)
		},
		"19 another version": func(w *world) {
			id := w.reach(lifecycle.DestroyFailed)
			newer := source("2.0.0")
			w.refused(anna, lifecycle.Update{ID: id, Source: &newer}, lifecycle.ErrPhase, "")
			w.must(admin, lifecycle.Update{ID: id, Source: &newer})
			if r := w.want(id, lifecycle.Destroying); r.Run.Source != newer {
				w.t.Errorf("destroys with %v", r.Run.Source)
			}
		},
		"20 orphan": func(w *world) {
			id := w.reach(lifecycle.DestroyFailed)
			w.refused(anna, lifecycle.Orphan{ID: id, Reason: "x"}, lifecycle.ErrDenied, "")
			w.refused(admin, lifecycle.Orphan{ID: id}, template.ErrInvalid, "/reason: a reason is required")
			w.must(admin, lifecycle.Orphan{ID: id, Reason: "the cloud is gone"})
			if r := w.want(id, lifecycle.Orphaned); r.Reason != "the cloud is gone" || r.Source.Digest == "" {
				w.t.Errorf("got %+v", r)
			}
		},
		"21 transfer": func(w *world) {
			id := w.reach(lifecycle.Ready)
			w.refused(ben, lifecycle.Transfer{ID: id, To: user(ben)}, lifecycle.ErrDenied, "")
			w.m.Limits.Quotas = []lifecycle.Quota{{User: 1}}
			other := w.create(ben, plain())
			_, err := w.try(admin, lifecycle.Transfer{ID: id, To: user(ben)})
			if q, ok := errors.AsType[*lifecycle.QuotaError](err); !ok || q.Limit != 1 || q.Used != 1 {
				w.t.Errorf("got %v", err)
			}
			w.must(ben, lifecycle.DestroyNow{ID: other})
			w.must(admin, lifecycle.Transfer{ID: id, To: user(ben)})
			if !w.record(id).Owner.Same(user(ben)) {
				w.t.Error("it is not ben's")
			}
		},
		"21 name": func(w *world) {
			id := w.reach(lifecycle.Ready)
			w.refused(anna, lifecycle.Rename{ID: id, Name: "a\x1bb"}, template.ErrInvalid, "")
			w.refused(anna, lifecycle.Rename{ID: id, Name: strings.Repeat("ä", 65)}, template.ErrInvalid, "")
			w.must(anna, lifecycle.Rename{ID: id, Name: strings.Repeat("ä", 64)})
		},
		"22 seven days": func(w *world) {
			id := w.reach(lifecycle.Destroyed)
			for _, n := range w.record(id).Notices {
				w.serve(lifecycle.Noticed{ID: id, Notice: n.ID})
			}
			w.serve(lifecycle.Archived{ID: id})
			if n := len(mustJSON(w.t, w.record(id))); n > 1<<10 {
				w.t.Errorf("a final record has %d bytes: %s", n, mustJSON(w.t, w.record(id)))
			}
			w.advance(7 * 24 * time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			if len(w.effects) != 1 || w.effects[0].Kind != lifecycle.Remove {
				w.t.Errorf("effects %v", w.effects)
			}
			w.serve(lifecycle.Removed{ID: id})
			if w.d.Records[id] != nil {
				w.t.Error("it is still there")
			}
		},
		"22 nothing goes that is not written": func(w *world) {
			id := w.reach(lifecycle.Destroyed)
			w.advance(7 * 24 * time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			if len(w.effects) != 0 {
				w.t.Errorf("effects %v", w.effects)
			}
			w.serve(lifecycle.Removed{ID: id})
			w.want(id, lifecycle.Destroyed)
			w.serve(lifecycle.Archived{ID: id})
			if len(w.effects) != 1 || w.effects[0].Kind != lifecycle.Remove {
				w.t.Errorf("effects %v", w.effects)
			}
		},
		"22 twenty": func(w *world) {
			for range 21 {
				id := w.create(anna, plain())
				w.must(anna, lifecycle.DestroyNow{ID: id})
				w.advance(time.Second)
			}
			must.Equal(w.t, "kept", len(w.all(lifecycle.Destroyed)), 20)
		},
		"23 drift": func(w *world) {
			id := w.create(anna, with(func(t *template.Template) { t.Drift = &template.Drift{Every: time.Hour} }))
			w.run(id, good)
			w.advance(time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.run(id, lifecycle.Result{Outcome: lifecycle.Done, Resources: 3, Counts: &lifecycle.Counts{Change: 1}})
			if r := w.want(id, lifecycle.Ready); r.Conditions[0].Type != lifecycle.Drifted || w.effects[0].Notice.Kind != "drifted" {
				w.t.Errorf("got %v %v", r.Conditions, w.effects)
			}
			w.advance(time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.run(id, broken)
			w.want(id, lifecycle.Ready)
			w.advance(time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.run(id, lifecycle.Result{Outcome: lifecycle.Done, Resources: 3})
			if r := w.want(id, lifecycle.Ready); len(r.Conditions) != 0 {
				w.t.Errorf("got %v", r.Conditions)
			}
		},
		"23 an update comes before it": func(w *world) {
			id := w.create(anna, with(func(t *template.Template) { t.Drift = &template.Drift{Every: time.Hour, Remediate: true} }))
			w.run(id, good)
			w.advance(time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.start()
			w.must(anna, lifecycle.Update{ID: id})
			if w.effects[0].Kind != lifecycle.CancelRun {
				w.t.Errorf("effects %v", w.effects)
			}
			w.end(id, lifecycle.Result{Outcome: lifecycle.Done, Counts: &lifecycle.Counts{Change: 1}})
			w.start()
			if r := w.want(id, lifecycle.Updating); r.Run.Kind != lifecycle.RunApply {
				w.t.Errorf("runs %+v", r.Run)
			}
		},
		"23 remediate": func(w *world) {
			id := w.create(anna, with(func(t *template.Template) { t.Drift = &template.Drift{Every: time.Hour, Remediate: true} }))
			w.run(id, good)
			w.advance(time.Hour)
			w.serve(lifecycle.ExpireCheck{ID: id})
			w.run(id, lifecycle.Result{Outcome: lifecycle.Done, Counts: &lifecycle.Counts{Change: 1}})
			w.want(id, lifecycle.Updating)
			w.run(id, good)
			if r := w.want(id, lifecycle.Ready); len(r.Conditions) != 0 {
				w.t.Errorf("got %v", r.Conditions)
			}
		},
	}
}
