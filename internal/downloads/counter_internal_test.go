// SPDX-License-Identifier: Apache-2.0

package downloads

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

func newTestCounts(t *testing.T, transport http.RoundTripper) *Counter {
	t.Helper()
	client := must.Get(oci.New("registry.test", oci.Options{Transport: transport, PlainHTTP: true}))(t)
	r := must.Get(client.Repo("queue"))(t)
	return New(Options{Repo: r})
}

// runCounts runs c until the returned function is called.
func runCounts(t *testing.T, c *Counter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

// TestCountsOverTime: two replicas, a restart, a kill, an outage: counts older than an hour are
// neither lost nor doubled.
//
// Shows: opendepot 17 | download statistics in a store | counted without a store, across replicas
// and restarts
func TestCountsOverTime(t *testing.T) {
	inner := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		var outage atomic.Bool
		down := &ocitest.Fault{Base: ocitest.Direct{Handler: inner}, Times: -1, Do: ocitest.FailBefore, Match: func(*http.Request) bool { return outage.Load() }}
		what := Counted{Kind: "module", Address: "net/vpc/aws", Version: "1.0.0"}
		other := Counted{Kind: "provider", Address: "net/vpc/aws", Version: "2.0.0"}
		wants := func(when string, c *Counter, want int64) {
			t.Helper()
			synctest.Wait()
			must.Equal(t, when+": downloads", c.Total("module", "net/vpc/aws"), want)
		}
		a, b := newTestCounts(t, down), newTestCounts(t, down)
		stopA, stopB := runCounts(t, a), runCounts(t, b)
		wants("at first", a, 0)
		a.Add(what)
		a.Add(what)
		a.Add(other)
		wants("at once", a, 2)
		wants("at the other replica", b, 0)
		time.Sleep(2*countEvery + time.Minute)
		wants("two hours later", b, 2)
		b.Add(what)
		time.Sleep(day) // each writes them under two tags
		a.Add(what)
		b.Add(what)
		wants("a day later", a, 4) // one of them is not written yet
		time.Sleep(2*countEvery + time.Minute)
		wants("a", a, 5)
		wants("b", b, 5)

		outage.Store(true)
		a.Add(what)
		time.Sleep(3 * countEvery)
		outage.Store(false)
		time.Sleep(2 * countRetry)
		wants("after an outage", a, 6)
		stopB()

		b.Add(what)           // between its last hourly write and its end
		b.Finish(t.Context()) // as at the end of the last request
		a.Add(what)           // lost, because a is killed
		c := newTestCounts(t, down)
		stopC := runCounts(t, c) // the restart
		wants("after a restart", c, 7)
		stopC()
		stopA()
		if got := c.Total("provider", "net/vpc/aws"); got != 1 {
			t.Errorf("the provider of that name: %d downloads, want 1", got)
		}
	})
}

// TestCountsWithout: a registry without counts fails no download, and delays no shutdown.
func TestCountsWithout(t *testing.T) {
	for name, do := range map[string]ocitest.Act{
		"refuses": ocitest.Status(http.StatusForbidden, 0),
		"hangs":   ocitest.Hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestCounts(t, &ocitest.Fault{Base: ocitest.Direct{Handler: http.NotFoundHandler()}, Times: -1, Do: do})
				c.Add(Counted{Kind: "module", Address: "net/vpc/aws", Version: "1.0.0"})
				stop := runCounts(t, c)
				synctest.Wait()
				start := time.Now()
				stop()
				if took := time.Since(start); took > countSaveTime { // of the clock in the bubble
					t.Errorf("the end took %v", took)
				}
				must.Equal(t, "downloads", c.Total("module", "net/vpc/aws"), 1)
			})
		})
	}
}

// TestCountsFail has two days to write, the first of which is refused once.
func TestCountsFail(t *testing.T) {
	c := newTestCounts(t, &ocitest.Fault{
		Base: ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})},
		Match: func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/count-")
		},
		Times: 1, Do: ocitest.Status(http.StatusForbidden, -1),
	})
	what := Counted{Kind: "module", Address: "net/vpc/aws", Version: "1.0.0"}
	now := time.Now()
	c.now = func() time.Time { return now }
	tags := []string{CountTag(now, c.id), CountTag(now.Add(day), c.id)}
	c.Add(what)
	now = now.Add(day)
	c.Add(what)
	if err := c.save(t.Context()); !errors.Is(err, oci.ErrDenied) {
		t.Errorf("refused: %v", err)
	}
	for range 2 { // the second call has nothing to do
		if err := c.save(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, tag := range tags {
		got, err := ReadCounts(t.Context(), c.repo, tag)
		if diff := cmp.Diff(got, map[Counted]int64{what: 1}); err != nil || diff != "" {
			t.Errorf("%s: %v, got - want +:\n%s", tag, err, diff)
		}
	}
}

// TestCountsBounded counts more versions than the limit.
func TestCountsBounded(t *testing.T) {
	c := newTestCounts(t, ocitest.Direct{Handler: http.NotFoundHandler()})
	for i := range 3 * maxCounts {
		c.Add(Counted{Kind: "module", Address: fmt.Sprint("net/vpc/aws", i/5), Version: fmt.Sprint(i)})
	}
	var sum int64
	for _, by := range c.unsavedDays() {
		if len(by) > maxCounts {
			t.Errorf("%d entries under one tag", len(by))
		}
		for _, n := range by {
			sum += n
		}
	}
	if len(c.series) > maxCounts || sum != 3*maxCounts {
		t.Errorf("%d series, %d downloads", len(c.series), sum)
	}
}
