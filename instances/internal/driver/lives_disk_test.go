// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/instances/internal/driver"
	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// sleeper is a machine that can be suspended: its clocks go on, but it does nothing.
type sleeper struct {
	base  http.RoundTripper // to a registry on that machine
	begun time.Time
	mu    sync.Mutex // guards slept
	slept time.Duration
}

func (s *sleeper) sleep(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slept += d
}

func (s *sleeper) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.slept)
}

func (s *sleeper) uptime() time.Duration { return s.now().Sub(s.begun) }

func (s *sleeper) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.base.RoundTrip(r)
	if err == nil {
		resp.Header.Set("Date", s.now().UTC().Format(http.TimeFormat))
	}
	return resp, err
}

// site is two servers over a registry on disk.
type site struct {
	*world
	machine  *sleeper
	servers  []*siteServer
	executor func(*oci.Client) run.MachineExecutor // of a server with that client; nil: the program
	mu       sync.Mutex                            // guards commits
	commits  []time.Duration
}

type siteServer struct {
	*ledger.Ledger
	requests *ocitest.Count
}

func newSite(t testing.TB, registry http.Handler) *site {
	t.Helper()
	s := &site{world: newWorld(t, registry, time.Millisecond)}
	s.machine = &sleeper{base: s.counted.Base, begun: time.Now()}
	s.options.Concurrency, s.options.Observe = 50, 5*time.Millisecond
	return s
}

// serve starts servers one after the other until stop.
func (s *site) serve(t testing.TB, ways ...http.RoundTripper) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i, way := range ways {
		if i > 0 {
			time.Sleep(time.Second) // the first server leads, if it can
		}
		server, reconciler := s.start(t, way)
		s.servers = append(s.servers, server)
		for _, loop := range []func(context.Context) error{server.Run, reconciler.Run} {
			wg.Go(func() {
				if err := loop(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
	return sync.OnceFunc(func() { cancel(); wg.Wait() })
}

// newSiteOnDisk starts two servers over the built-in registry in a folder.
func newSiteOnDisk(t testing.TB) *site {
	t.Helper()
	registry := must.Get(embedded.New(t.TempDir(), embedded.Options{}))(t)
	s := newSite(t, registry)
	stop := s.serve(t, s.machine, s.machine)
	t.Cleanup(func() {
		stop()
		if err := registry.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// start makes a server that reaches the registry through a transport.
func (s *site) start(t testing.TB, way http.RoundTripper) (*siteServer, *driver.Driver) {
	t.Helper()
	server := &siteServer{requests: &ocitest.Count{Base: way}}
	client := must.Get(oci.New("registry.test", oci.Options{Transport: server.requests, PlainHTTP: true}))(t)
	var reconciler *driver.Driver
	server.Ledger = must.Get(ledger.New(ledger.Options{
		Repo:    func(number int) (*oci.Repo, error) { return client.Repo(s.layout.Ledger(number)) },
		Machine: s.world.machine, BuiltIn: true, Folder: t.TempDir(), Now: s.machine.now, Uptime: s.machine.uptime,
		Effects: func(ctx context.Context, effects []lifecycle.Effect) { reconciler.Effects(ctx, effects) },
		Committed: func(took time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.commits = append(s.commits, took)
		},
	}))(t)
	o := s.options
	o.Store, o.Changed, o.Client = server.Ledger, server.Changed, client
	if s.executor != nil {
		o.Executor = s.executor(client)
	}
	reconciler = driver.New(o)
	return server, reconciler
}

// do commits a command at either server, like a client with its key.
func (s *site) do(ctx context.Context, c lifecycle.Command) (lifecycle.Answer, error) {
	for ctx.Err() == nil {
		for _, server := range s.servers {
			if a, err := server.Do(ctx, c); !errors.Is(err, lifecycle.ErrNoLeader) {
				return a, err
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return lifecycle.Answer{}, ctx.Err()
}

// each sends a command for each of n users, fifty at once.
func (s *site) each(t testing.TB, n int, event func(i int, owner template.Owner) lifecycle.Event) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(50)
	for i := range n {
		owner := template.Owner{Kind: template.OwnerUser, Issuer: "https://idp", ID: fmt.Sprint("person ", i)}
		e := event(i, owner)
		group.Go(func() error {
			c := s.command(e, lifecycle.Actor{Issuer: owner.Issuer, Subject: owner.ID})
			c.Key, c.Caller = fmt.Sprintf("%T %d", e, i), owner.ID
			_, err := s.do(t.Context(), c)
			return err
		})
	}
	must.Succeed(t, group.Wait())
}

// until waits until n instances are in a phase on each server.
func (s *site) until(t testing.TB, phase lifecycle.Phase, n int) *lifecycle.Document {
	t.Helper()
	var v lifecycle.View
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		there := 0
		for _, server := range s.servers {
			var err error
			if v, err = server.View(t.Context()); err == nil && count(v.Document, phase) == n {
				there++
			}
		}
		if there == len(s.servers) {
			return v.Document
		}
	}
	t.Fatalf("%d instances are %s on each server, want %d; refused: %v", count(v.Document, phase), phase, n, s.servers[0].Status().Refused)
	return nil
}

func count(d *lifecycle.Document, phase lifecycle.Phase) (n int) {
	if d == nil {
		return 0
	}
	for _, rec := range d.Records {
		if rec.Phase == phase {
			n++
		}
	}
	return n
}

// leader waits until one of the servers leads, and returns leader and follower.
func (s *site) leader(t testing.TB) (leads, follows *siteServer) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for i, server := range s.servers {
			if _, here := server.Leader(t.Context()); here {
				return server, s.servers[1-i]
			}
		}
	}
	t.Fatal("nobody leads: ", s.servers[0].Status().Refused)
	return nil, nil
}

// live takes n instances to their end, after a day of sleep: no server leads, all have expired, and
// the next leader destroys them.
func (s *site) live(t testing.TB, n int) {
	t.Helper()
	tpl := testTemplate("sandbox/vpc")
	s.shelf.put(template.Entry{Template: tpl, Digest: digestOf(tpl), Source: s.source})
	s.leader(t)
	s.each(t, n, func(_ int, owner template.Owner) lifecycle.Event {
		return lifecycle.Create{Template: tpl, Digest: digestOf(tpl), Source: s.source, Owner: owner}
	})
	ids := map[string]string{}
	for id, rec := range s.until(t, lifecycle.Ready, n).Records {
		ids[rec.Owner.ID] = id
	}
	s.each(t, n, func(_ int, owner template.Owner) lifecycle.Event { return lifecycle.Extend{ID: ids[owner.ID]} })
	s.machine.sleep(24 * time.Hour)
	for id, rec := range s.until(t, lifecycle.Destroyed, n).Records {
		kinds := s.program.kinds(id)
		if rec.Extends != 1 || !slices.Equal(kinds, []lifecycle.RunKind{lifecycle.RunApply, lifecycle.RunDestroy}) {
			t.Errorf("life of %s: extended %d times, runs %v", id, rec.Extends, kinds)
		}
	}
	if left := s.program.left(); len(left) > 0 {
		t.Errorf("resources are left: %v", left)
	}
}

// BenchmarkLivesOnDisk takes 500 instances from creation to their end over the real ledger:
// two servers, of which one leads, over the built-in registry in a folder. It prints the
// duration and number of commits, how often the follower polls, how long a change of leader
// takes, and the memory in use by both servers and the registry together.
//
// Shows: platform-figures 8
func BenchmarkLivesOnDisk(b *testing.B) {
	if testing.Short() {
		b.Skip("TestLivesOnDisk is the same with less")
	}
	for b.Loop() {
		s := newSiteOnDisk(b)
		_, follows := s.leader(b)
		begun, before := time.Now(), follows.requests.Total()
		time.Sleep(10 * time.Second)
		b.ReportMetric(float64(follows.requests.Total()-before)/time.Since(begun).Seconds(), "follower-requests/s")
		s.live(b, 500)
		s.mu.Lock()
		slices.Sort(s.commits)
		commits := s.commits
		s.mu.Unlock()
		b.ReportMetric(float64(len(commits)), "commits")
		b.ReportMetric(float64(commits[len(commits)/2].Milliseconds()), "ms-commit-p50")
		b.ReportMetric(float64(commits[len(commits)*99/100].Milliseconds()), "ms-commit-p99")
		s.machine.sleep(time.Hour)
		begun = time.Now()
		for { // until the suspension is noticed
			if _, here := s.servers[0].Leader(b.Context()); !here {
				if _, here := s.servers[1].Leader(b.Context()); !here {
					break
				}
			}
			time.Sleep(time.Millisecond)
		}
		s.leader(b)
		b.ReportMetric(time.Since(begun).Seconds(), "s-leader-change")
		var mem runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&mem)
		b.ReportMetric(float64(mem.HeapAlloc)/(1<<20), "MB")
		if mem.HeapAlloc > 100<<20 {
			b.Errorf("%d MB are kept, want less than 100", mem.HeapAlloc>>20)
		}
	}
}
