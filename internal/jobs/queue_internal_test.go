// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

func newTestQueue(t *testing.T, transport http.RoundTripper, handlers map[string]Handler) *Queue {
	t.Helper()
	c := must.Get(oci.New("registry.test", oci.Options{Transport: transport, PlainHTTP: true}))(t)
	r := must.Get(c.Repo("acme/queue"))(t)
	return New(Options{Repo: r, Handlers: handlers})
}

// runQueue runs q until the returned function is called.
func runQueue(t *testing.T, q *Queue) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { q.Run(ctx) })
	return sync.OnceFunc(func() { cancel(); running.Wait() })
}

// tries is a handler that records its calls and fails the first times.
type tries struct {
	mu    sync.Mutex // guards at
	at    []time.Time
	fails int
	err   error
}

func (h *tries) do(context.Context, Job) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = append(h.at, time.Now())
	if len(h.at) <= h.fails {
		return "", h.err
	}
	return "fine", nil
}

// since returns how long after start each try was, in whole seconds.
func (h *tries) since(start time.Time) []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []int
	for _, t := range h.at {
		out = append(out, int(t.Sub(start)/time.Second))
	}
	return out
}

func mustAdd(t *testing.T, q *Queue, id string, j Job, want bool) {
	t.Helper()
	if added, err := q.Add(t.Context(), id, j); err != nil || added != want {
		t.Fatalf("add %s: %t, %v; want %t", id, added, err, want)
	}
}

func mustEnd(t *testing.T, q *Queue, id string) End {
	t.Helper()
	return must.Get(ReadEnd(t.Context(), q.repo, id))(t)
}

// counts returns the last counts that q reported.
func counts(q *Queue) Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts
}

// TestQueueRetries checks the tries of one job.
func TestQueueRetries(t *testing.T) {
	all := []int{0, 10, 30, 70, 150, 310, 630, 1270, 2550, 5110, 8710, 12310, 15910}
	down := errors.New("down")
	tests := []struct {
		name    string
		fails   int
		err     error
		want    []int // seconds
		wantEnd End
	}{
		{name: "at once", want: all[:1], wantEnd: End{Result: "fine"}},
		{name: "third try", fails: 2, err: down, want: all[:3], wantEnd: End{Result: "fine"}},
		{name: "last try", fails: 12, err: down, want: all, wantEnd: End{Result: "fine"}},
		{name: "never", fails: 99, err: down, want: all, wantEnd: End{Failed: true, Result: "down"}},
		{name: "hopeless", fails: 99, err: Permanent(down), want: all[:1], wantEnd: End{Failed: true, Result: "down"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := ocitest.Handler(t, ocitest.Quirks{})
			synctest.Test(t, func(t *testing.T) {
				h := &tries{fails: tt.fails, err: tt.err}
				q := newTestQueue(t, ocitest.Direct{Handler: server}, map[string]Handler{"k": h.do})
				defer runQueue(t, q)()
				start := time.Now()
				mustAdd(t, q, "id", Job{Kind: "k"}, true)
				time.Sleep(6 * time.Hour)
				synctest.Wait()
				must.Match(t, "tries", h.since(start), tt.want)
				end := mustEnd(t, q, "id")
				end.Time = time.Time{}
				must.Equal(t, "ended with", end, tt.wantEnd)
				mustAdd(t, q, "id", Job{Kind: "k"}, false)
				time.Sleep(time.Hour)
				synctest.Wait()
				must.Equal(t, "tries after a replay", len(h.since(start)), len(tt.want))
			})
		})
	}
}

// TestQueueRestart: the next server finishes jobs that wait, ran, or were only recorded.
func TestQueueRestart(t *testing.T) {
	server := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		waits := &tries{fails: 99, err: errors.New("down")}
		cut := func(ctx context.Context, _ Job) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		q := newTestQueue(t, ocitest.Direct{Handler: server}, map[string]Handler{"waits": waits.do, "cut": cut})
		stop := runQueue(t, q)
		start := time.Now()
		mustAdd(t, q, "1", Job{Kind: "waits"}, true)
		mustAdd(t, q, "2", Job{Kind: "cut"}, true)
		time.Sleep(12 * time.Second)
		synctest.Wait()
		stop()
		must.Equal(t, "the end took until, the grace of a running job", time.Since(start), 12*time.Second+grace)
		mustAdd(t, q, "3", Job{Kind: "waits", Data: map[string]string{"a": "b"}}, true)

		var mu sync.Mutex // guards got
		got := map[string]time.Duration{}
		note := func(_ context.Context, j Job) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			got[j.Kind+j.Data["a"]] = time.Since(start)
			return "fine", nil
		}
		q = newTestQueue(t, ocitest.Direct{Handler: server}, map[string]Handler{"waits": note, "cut": note})
		defer runQueue(t, q)()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for _, key := range []string{"waits", "cut", "waitsb"} {
			if at := got[key]; at < takeover || at > takeover+2*lookEvery {
				t.Errorf("job %s was done %v after it was recorded, want %v", key, at, takeover)
			}
		}
		for _, id := range []string{"1", "2", "3"} {
			if end := mustEnd(t, q, id); end.Failed {
				t.Errorf("job %s: %+v", id, end)
			}
		}
	})
}

// TestQueueReplicas: each runs its own, takes over what does not end, forgets the ended.
func TestQueueReplicas(t *testing.T) {
	server := ocitest.Handler(t, ocitest.Quirks{PageSize: 2})
	synctest.Test(t, func(t *testing.T) {
		a, b := &tries{fails: 99, err: errors.New("down")}, &tries{}
		qa := newTestQueue(t, ocitest.Direct{Handler: server}, map[string]Handler{"k": a.do})
		qb := newTestQueue(t, ocitest.Direct{Handler: server}, map[string]Handler{"k": b.do})
		defer runQueue(t, qa)()
		defer runQueue(t, qb)()
		start := time.Now()
		mustAdd(t, qa, "a", Job{Kind: "k"}, true)
		mustAdd(t, qb, "a", Job{Kind: "k"}, false)
		mustAdd(t, qb, "b", Job{Kind: "k"}, true)
		mustAdd(t, qb, "c", Job{Kind: "other"}, true)
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		must.Match(t, "tries of the second replica", b.since(start), []int{0, 300})
		must.Equal(t, "tries of the first replica", len(a.since(start)), 5)
		for _, q := range []*Queue{qa, qb} {
			if got := counts(q); got.Waiting != 0 || got.Running != 0 {
				t.Errorf("%+v, want that nothing waits or runs", got)
			}
		}
		must.Equal(t, "jobs done by the second replica", counts(qb).Done, 2)
		if _, err := ReadEnd(t.Context(), qb.repo, "c"); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("a job that nobody can do: %v, want that it waits", err)
		}
	})
}

// TestQueueFaults lets requests of the queue itself fail.
func TestQueueFaults(t *testing.T) {
	tests := []struct {
		name string
		tag  string // prefix of the tag whose PUT fails
		do   ocitest.Act
		want int // tries
	}{
		{"end is lost", "done-", ocitest.FailBefore, 2},
		{"answer to the end is lost", "done-", ocitest.FailAfter, 1},
		{"answer to the job is lost", "job-", ocitest.FailAfter, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := ocitest.Handler(t, ocitest.Quirks{})
			synctest.Test(t, func(t *testing.T) {
				fault := &ocitest.Fault{Base: ocitest.Direct{Handler: server}, Do: tt.do, Match: func(r *http.Request) bool {
					return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/"+tt.tag)
				}}
				h := &tries{}
				q := newTestQueue(t, fault, map[string]Handler{"k": h.do})
				defer runQueue(t, q)()
				start := time.Now()
				mustAdd(t, q, "id", Job{Kind: "k"}, true)
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := h.since(start); len(got) != tt.want {
					t.Errorf("tries after %v s, want %d", got, tt.want)
				}
				if end := mustEnd(t, q, "id"); end.Failed {
					t.Errorf("ended with %+v", end)
				}
			})
		})
	}
}

// TestQueueFoundEarly: the loop finds a job before its recording returned.
func TestQueueFoundEarly(t *testing.T) {
	server := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		h := &tries{}
		var q *Queue
		q = newTestQueue(t, &ocitest.Fault{
			Base: ocitest.Direct{Handler: server},
			Match: func(r *http.Request) bool {
				return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/job-")
			},
			Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				return resp, errors.Join(err, q.findOpen(r.Context()))
			},
		}, map[string]Handler{"k": h.do})
		defer runQueue(t, q)()
		start := time.Now()
		mustAdd(t, q, "id", Job{Kind: "k"}, true)
		synctest.Wait()
		must.Match(t, "tries", h.since(start), []int{0})
	})
}

// TestQueuePanic: a handler's panic ends its job alone.
func TestQueuePanic(t *testing.T) {
	server := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(t, ocitest.Direct{Handler: server}, map[string]Handler{"k": func(context.Context, Job) (string, error) { panic("oh") }})
		defer runQueue(t, q)()
		mustAdd(t, q, "id", Job{Kind: "k"}, true)
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		if end := mustEnd(t, q, "id"); !end.Failed || !strings.Contains(end.Result, "oh") {
			t.Errorf("ended with %+v", end)
		}
	})
}

// TestQueueLostJob: a lost or damaged job hides no others.
func TestQueueLostJob(t *testing.T) {
	for name, do := range map[string]ocitest.Act{
		"lost":    ocitest.Status(http.StatusNotFound, -1),
		"damaged": ocitest.Respond("application/vnd.oci.image.manifest.v1+json", "{}"),
	} {
		t.Run(name, func(t *testing.T) {
			ids := []string{"one", "two"}
			slices.SortFunc(ids, func(a, b string) int { return strings.Compare(JobTag(a), JobTag(b)) }) // in the order of the registry's list
			inner := ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})}
			q := newTestQueue(t, inner, nil)
			for _, id := range ids {
				mustAdd(t, q, id, Job{Kind: "test"}, true)
			}
			restarted := newTestQueue(t, &ocitest.Fault{
				Base: inner, Times: -1, Do: do,
				Match: func(r *http.Request) bool {
					return strings.HasSuffix(r.URL.Path, "/manifests/"+JobTag(ids[0]))
				},
			}, nil)
			if err := restarted.findOpen(t.Context()); err != nil {
				t.Error(err)
			}
			if !restarted.knowsJob(JobTag(ids[1])) {
				t.Error("the other job is not known")
			}
		})
	}
}

// TestQueueForgets: a job and its end go a month later, nothing else.
func TestQueueForgets(t *testing.T) {
	for name, test := range map[string]struct {
		quirks ocitest.Quirks
		want   []string
	}{
		"deleted": {ocitest.Quirks{}, []string{DoneTag(JobTag("new")), JobTag("new"), JobTag("open")}},
		"kept": {ocitest.Quirks{NoDelete: true}, []string{
			DoneTag(JobTag("new")), DoneTag(JobTag("old")), JobTag("new"), JobTag("old"), JobTag("open"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newTestQueue(t, ocitest.Direct{Handler: ocitest.Handler(t, test.quirks)}, nil)
			now := time.Now()
			for id, age := range map[string]time.Duration{"open": kept, "old": kept, "new": kept - time.Minute} {
				at := now.Add(-age)
				q.now = func() time.Time { return at }
				mustAdd(t, q, id, Job{Kind: "test"}, true)
				if id == "open" {
					continue
				}
				must.Succeed(t, EndJob(t.Context(), q.repo, id, End{Result: "done", Time: at}))
			}
			q.now = func() time.Time { return now }
			for range 2 {
				must.Succeed(t, q.findOpen(t.Context()))
			}
			list := must.Get(q.repo.Snapshot(t.Context()))(t)
			slices.Sort(test.want)
			must.Match(t, "tags", slices.Sorted(slices.Values(list.Tags)), test.want)
		})
	}
}

// TestQueueLastFailure: the last failure stays, after a restart too, in one line.
func TestQueueLastFailure(t *testing.T) {
	server := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		long := Permanent(errors.New("no such tag " + strings.Repeat("x", 2<<10)))
		handlers := map[string]Handler{
			"bad":  func(context.Context, Job) (string, error) { return "", long },
			"good": func(context.Context, Job) (string, error) { return "fine", nil },
		}
		q := newTestQueue(t, ocitest.Direct{Handler: server}, handlers)
		stop := runQueue(t, q)
		mustAdd(t, q, "1", Job{Kind: "good"}, true)
		synctest.Wait()
		if last := counts(q).Last; !last.Time.IsZero() {
			t.Errorf("failed is %+v", last)
		}
		mustAdd(t, q, "2", Job{Kind: "bad"}, true)
		synctest.Wait()
		failed := counts(q).Last
		if failed.Time.IsZero() || !strings.HasPrefix(failed.Result, "no such tag") || len(failed.Result) > 1<<10 {
			t.Errorf("failed is %d bytes: %+v", len(failed.Result), failed)
		}
		stop()
		q = newTestQueue(t, ocitest.Direct{Handler: server}, handlers)
		defer runQueue(t, q)()
		synctest.Wait()
		if last := counts(q).Last; !last.Time.Equal(failed.Time) || last.Result != failed.Result {
			t.Errorf("after a restart failed is %+v, want %+v", last, failed)
		}
	})
}
