// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/instance"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var (
	anna  = instance.Actor{Issuer: "https://id", Subject: "anna", Label: "Anna", Groups: []string{"team-a"}}
	ben   = instance.Actor{Issuer: "https://id", Subject: "ben", Label: "Ben", Groups: []string{"team-a", "team-b"}}
	admin = instance.Actor{Issuer: "https://id", Subject: "root", Label: "Root", Admin: true}
)

func user(a instance.Actor) instance.Owner {
	return instance.Owner{Kind: instance.OwnerUser, Issuer: a.Issuer, ID: a.Subject, Label: a.Label}
}

// world is a machine with its document, clock and checks.
type world struct {
	t       *testing.T
	m       instance.Machine
	d       *instance.Document
	now     time.Time
	seed    uint64
	effects []instance.Effect
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, d: &instance.Document{Version: 1}, now: epoch}
}

func (w *world) nextSeed() [32]byte {
	w.seed++
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, w.seed))
}

// try takes an event; what it refuses leaves the document alone.
func (w *world) try(a instance.Actor, e instance.Event) (instance.Answer, error) {
	w.t.Helper()
	return w.command(instance.Command{Event: e, Actor: a})
}

func (w *world) command(c instance.Command) (instance.Answer, error) {
	w.t.Helper()
	c.Seed = w.nextSeed()
	before := mustJSON(w.t, w.d)
	d, effects, answer, err := w.m.Step(w.d, c, w.now)
	if after := mustJSON(w.t, w.d); after != before {
		w.t.Fatalf("%T changed the document that it was given:\n%s\n%s", c.Event, before, after)
	}
	if err != nil && (d != w.d || effects != nil) {
		w.t.Fatalf("%T was refused and changed something", c.Event)
	}
	w.d, w.effects = d, effects
	if v := instance.Check(d); len(v) > 0 {
		w.t.Fatalf("after %T: %v", c.Event, v)
	}
	return answer, err
}

func (w *world) must(a instance.Actor, e instance.Event) instance.Answer {
	w.t.Helper()
	answer, err := w.try(a, e)
	if err != nil {
		w.t.Fatalf("%T: %v", e, err)
	}
	return answer
}

func (w *world) serve(e instance.Event) { w.t.Helper(); w.must(instance.Actor{}, e) }

func (w *world) refused(a instance.Actor, e instance.Event, want error, text string) {
	w.t.Helper()
	_, err := w.try(a, e)
	if !errors.Is(err, want) || text != "" && err.Error() != text {
		w.t.Errorf("%T: got %v, want %v (%s)", e, err, want, text)
	}
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) record(id string) *instance.Record {
	w.t.Helper()
	r := w.d.Records[id]
	if r == nil {
		w.t.Fatalf("no record %s", id)
	}
	return r
}

func (w *world) want(id string, p instance.Phase) *instance.Record {
	w.t.Helper()
	r := w.record(id)
	if r.Phase != p {
		w.t.Fatalf("%s is %s (%s), want %s", id, r.Phase, r.Reason, p)
	}
	return r
}

func (w *world) create(a instance.Actor, t *instance.Template) string {
	w.t.Helper()
	return w.must(a, creation(a, t)).Record.ID
}

func creation(a instance.Actor, t *instance.Template) instance.Create {
	return instance.Create{Template: t, Digest: digestOf(t), Source: source("1.0.0"), Owner: user(a)}
}

func digestOf(t *instance.Template) string {
	b, err := json.Marshal(t)
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:8])
}

func source(version string) instance.Source {
	return instance.Source{Module: "net/vpc/aws", Version: version, Digest: "sha256:" + version, Archive: "sha256:zip" + version}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ref names the attempt that runs.
func (w *world) ref(id string) instance.Ref {
	r := w.record(id)
	if r.Run == nil {
		w.t.Fatalf("%s has no run", id)
	}
	return instance.Ref{ID: id, Kind: r.Run.Kind, N: r.Run.N, Attempt: r.Run.Attempt, Nonce: r.Run.Nonce}
}

// start starts all that waits.
func (w *world) start() { w.t.Helper(); w.serve(instance.Schedule{Places: 100}) }

// end ends the attempt that runs.
func (w *world) end(id string, r instance.Result) {
	w.t.Helper()
	w.serve(instance.Ended{Ref: w.ref(id), Result: r})
}

// run starts the run of an instance and ends it.
func (w *world) run(id string, r instance.Result) {
	w.t.Helper()
	w.start()
	w.end(id, r)
}

var (
	good   = instance.Result{Outcome: instance.Done, Resources: 3, State: true, Counts: &instance.Counts{Add: 3}}
	gone   = instance.Result{Outcome: instance.Done, State: true, Counts: &instance.Counts{Remove: 3}}
	broken = instance.Result{Outcome: instance.RunFailed, Error: "no such image", Resources: -1}
	lost   = instance.Result{Outcome: instance.Lost, Resources: -1}
)

func plan(digest string, c instance.Counts) instance.Result {
	return instance.Result{Outcome: instance.Done, Plan: digest, Counts: &c, Resources: -1}
}

// plain is a template with an end.
func plain() *instance.Template {
	return &instance.Template{
		Name: "sandbox/vpc", Enabled: true, Visible: true, Owner: "user", Approval: "none", Executor: "local",
		TTL:     &instance.TTL{Default: 8 * time.Hour, Max: 72 * time.Hour, Extend: 2 * time.Hour, Extends: 5, Failed: 4 * time.Hour, OnExpire: "destroy"},
		Timeout: 30 * time.Minute, Retries: 2, Protection: true, Update: "manual", Outputs: []string{"url"},
	}
}

func with(change func(*instance.Template)) *instance.Template {
	t := plain()
	change(t)
	return t
}

// A life: created, ready, extended to the limit, ended and destroyed.
func TestLife(t *testing.T) {
	w := newWorld(t)
	id := w.create(anna, plain())
	r := w.want(id, instance.Provisioning)
	if got, want := r.ExpiresAt, epoch.Add(8*time.Hour+3*30*time.Minute+70*time.Second); !got.Equal(want) {
		t.Errorf("ends at %s, want %s", got, want)
	}
	w.pass(time.Minute)
	w.run(id, good)
	r = w.want(id, instance.Ready)
	if got, want := r.ExpiresAt, w.now.Add(8*time.Hour); !got.Equal(want) {
		t.Errorf("ready, it ends at %s, want %s", got, want)
	}
	for range 5 {
		w.must(anna, instance.Extend{ID: id})
	}
	w.refused(anna, instance.Extend{ID: id}, instance.ErrExtends, "extended 5 of 5 times")
	w.pass(18 * time.Hour)
	w.refused(anna, instance.Rename{ID: id, Name: "x"}, instance.ErrPhase, "instance "+id+" has come to its end and cannot be renamed")
	w.serve(instance.Tick{ID: id})
	w.want(id, instance.Destroying)
	w.refused(anna, instance.Extend{ID: id}, instance.ErrPhase, "instance "+id+" is destroying and cannot be extended")
	w.run(id, gone)
	w.want(id, instance.Destroyed)
}
