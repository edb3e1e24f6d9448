// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

const (
	parkHost  = "OKARA_TEST_PARK_HOST"  // of the registry, in a process that a job crashes
	parkAfter = "OKARA_TEST_PARK_AFTER" // the start of the first process
)

// TestQueueParks has a job crash three processes, each started six minutes
// after the previous one. The fourth parks it and continues.
//
// Shows: mistakes 2
func TestQueueParks(t *testing.T) {
	if host := os.Getenv(parkHost); host != "" {
		endingProcess(t, host)
		return
	}
	host := ocitest.New(t, ocitest.Quirks{})
	exe := must.Get(os.Executable())(t)
	for n := range 4 {
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestQueueParks$")
		cmd.Env = append(os.Environ(), parkHost+"="+host, parkAfter+"="+(time.Duration(n)*6*time.Minute).String())
		out, err := cmd.CombinedOutput()
		code := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code, err = exit.ExitCode(), nil
		}
		if want := map[bool]int{true: 7, false: 0}[n < 3]; err != nil || code != want {
			t.Fatalf("process %d: exit status %d, %v, want %d\n%s", n+1, code, err, want, out)
		}
		if parked := strings.Contains(string(out), "queue: job parked"); parked != (n == 3) {
			t.Errorf("process %d: parked: %t\n%s", n+1, parked, out)
		}
	}
}

// endingProcess is a server whose job ends it as a stack overflow would.
func endingProcess(t *testing.T, host string) {
	after := must.Get(time.ParseDuration(os.Getenv(parkAfter)))(t)
	c := must.Get(oci.New(host, oci.Options{PlainHTTP: true}))(t)
	r := must.Get(c.Repo("acme/queue"))(t)
	reported := Counts{}
	q := New(Options{
		Repo: r, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Now: func() time.Time { return time.Now().Add(after) },
		Handlers: map[string]Handler{"ends": func(context.Context, Job) (string, error) {
			os.Exit(7)
			return "", nil
		}},
		Counted: func(c Counts) { reported = c },
	})
	mustAdd(t, q, "id", Job{Kind: "ends"}, after == 0)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for err := oci.ErrNotFound; ctx.Err() == nil && err != nil; {
			_, err = ReadEnd(ctx, q.repo, "id")
		}
	}()
	q.Run(ctx)
	if end := mustEnd(t, q, "id"); !end.Failed || !end.Parked {
		t.Errorf("ended with %+v", end)
	}
	if reported.Parked != 1 {
		t.Errorf("told %+v, want one parked job", reported)
	}
}

// TestQueueAgain requests a parked job: the new one has its own tries.
func TestQueueAgain(t *testing.T) {
	server := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		h := &tries{}
		q := newTestQueue(t, ocitest.Direct{Handler: server}, map[string]Handler{"k": h.do})
		mustAdd(t, q, "id", Job{Kind: "k"}, true)
		for n := range maxLosses {
			if begun, err := BeginTry(t.Context(), q.repo, "id", n+1, time.Now()); err != nil || !begun {
				t.Fatal(begun, err)
			}
		}
		time.Sleep(takeover)
		defer runQueue(t, q)()
		synctest.Wait()
		if end := mustEnd(t, q, "id"); !end.Parked || len(h.since(time.Now())) > 0 {
			t.Fatalf("ended with %+v, want that it is parked", end)
		}
		id, added, err := q.AddAgain(t.Context(), "id", Job{Kind: "k"})
		if err != nil || !added {
			t.Fatal(id, added, err)
		}
		synctest.Wait()
		if end := mustEnd(t, q, id); end.Failed {
			t.Errorf("ended with %+v", end)
		}
		if again, added, err := q.AddAgain(t.Context(), "id", Job{Kind: "k"}); added || err != nil || again != id {
			t.Errorf("a third delivery: %s, %t, %v; want that %s is done", again, added, err, id)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(t, ocitest.Direct{Handler: server}, nil)
		last := ""
		for range maxAgain + 3 {
			id, added, err := q.AddAgain(t.Context(), "again", Job{Kind: "k"})
			must.Succeed(t, err)
			if added {
				last = id
				must.Succeed(t, EndJob(t.Context(), q.repo, id, End{Failed: true, Parked: true, Result: "crashed", Time: time.Now()}))
			} else if said := must.Get(q.Outcome(t.Context(), id))(t); id != last || said != "failed: crashed" {
				t.Errorf("after the last repetition %s: %s, %s", last, id, said)
			}
		}
	})
}

// TestQueueTriesThatComeBack: failing tries and proper shutdowns park nothing; their tags go with
// the job.
func TestQueueTriesThatComeBack(t *testing.T) {
	server := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		h := &tries{fails: 8, err: errors.New("down")}
		start := time.Now()
		for n := range 4 {
			q := newTestQueue(t, ocitest.Direct{Handler: server}, map[string]Handler{"k": h.do})
			if n == 0 {
				mustAdd(t, q, "id", Job{Kind: "k"}, true)
			}
			stop := runQueue(t, q)
			time.Sleep(6 * time.Minute)
			synctest.Wait()
			stop()
		}
		q := newTestQueue(t, ocitest.Direct{Handler: server}, map[string]Handler{"k": h.do})
		defer runQueue(t, q)()
		time.Sleep(time.Hour)
		synctest.Wait()
		if end := mustEnd(t, q, "id"); end.Failed {
			t.Errorf("ended with %+v after tries at %v", end, h.since(start))
		}
		time.Sleep(kept + time.Hour)
		synctest.Wait()
		list, err := q.repo.Snapshot(t.Context())
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list.Tags, []string(nil)); diff != "" && len(list.Tags) > 0 {
			t.Errorf("left in the queue: %s", diff)
		}
	})
}
