// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
)

var phases = []lifecycle.Phase{
	lifecycle.Requested, lifecycle.Planned, lifecycle.Provisioning, lifecycle.Updating, lifecycle.Available, lifecycle.Ready,
	lifecycle.Failed, lifecycle.Destroying, lifecycle.DestroyFailed, lifecycle.Destroyed, lifecycle.Orphaned, lifecycle.Rejected,
}

// pairs is what a caller may do in which phase, and the phase that follows.
const pairs = `
requested       approve provisioning, reject rejected, cancel rejected, destroy rejected
planned         approve provisioning, reject destroyed, cancel destroyed, destroy destroyed, extend planned
provisioning    cancel failed, protect provisioning, unprotect provisioning, rename provisioning, transfer provisioning, take provisioning, decline provisioning, destroy destroyed, extend provisioning
updating        cancel failed, protect updating, unprotect updating, rename updating, transfer updating, take updating, decline updating, destroy destroying, extend updating
available       destroy destroying
ready           protect ready, unprotect ready, rename ready, transfer ready, take ready, decline ready, orphan orphaned, destroy destroying, extend ready, update updating
failed          retry provisioning, protect failed, unprotect failed, rename failed, transfer failed, take failed, decline failed, orphan orphaned, destroy destroying, extend failed, update updating
destroying
destroy_failed  retry destroying, protect destroy_failed, unprotect destroy_failed, rename destroy_failed, transfer destroy_failed, take destroy_failed, decline destroy_failed, orphan orphaned, destroy destroying, update destroying
destroyed
orphaned
rejected
`

// TestPairs applies every event of a caller in every phase: what the table does not have
// is refused, and changes nothing.
//
// Shows: platform 13 | a record with phases; permanent names | `id`, a repository each
// Shows: platform-mistakes 13
func TestPairs(t *testing.T) {
	table := map[lifecycle.Phase]map[string]lifecycle.Phase{}
	for line := range strings.Lines(strings.TrimSpace(pairs)) {
		phase, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		to := map[string]lifecycle.Phase{}
		for pair := range strings.SplitSeq(strings.TrimSpace(rest), ", ") {
			verb, phase, _ := strings.Cut(pair, " ")
			to[verb] = lifecycle.Phase(phase)
		}
		table[lifecycle.Phase(phase)] = to
	}
	newer := source("2.0.0")
	events := map[string]func(*lifecycle.Record) (lifecycle.Actor, lifecycle.Event){
		"approve": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) {
			plan := lifecycle.RequestPlan(r)
			if r.Run != nil {
				plan = r.Run.Plan
			}
			return ben, lifecycle.Approve{ID: r.ID, Plan: plan}
		},
		"reject": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) {
			return ben, lifecycle.Reject{ID: r.ID, Reason: "no"}
		},
		"cancel": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) { return anna, lifecycle.Cancel{ID: r.ID} },
		"retry":  func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) { return anna, lifecycle.Retry{ID: r.ID} },
		"protect": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) {
			return anna, lifecycle.Protect{ID: r.ID, On: true}
		},
		"unprotect": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) { return anna, lifecycle.Protect{ID: r.ID} },
		"rename": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) {
			return anna, lifecycle.Rename{ID: r.ID, Name: "new"}
		},
		"orphan": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) {
			return admin, lifecycle.Orphan{ID: r.ID, Reason: "mine now"}
		},
		"destroy": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) {
			return anna, lifecycle.DestroyNow{ID: r.ID}
		},
		"extend": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) { return anna, lifecycle.Extend{ID: r.ID} },
		"transfer": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) {
			return admin, lifecycle.Transfer{ID: r.ID, To: user(ben)}
		},
		"take": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) { return ben, lifecycle.Take{ID: r.ID} },
		"decline": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) {
			return ben, lifecycle.Take{ID: r.ID, No: true}
		},
		"update": func(r *lifecycle.Record) (lifecycle.Actor, lifecycle.Event) {
			return admin, lifecycle.Update{ID: r.ID, Source: &newer}
		},
	}
	for _, phase := range phases {
		for verb, make := range events {
			t.Run(string(phase)+"/"+verb, func(t *testing.T) {
				w := newWorld(t)
				id := w.reach(phase)
				if verb == "take" || verb == "decline" {
					_, _ = w.try(anna, lifecycle.Transfer{ID: id, To: user(ben)}) // if it can be offered
				}
				before := w.d
				actor, event := make(w.want(id, phase))
				_, err := w.try(actor, event)
				want, allowed := table[phase][verb]
				if !allowed {
					if !errors.Is(err, lifecycle.ErrPhase) || w.d != before || !strings.Contains(err.Error(), "instance "+id+" is "+string(phase)+" and cannot be ") {
						t.Errorf("got %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				w.want(id, want)
			})
		}
	}
}

// TestPairsOfServer applies unexpected events of the server in every phase.
//
// Shows: platform-attacks 13
func TestPairsOfServer(t *testing.T) {
	for _, phase := range phases {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t)
			id := w.reach(phase)
			before := w.d
			stray := lifecycle.Ref{ID: id, Kind: lifecycle.RunApply, N: 1, Attempt: 1, Nonce: "x"}
			refs := []lifecycle.Ref{stray, {ID: id}, {}}
			if r := w.record(id); r.Run != nil {
				refs = append(refs, r.Run.Ref(id))
			}
			for _, ref := range refs {
				w.serve(lifecycle.Ended{Ref: ref, Result: good})
				w.serve(lifecycle.Started{Ref: ref, Handle: "h"})
				w.serve(lifecycle.Wait{Ref: ref, Reason: lifecycle.WaitStateLocked})
			}
			for _, e := range []lifecycle.Event{
				lifecycle.ExpireCheck{ID: id}, lifecycle.ExpireCheck{ID: "nobody"}, lifecycle.Noticed{ID: id, Notice: "x"}, lifecycle.Removed{ID: id},
				lifecycle.UpdateCheck{ID: "nobody"}, lifecycle.ClockHeld{}, lifecycle.Prune{},
			} {
				w.serve(e)
			}
			if w.d != before {
				t.Errorf("an event that fits nothing changed the document")
			}
		})
	}
}

// TestLateEvents sends events of attempts that differ from the running one in one field.
//
// Shows: platform-attacks 13 | late events of every kind
func TestLateEvents(t *testing.T) {
	w := newWorld(t)
	id := w.create(anna, plain())
	w.start()
	before, ref := w.d, w.ref(id)
	for name, change := range map[string]func(*lifecycle.Ref){
		"kind":    func(r *lifecycle.Ref) { r.Kind = lifecycle.RunDestroy },
		"n":       func(r *lifecycle.Ref) { r.N++ },
		"attempt": func(r *lifecycle.Ref) { r.Attempt-- },
		"nonce":   func(r *lifecycle.Ref) { r.Nonce = strings.Repeat("0", 32) },
	} {
		late := ref
		change(&late)
		w.serve(lifecycle.Ended{Ref: late, Result: good})
		w.serve(lifecycle.Started{Ref: late, Handle: "h"})
		if w.d != before {
			t.Errorf("another %s counts", name)
		}
	}
	w.serve(lifecycle.Ended{Ref: ref, Result: broken})
	w.advance(time.Hour)
	w.start()
	before = w.d
	w.serve(lifecycle.Ended{Ref: ref, Result: good})
	if w.d != before {
		t.Error("the attempt before counts")
	}
}
