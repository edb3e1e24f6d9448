// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const testKey = "base64key://smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="

func newSealer(t testing.TB, key string) *envelope.Envelope {
	t.Helper()
	return must.Get(envelope.New(envelope.Options{Keys: []string{key}}))(t)
}

// queue returns the queue repository behind a transport.
func queue(t testing.TB, transport http.RoundTripper) *oci.Repo {
	t.Helper()
	client := must.Get(oci.New("registry.test", oci.Options{Transport: transport, PlainHTTP: true, Retry: oci.Retry{MaxAttempts: 1}}))(t)
	return must.Get(client.Repo("queue"))(t)
}

// process is a log that counts its calls of Dropped.
type process struct {
	*Log
	dropped atomic.Int64
}

// newProcess starts a process of a server. now is its clock; nil: time.Now.
func newProcess(t testing.TB, r *oci.Repo, s artifact.Sealer, now func() time.Time) *process {
	t.Helper()
	p := &process{}
	p.Log = New(Options{Repo: r, Sealer: s, Now: now, Dropped: func() { p.dropped.Add(1) }})
	return p
}

func (p *process) change(at time.Time, address string) {
	r := slog.NewRecord(at, slog.LevelInfo, "change", 0)
	r.AddAttrs(slog.String("action", "publish"), slog.String("kind", "module"), slog.String("address", address), slog.String("subject", "anna"), slog.Int("status", 201))
	_ = p.Handler(nil).Handle(context.Background(), r)
}

// run runs p until the returned function is called, which ends it gracefully.
func (p *process) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	return func() { cancel(); running.Wait(); p.Finish(ctx) }
}

// addresses returns the addresses of entries, newest first.
func addresses(all []*Entry) string {
	var names []string
	for _, e := range all {
		names = append(names, e.Address)
	}
	return strings.Join(names, " ")
}

// look reads all parts again and returns the view.
func (p *process) look(t *testing.T) View {
	t.Helper()
	must.Succeed(t, p.refresh(t.Context(), true))
	return p.View(t.Context())
}

// tagsOf returns the audit tags of a repository.
func tagsOf(t *testing.T, r *oci.Repo) (tags []string) {
	t.Helper()
	list := must.Get(r.Snapshot(t.Context()))(t)
	for _, tag := range list.Tags {
		if _, ok := ParseAuditTag(tag); ok {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return tags
}

// TestOverTime: two processes over days, with a restart, a kill, and a registry away for a while.
func TestOverTime(t *testing.T) {
	inner := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		var outage atomic.Bool
		down := &ocitest.Fault{Base: ocitest.Direct{Handler: inner}, Times: -1, Do: ocitest.FailBefore, Match: func(*http.Request) bool { return outage.Load() }}
		r, keys := queue(t, down), newSealer(t, testKey)
		a, b := newProcess(t, r, keys, nil), newProcess(t, r, keys, nil)
		stopA, stopB := a.run(t), b.run(t)
		shows := func(when string, p *process, want string) {
			t.Helper()
			v := p.look(t)
			if got := addresses(v.Entries); got != want || v.Unreadable > 0 || !v.Protected {
				t.Errorf("%s: %q, want %q, %d unreadable", when, got, want, v.Unreadable)
			}
		}
		a.change(time.Now(), "a1")
		if v := a.View(t.Context()); addresses(v.Entries) != "a1" || v.Waiting != 1 {
			t.Errorf("at once: %+v", v)
		}
		time.Sleep(writeEvery + time.Second)
		shows("a minute later, at the other one", b, "a1")
		b.change(time.Now(), "b1")
		time.Sleep(writeEvery)
		a.change(time.Now(), "a2")
		time.Sleep(day)
		a.change(time.Now(), "a3")
		time.Sleep(writeEvery)
		shows("on the next day", b, "a3 a2 b1 a1")
		must.Equal(t, "tags", len(tagsOf(t, r)), 3)

		outage.Store(true)
		b.change(time.Now(), "b2")
		time.Sleep(3 * writeEvery)
		if v := b.View(t.Context()); v.Waiting != 1 || addresses(v.Entries) != "b2 a3 a2 b1 a1" {
			t.Errorf("without the registry: %d wait, %s", v.Waiting, addresses(v.Entries))
		}
		outage.Store(false)
		time.Sleep(2 * writeEvery)
		shows("after the outage", a, "b2 a3 a2 b1 a1")

		b.change(time.Now(), "b3")
		stopB()
		a.change(time.Now().Add(time.Second), "lost") // a is killed
		c := newProcess(t, r, keys, nil)
		stopC := c.run(t)
		c.change(time.Now().Add(time.Second), "c1")
		stopC()
		shows("after a restart", newProcess(t, r, keys, nil), "c1 b3 b2 a3 a2 b1 a1")
		a.own.parts = nil // as if it had no changes to write
		stopA()
	})
}

// TestClock sets the clock back over midnight: lines continue in the latest day.
func TestClock(t *testing.T) {
	r := queue(t, ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})})
	now := time.Date(2026, 11, 22, 0, 0, 30, 0, time.UTC)
	p := newProcess(t, r, nil, func() time.Time { return now })
	write := func(name string) {
		t.Helper()
		p.change(now, name)
		must.Succeed(t, p.own.writeParts(t.Context()))
	}
	write("first")
	now = now.Add(-time.Minute) // on the day before
	write("back")
	now = now.Add(2 * day)
	write("later")
	v := p.look(t)
	want := []string{"audit-20261122-" + p.own.id + "-0001", "audit-20261123-" + p.own.id + "-0001"}
	if got := tagsOf(t, r); !slices.Equal(got, want) || v.Unreadable > 0 || addresses(v.Entries) != "later first back" {
		t.Errorf("tags %v, %s", got, addresses(v.Entries))
	}
}

// TestFull fills parts: by bytes, with long records, and by lines.
func TestFull(t *testing.T) {
	r := queue(t, ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})})
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, n := range map[string]int{strings.Repeat("<", maxField): 400, "short": maxLines + 10} {
		p := newProcess(t, r, nil, func() time.Time { return now })
		for range n {
			p.change(now, name)
		}
		must.Succeed(t, p.own.writeParts(t.Context()))
		v := p.look(t)
		own := slices.DeleteFunc(tagsOf(t, r), func(tag string) bool { return !strings.Contains(tag, p.own.id) })
		mine := slices.DeleteFunc(slices.Clone(v.Entries), func(e *Entry) bool { return e.Process != p.own.id })
		if len(own) < 2 || len(mine) != n || v.Unreadable != 0 || v.Waiting != 0 || v.Dropped != 0 {
			t.Errorf("%d tags, %d entries of %d", len(own), len(mine), n)
		}
	}
}

// TestDropped: more changes than fit while the registry is away: nobody waits, and what was dropped
// is told for good.
func TestDropped(t *testing.T) {
	var outage atomic.Bool
	outage.Store(true)
	down := &ocitest.Fault{Base: ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})}, Times: -1, Do: ocitest.FailBefore, Match: func(*http.Request) bool { return outage.Load() }}
	r := queue(t, down)
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	p := newProcess(t, r, nil, func() time.Time { return now })
	for range 3 * maxUnwritten / maxField {
		p.change(now, strings.Repeat("x", maxField))
	}
	if err := p.own.writeParts(t.Context()); err == nil {
		t.Fatal("it was written")
	}
	dropped := p.dropped.Load()
	if dropped == 0 || dropped != p.own.droppedSoFar() || p.own.bytes > maxUnwritten {
		t.Fatalf("%d dropped, %d bytes held", dropped, p.own.bytes)
	}
	outage.Store(false)
	must.Succeed(t, p.own.writeParts(t.Context()))
	p.change(now.Add(time.Second), "after")
	must.Succeed(t, p.own.writeParts(t.Context()))
	v := p.look(t)
	if v.Entries[0].Address != "after" && v.Entries[1].Address != "after" || v.Dropped != dropped || v.Unreadable != 0 {
		t.Errorf("newest %+v, %d dropped", v.Entries[0], v.Dropped)
	}
	reported := slices.IndexFunc(v.Entries, func(e *Entry) bool { return e.Action == "drop" })
	if reported < 0 || !strings.HasPrefix(v.Entries[reported].Detail, fmt.Sprint(dropped, " earlier changes were lost")) {
		t.Errorf("no entry tells of them: %d", reported)
	}
}

// TestRefusedAtTheEnd has a registry that never answers: the end waits at most saveTime.
func TestRefusedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := newProcess(t, queue(t, &ocitest.Fault{Base: ocitest.Direct{Handler: http.NotFoundHandler()}, Times: -1, Do: ocitest.Hang}), nil, nil)
		p.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		stop := p.run(t)
		p.change(time.Now(), "x")
		synctest.Wait()
		start := time.Now()
		stop()
		if took := time.Since(start); took > saveTime { // by the clock of the bubble
			t.Errorf("the end took %v", took)
		}
		if !strings.Contains(log.String(), "changes=1") {
			t.Errorf("the log is %s", log.String())
		}
	})
}

// TestExpire forgets parts after 90 days and deletes them a day later.
func TestExpire(t *testing.T) {
	inner := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		r := queue(t, ocitest.Direct{Handler: inner})
		p := newProcess(t, r, nil, nil)
		stop := p.run(t)
		p.change(time.Now(), "old")
		time.Sleep(day)
		p.change(time.Now(), "next")
		time.Sleep(90*day + 2*readEvery)
		if v, tags := p.look(t), tagsOf(t, r); addresses(v.Entries) != "next" || len(tags) != 2 {
			t.Errorf("after 91 days: %s, tags %v", addresses(v.Entries), tags)
		}
		time.Sleep(day)
		if tags := tagsOf(t, r); len(tags) != 1 {
			t.Errorf("tags %v", tags)
		}
		p.change(time.Now(), "new")
		stop()
		if v := newProcess(t, r, nil, nil).look(t); addresses(v.Entries) != "new" {
			t.Errorf("later: %s", addresses(v.Entries))
		}
	})
}
