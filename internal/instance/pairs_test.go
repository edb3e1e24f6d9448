// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/instance"
)

var phases = []instance.Phase{
	instance.Requested, instance.Planned, instance.Provisioning, instance.Updating, instance.Available, instance.Ready,
	instance.Failed, instance.Destroying, instance.DestroyFailed, instance.Destroyed, instance.Orphaned, instance.Rejected,
}

// pairs is what a caller may do in which phase, and where that leads.
const pairs = `
requested       approve provisioning, reject rejected, cancel rejected, destroy rejected
planned         approve provisioning, reject destroyed, cancel destroyed, destroy destroyed, extend planned
provisioning    cancel failed, protect provisioning, unprotect provisioning, rename provisioning, transfer provisioning, destroy destroyed, extend provisioning
updating        cancel failed, protect updating, unprotect updating, rename updating, transfer updating, destroy destroying, extend updating
available       destroy destroying
ready           protect ready, unprotect ready, rename ready, transfer ready, orphan orphaned, destroy destroying, extend ready, update updating
failed          retry provisioning, protect failed, unprotect failed, rename failed, transfer failed, orphan orphaned, destroy destroying, extend failed, update updating
destroying
destroy_failed  retry destroying, protect destroy_failed, unprotect destroy_failed, rename destroy_failed, transfer destroy_failed, orphan orphaned, destroy destroying, update destroying
destroyed
orphaned
rejected
`

// TestPairs takes every event of a caller to every phase: what the table does not
// have is refused, and changes nothing.
func TestPairs(t *testing.T) {
	table := map[instance.Phase]map[string]instance.Phase{}
	for line := range strings.Lines(strings.TrimSpace(pairs)) {
		phase, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		to := map[string]instance.Phase{}
		for pair := range strings.SplitSeq(strings.TrimSpace(rest), ", ") {
			verb, phase, _ := strings.Cut(pair, " ")
			to[verb] = instance.Phase(phase)
		}
		table[instance.Phase(phase)] = to
	}
	newer := source("2.0.0")
	events := map[string]func(*instance.Record) (instance.Actor, instance.Event){
		"approve": func(r *instance.Record) (instance.Actor, instance.Event) {
			plan := instance.RequestPlan(r)
			if r.Run != nil {
				plan = r.Run.Plan
			}
			return ben, instance.Approve{ID: r.ID, Plan: plan}
		},
		"reject": func(r *instance.Record) (instance.Actor, instance.Event) {
			return ben, instance.Reject{ID: r.ID, Reason: "no"}
		},
		"cancel": func(r *instance.Record) (instance.Actor, instance.Event) { return anna, instance.Cancel{ID: r.ID} },
		"retry":  func(r *instance.Record) (instance.Actor, instance.Event) { return anna, instance.Retry{ID: r.ID} },
		"protect": func(r *instance.Record) (instance.Actor, instance.Event) {
			return anna, instance.Protect{ID: r.ID, On: true}
		},
		"unprotect": func(r *instance.Record) (instance.Actor, instance.Event) { return anna, instance.Protect{ID: r.ID} },
		"rename": func(r *instance.Record) (instance.Actor, instance.Event) {
			return anna, instance.Rename{ID: r.ID, Name: "new"}
		},
		"orphan": func(r *instance.Record) (instance.Actor, instance.Event) {
			return admin, instance.Orphan{ID: r.ID, Reason: "mine now"}
		},
		"destroy": func(r *instance.Record) (instance.Actor, instance.Event) { return anna, instance.DestroyNow{ID: r.ID} },
		"extend":  func(r *instance.Record) (instance.Actor, instance.Event) { return anna, instance.Extend{ID: r.ID} },
		"transfer": func(r *instance.Record) (instance.Actor, instance.Event) {
			return admin, instance.Transfer{ID: r.ID, To: user(ben)}
		},
		"update": func(r *instance.Record) (instance.Actor, instance.Event) {
			return admin, instance.Update{ID: r.ID, Source: &newer}
		},
	}
	for _, phase := range phases {
		for verb, make := range events {
			t.Run(string(phase)+"/"+verb, func(t *testing.T) {
				w := newWorld(t)
				id := w.reach(phase)
				before := w.d
				actor, event := make(w.want(id, phase))
				_, err := w.try(actor, event)
				want, allowed := table[phase][verb]
				if !allowed {
					if !errors.Is(err, instance.ErrPhase) || w.d != before || !strings.Contains(err.Error(), "instance "+id+" is "+string(phase)+" and cannot be ") {
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

// TestPairsOfServer takes the server's events that fit nothing to every phase.
func TestPairsOfServer(t *testing.T) {
	for _, phase := range phases {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t)
			id := w.reach(phase)
			before := w.d
			stray := instance.Ref{ID: id, Kind: instance.RunApply, N: 1, Attempt: 1, Nonce: "x"}
			refs := []instance.Ref{stray, {ID: id}, {}}
			if r := w.record(id); r.Run != nil {
				refs = append(refs, instance.Ref{ID: id, Kind: r.Run.Kind, N: r.Run.N, Attempt: r.Run.Attempt, Nonce: r.Run.Nonce})
			}
			for _, ref := range refs {
				w.serve(instance.Ended{Ref: ref, Result: good})
				w.serve(instance.Started{Ref: ref, Handle: "h"})
				w.serve(instance.Wait{Ref: ref, Reason: instance.WaitStateLocked})
			}
			for _, e := range []instance.Event{
				instance.Tick{ID: id}, instance.Tick{ID: "nobody"}, instance.Noticed{ID: id, Notice: "x"}, instance.Removed{ID: id},
				instance.Offer{ID: "nobody"}, instance.ClockHeld{}, instance.Prune{},
			} {
				w.serve(e)
			}
			if w.d != before {
				t.Errorf("an event that fits nothing changed the document")
			}
		})
	}
}

// TestLateEvents sends what is almost the attempt that runs.
func TestLateEvents(t *testing.T) {
	w := newWorld(t)
	id := w.create(anna, plain())
	w.start()
	before, ref := w.d, w.ref(id)
	for name, change := range map[string]func(*instance.Ref){
		"kind":    func(r *instance.Ref) { r.Kind = instance.RunDestroy },
		"n":       func(r *instance.Ref) { r.N++ },
		"attempt": func(r *instance.Ref) { r.Attempt-- },
		"nonce":   func(r *instance.Ref) { r.Nonce = strings.Repeat("0", 32) },
	} {
		late := ref
		change(&late)
		w.serve(instance.Ended{Ref: late, Result: good})
		w.serve(instance.Started{Ref: late, Handle: "h"})
		if w.d != before {
			t.Errorf("another %s counts", name)
		}
	}
	w.serve(instance.Ended{Ref: ref, Result: broken})
	w.pass(time.Hour)
	w.start()
	before = w.d
	w.serve(instance.Ended{Ref: ref, Result: good})
	if w.d != before {
		t.Error("the attempt before counts")
	}
}
