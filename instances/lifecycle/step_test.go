// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var (
	anna  = lifecycle.Actor{Issuer: "https://id", Subject: "anna", Label: "Anna", Groups: []string{"team-a"}}
	ben   = lifecycle.Actor{Issuer: "https://id", Subject: "ben", Label: "Ben", Groups: []string{"team-a", "team-b"}}
	admin = lifecycle.Actor{Issuer: "https://id", Subject: "root", Label: "Root", Admin: true}
)

func user(a lifecycle.Actor) template.Owner {
	return template.Owner{Kind: template.OwnerUser, Issuer: a.Issuer, ID: a.Subject, Label: a.Label}
}

// world is a machine with its document, clock and checks.
type world struct {
	t       *testing.T
	m       lifecycle.Machine
	d       *lifecycle.Document
	now     time.Time
	seed    uint64
	effects []lifecycle.Effect
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, d: &lifecycle.Document{Version: 1}, now: epoch}
}

func (w *world) nextSeed() [32]byte {
	w.seed++
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, w.seed))
}

// try applies an event; a refused one leaves the document unchanged.
func (w *world) try(a lifecycle.Actor, e lifecycle.Event) (lifecycle.Answer, error) {
	w.t.Helper()
	return w.command(lifecycle.Command{Event: e, Actor: a})
}

func (w *world) command(c lifecycle.Command) (lifecycle.Answer, error) {
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
	if v := lifecycle.Check(d); len(v) > 0 {
		w.t.Fatalf("after %T: %v", c.Event, v)
	}
	return answer, err
}

func (w *world) must(a lifecycle.Actor, e lifecycle.Event) lifecycle.Answer {
	w.t.Helper()
	answer, err := w.try(a, e)
	if err != nil {
		w.t.Fatalf("%T: %v", e, err)
	}
	return answer
}

func (w *world) serve(e lifecycle.Event) { w.t.Helper(); w.must(lifecycle.Actor{}, e) }

func (w *world) refused(a lifecycle.Actor, e lifecycle.Event, want error, text string) {
	w.t.Helper()
	if _, err := w.try(a, e); !errors.Is(err, want) || text != "" && err.Error() != text {
		w.t.Errorf("%T: got %v, want %v (%s)", e, err, want, text)
	}
}

func (w *world) advance(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) record(id string) *lifecycle.Record {
	w.t.Helper()
	r := w.d.Records[id]
	if r == nil {
		w.t.Fatalf("no record %s", id)
	}
	return r
}

func (w *world) want(id string, p lifecycle.Phase) *lifecycle.Record {
	w.t.Helper()
	r := w.record(id)
	if r.Phase != p {
		w.t.Fatalf("%s is %s (%s), want %s", id, r.Phase, r.Reason, p)
	}
	return r
}

func (w *world) create(a lifecycle.Actor, t *template.Template) string {
	w.t.Helper()
	return w.must(a, creation(a, t)).Record.ID
}

func creation(a lifecycle.Actor, t *template.Template) lifecycle.Create {
	return lifecycle.Create{Template: t, Digest: digestOf(t), Source: source("1.0.0"), Owner: user(a)}
}

func digestOf(t *template.Template) string {
	b, err := json.Marshal(t)
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:8])
}

func source(version string) template.Source {
	return template.Source{Module: "net/vpc/aws", Version: version, Digest: "sha256:" + version, Archive: "sha256:zip" + version}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b := must.Get(json.Marshal(v))(t)
	return string(b)
}

// ref identifies the running attempt.
func (w *world) ref(id string) lifecycle.Ref {
	r := w.record(id)
	if r.Run == nil {
		w.t.Fatalf("%s has no run", id)
	}
	return r.Run.Ref(id)
}

func (w *world) start() { w.t.Helper(); w.serve(lifecycle.Schedule{Concurrency: 100}) }

func (w *world) end(id string, r lifecycle.Result) {
	w.t.Helper()
	w.serve(lifecycle.Ended{Ref: w.ref(id), Result: r})
}

// run starts the run of an instance and ends it.
func (w *world) run(id string, r lifecycle.Result) {
	w.t.Helper()
	w.start()
	w.end(id, r)
}

var (
	good   = lifecycle.Result{Outcome: lifecycle.Done, Resources: 3, State: true, Counts: &lifecycle.Counts{Add: 3}}
	gone   = lifecycle.Result{Outcome: lifecycle.Done, State: true, Counts: &lifecycle.Counts{Remove: 3}}
	broken = lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "no such image", Resources: -1}
	bare   = lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "Invalid value for variable", Permanent: true}
	lost   = lifecycle.Result{Outcome: lifecycle.Lost, Resources: -1}
)

func plan(digest string, c lifecycle.Counts) lifecycle.Result {
	return lifecycle.Result{Outcome: lifecycle.Done, Plan: digest, Counts: &c, Resources: -1}
}

// plain returns a template with an end.
func plain() *template.Template {
	return &template.Template{
		Name: "sandbox/vpc", Enabled: true, Visible: true, Owner: "user", Approval: "none", Executor: "local",
		TTL:     &template.TTL{Default: 8 * time.Hour, Max: 72 * time.Hour, Extend: 2 * time.Hour, Extends: 5, Failed: 4 * time.Hour, OnExpire: "destroy"},
		Timeout: 30 * time.Minute, Retries: 2, Protection: true, Update: "manual", Outputs: []string{"url"},
	}
}

func with(change func(*template.Template)) *template.Template {
	t := plain()
	change(t)
	return t
}

// An instance is created, ready, extended to the limit, ended and destroyed.
func TestLife(t *testing.T) {
	w := newWorld(t)
	id := w.create(anna, plain())
	r := w.want(id, lifecycle.Provisioning)
	if got, want := r.ExpiresAt, epoch.Add(8*time.Hour+3*30*time.Minute+70*time.Second); !got.Equal(want) {
		t.Errorf("ends at %s, want %s", got, want)
	}
	w.advance(time.Minute)
	w.run(id, good)
	r = w.want(id, lifecycle.Ready)
	if got, want := r.ExpiresAt, w.now.Add(8*time.Hour); !got.Equal(want) {
		t.Errorf("ready, it ends at %s, want %s", got, want)
	}
	for range 5 {
		w.must(anna, lifecycle.Extend{ID: id})
	}
	w.refused(anna, lifecycle.Extend{ID: id}, lifecycle.ErrExtends, "extended 5 of 5 times")
	w.advance(18 * time.Hour)
	w.refused(anna, lifecycle.Rename{ID: id, Name: "x"}, lifecycle.ErrPhase, "instance "+id+" has expired and cannot be renamed")
	w.serve(lifecycle.ExpireCheck{ID: id})
	w.want(id, lifecycle.Destroying)
	w.refused(anna, lifecycle.Extend{ID: id}, lifecycle.ErrPhase, "instance "+id+" is destroying and cannot be extended")
	w.run(id, gone)
	w.want(id, lifecycle.Destroyed)
}
