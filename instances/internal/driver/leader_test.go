// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestLeaderDiesBeforeStart lets a leader die between the commit of an attempt and its
// start. The next leader finds that it was not started, and starts another attempt.
//
// Shows: crash K3 | the leader between commit and start of the run
func TestLeaderDiesBeforeStart(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		w.lose = func(e lifecycle.Effect) bool { return e.Kind == lifecycle.StartRun }
		stop := w.run(t)
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		synctest.Wait()
		stop()
		if kinds := w.program.kinds(rec.ID); len(kinds) > 0 || w.record(rec.ID).Run.Attempt != 1 {
			t.Fatalf("started %v, %+v: want an attempt that is committed and nothing more", kinds, w.record(rec.ID).Run)
		}
		w.mu.Lock()
		w.lose = nil
		w.mu.Unlock()
		defer w.run(t)()
		ready := w.until(t, rec.ID, 5*time.Minute, lifecycle.Ready)
		if kinds := w.program.kinds(rec.ID); !slices.Equal(kinds, []lifecycle.RunKind{lifecycle.RunApply}) {
			t.Errorf("attempts that were started: %v, want one", kinds)
		}
		if spec := w.program.specs(rec.ID)[0]; spec.Ref.Attempt != 2 || spec.Took == "" {
			t.Errorf("attempt %d takes over %q, want the second one, and the lock of the first", spec.Ref.Attempt, spec.Took)
		}
		must.Equal(t, "failures", ready.Runs[0].Failures, 1)
	})
}

// TestLeaderChange changes leaders while a run goes on: it is started once, and the leader
// of that time sees its end. A replica that does not lead starts nothing.
//
// Shows: crash K4
// Shows: instances 4
func TestLeaderChange(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, 10*time.Minute)
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		for range 3 {
			stop := w.run(t)
			time.Sleep(time.Minute)
			stop()
			time.Sleep(time.Minute)
		}
		if w.record(rec.ID).Phase != lifecycle.Provisioning {
			t.Fatalf("phase %s while the run goes on", w.record(rec.ID).Phase)
		}
		time.Sleep(time.Hour) // without a leader nothing happens
		if w.record(rec.ID).Phase != lifecycle.Provisioning {
			t.Fatalf("phase %s without a leader", w.record(rec.ID).Phase)
		}
		defer w.run(t)()
		w.until(t, rec.ID, time.Minute, lifecycle.Ready)
		if kinds := w.program.kinds(rec.ID); len(kinds) != 1 {
			t.Errorf("attempts that were started: %v, want one", kinds)
		}
	})
}

// TestLeaderStepsDown shows that a leader stops its retries when its leadership ends.
//
// Shows: crash K10
func TestLeaderStepsDown(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		tries := 0
		w.program.starts = func(run.Attempt) error { tries++; return fmt.Errorf("starting: %w", oci.ErrUnavailable) }
		stop := w.run(t)
		w.launch(t, testTemplate("sandbox/vpc"), "anna")
		time.Sleep(time.Minute)
		stop()
		w.program.mu.Lock()
		before := tries
		w.program.mu.Unlock()
		time.Sleep(time.Hour)
		if tries != before || before < 3 {
			t.Errorf("%d tries as a leader, and then %d more", before, tries-before)
		}
	})
}

// TestPassingTrouble has a run that cannot be started for an hour and then fails twice: the
// instance never becomes failed.
//
// Shows: platform-mistakes 9 | a temporary error is reported as "failed"
func TestPassingTrouble(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		well := time.Now().Add(time.Hour)
		w.program.starts = func(run.Attempt) error {
			if time.Now().Before(well) {
				return fmt.Errorf("starting: %w", oci.ErrUnavailable)
			}
			return nil
		}
		fails := 2
		w.program.result = func(run.Attempt) *lifecycle.Result {
			if fails == 0 {
				return nil
			}
			fails--
			return &lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "passing", Resources: 0}
		}
		defer w.run(t)()
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		phases := map[lifecycle.Phase]bool{}
		reasons := map[string]bool{}
		for end := time.Now().Add(2 * time.Hour); time.Now().Before(end); {
			changed := w.Changed()
			now := w.record(rec.ID)
			phases[now.Phase] = true
			for _, c := range now.Conditions {
				if c.Type == lifecycle.Waiting {
					reasons[c.Reason] = true
				}
			}
			select {
			case <-changed:
			case <-time.After(time.Until(end)):
			}
		}
		must.Match(t, "phases", phases, map[lifecycle.Phase]bool{lifecycle.Provisioning: true, lifecycle.Ready: true})
		if !reasons[lifecycle.WaitRetry] {
			t.Errorf("reasons to wait: %v, want %s", reasons, lifecycle.WaitRetry)
		}
	})
}

// TestCannotStart: a run that can never start fails with the reason.
func TestCannotStart(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		w.source.Archive = "sha256:" + strings.Repeat("0", 64) // this archive does not exist
		defer w.run(t)()
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		failed := w.until(t, rec.ID, time.Hour, lifecycle.Failed)
		if !strings.Contains(failed.Runs[0].Error, "module net/vpc/aws 1.4.0") {
			t.Errorf("error %q, want that the module is not there", failed.Runs[0].Error)
		}
		if kinds := w.program.kinds(rec.ID); len(kinds) > 0 {
			t.Errorf("started %v", kinds)
		}
		w.until(t, rec.ID, 5*time.Hour, lifecycle.Destroyed)
	})
}

// TestTemplateAndModuleGone deletes both; the instance is still destroyed when it expires.
//
// Shows: crash K12 | version, template or origin are gone
// Shows: platform-mistakes 2 | a template is deleted, and its instances never end
// Shows: instances 2
func TestTemplateAndModuleGone(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		w.program.result = func(s run.Attempt) *lifecycle.Result {
			if s.Ref.Kind != lifecycle.RunApply {
				return nil
			}
			return &lifecycle.Result{Outcome: lifecycle.Done, Resources: 1, State: true}
		}
		stop := w.run(t)
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		ready := w.until(t, rec.ID, time.Hour, lifecycle.Ready)
		stop()
		w.shelf.remove("sandbox/vpc")
		w.layout.Modules = "{prefix}/gone/{namespace}/{name}/{system}" // an empty path
		w.options.Layout = w.layout
		defer w.run(t)()
		w.until(t, rec.ID, 9*time.Hour, lifecycle.Destroyed)
		last := w.program.specs(rec.ID)[1]
		if last.Ref.Kind != lifecycle.RunDestroy || last.Source.Archive != ready.Source.Archive {
			t.Errorf("destroyed with %+v", last)
		}
	})
}

// TestPoolKeepsWhatIsClaimed: without template unclaimed instances go, once that is certain.
//
// Shows: platform 5
// Shows: platform-mistakes 11 | deleting the template of a pool deletes claimed members
func TestPoolKeepsWhatIsClaimed(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		tpl := testTemplate("sandbox/vpc")
		tpl.Pool = &template.PoolSize{Size: 3, Max: 10, WhenEmpty: "create"}
		w.shelf.put(template.Entry{Template: tpl, Digest: digestOf(tpl), Source: w.source})
		defer w.run(t)()
		time.Sleep(5 * time.Minute)
		if got := w.phases(); got[lifecycle.Available] != 3 || len(got) != 1 {
			t.Fatalf("%v, want three available", got)
		}
		mine := w.launch(t, tpl, "anna")
		if mine.Phase != lifecycle.Ready || len(w.program.kinds(mine.ID)) != 1 {
			t.Fatalf("claimed %+v after runs %v", mine, w.program.kinds(mine.ID))
		}
		time.Sleep(5 * time.Minute)
		if got := w.phases(); got[lifecycle.Available] != 3 || got[lifecycle.Ready] != 1 {
			t.Fatalf("%v, want that the pool was refilled", got)
		}

		w.shelf.mu.Lock()
		w.shelf.unread = true
		w.shelf.mu.Unlock()
		w.shelf.remove(tpl.Name)
		time.Sleep(time.Hour)
		if got := w.phases(); got[lifecycle.Available] != 3 {
			t.Fatalf("%v while a template cannot be read, want three available", got)
		}
		w.shelf.mu.Lock()
		w.shelf.unread = false
		w.shelf.mu.Unlock()
		time.Sleep(time.Hour)
		if got := w.phases(); got[lifecycle.Available] != 0 || got[lifecycle.Destroyed] != 3 || got[lifecycle.Ready] != 1 {
			t.Fatalf("%v, want that the pool is drained and the claimed one lives", got)
		}
		w.until(t, mine.ID, 9*time.Hour, lifecycle.Destroyed)
		if left := w.program.left(); len(left) > 0 {
			t.Errorf("resources are left: %v", left)
		}
	})
}

// TestRecordStaysUntilEmpty has resources that cannot be destroyed: the record exists, and
// lists them, until they are gone.
//
// Shows: platform-mistakes 7 | the record is deleted before the resources
// Shows: platform-mistakes 13 | resources that cannot be deleted
// Shows: instances 1
func TestRecordStaysUntilEmpty(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		stuck := true
		w.program.result = func(s run.Attempt) *lifecycle.Result {
			if s.Ref.Kind != lifecycle.RunDestroy || !stuck {
				return nil
			}
			return &lifecycle.Result{Outcome: lifecycle.Done, Resources: 1, State: true} // it reports done, but a resource is left
		}
		defer w.run(t)()
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		w.until(t, rec.ID, time.Hour, lifecycle.Ready)
		w.until(t, rec.ID, 24*time.Hour, lifecycle.DestroyFailed)
		must.Equal(t, "attempts", len(w.program.kinds(rec.ID)), 6)
		time.Sleep(20 * 24 * time.Hour)
		if now := w.record(rec.ID); now == nil || now.Phase != lifecycle.DestroyFailed && now.Phase != lifecycle.Destroying {
			t.Fatalf("after twenty days: %+v", now)
		}
		w.program.mu.Lock()
		stuck = false
		w.program.mu.Unlock()
		w.until(t, rec.ID, 25*time.Hour, lifecycle.Destroyed)
	})
}

// TestStateLocked reports the holder of the lock that an attempt waits for.
//
// Shows: crash K14 | a user holds the lock
// Shows: platform-mistakes 16
func TestStateLocked(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		free := time.Now().Add(30 * time.Minute)
		const holder = "locked by carla@laptop; okara state unlock …"
		w.program.looks = func(run.Attempt) (run.Status, error) {
			if time.Now().Before(free) {
				return run.Status{State: run.Running, Waiting: lifecycle.WaitStateLocked, Message: holder}, nil
			}
			return run.Status{}, nil
		}
		defer w.run(t)()
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		time.Sleep(10 * time.Minute)
		want := lifecycle.Condition{Type: lifecycle.Waiting, Reason: lifecycle.WaitStateLocked, Message: holder}
		if got := w.record(rec.ID).Conditions; !slices.Contains(got, want) {
			t.Errorf("conditions %+v, want %+v", got, want)
		}
		if n := w.count(); n > 5 {
			t.Errorf("%d commits while it waits", n)
		}
		if ready := w.until(t, rec.ID, time.Hour, lifecycle.Ready); len(ready.Conditions) > 0 {
			t.Errorf("conditions %+v at the end", ready.Conditions)
		}
	})
}

// TestPassIsOneCommit has forty instances that expire at once: one commit records it, and
// starts as many runs as fit.
//
// Shows: platform-figures 2 | everything that is due at the same time is one commit
func TestPassIsOneCommit(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Second)
		w.options.Concurrency = 100
		tpl := testTemplate("sandbox/vpc")
		stop := w.run(t)
		var ids []string
		for n := range 40 {
			ids = append(ids, w.launch(t, tpl, fmt.Sprint("person ", n)).ID)
		}
		var last time.Time
		for _, id := range ids {
			if end := w.until(t, id, time.Hour, lifecycle.Ready).ExpiresAt; end.After(last) {
				last = end
			}
		}
		stop()
		time.Sleep(time.Until(last) + time.Second)
		synctest.Wait()
		w.lose = func(lifecycle.Effect) bool { return true }
		w.reconciles = nil
		defer w.run(t)()
		synctest.Wait()
		if got := w.phases(); got[lifecycle.Destroying] != 40 {
			t.Fatalf("%v, want forty that are destroyed", got)
		}
		must.Equal(t, "commits", len(w.reconciles), 1)
	})
}

// TestIdle shows that a thousand instances with nothing due cost neither a request nor a
// commit.
//
// Shows: platform-figures 1
func TestIdle(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Second)
		w.options.Concurrency = 2000
		tpl := testTemplate("sandbox/vpc")
		tpl.TTL.Default = 48 * time.Hour
		w.bulk(t, tpl, 1000)
		defer w.run(t)()
		time.Sleep(time.Minute)
		requests, commits := w.counted.Total(), w.count()
		time.Sleep(time.Hour)
		if n := w.counted.Total() - requests; n > 0 {
			t.Errorf("%d requests in an idle hour", n)
		}
		if n := w.count() - commits; n > 0 {
			t.Errorf("%d commits in an idle hour", n)
		}
	})
}

// TestRequestsOfARun counts the registry requests of one life, apart from those of the
// ledger and the tool, and prints how late the end was seen.
//
// Shows: platform-figures 5 | 2 commits until tofu starts; requests of a life; the delay until its
// end is noticed
func TestRequestsOfARun(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, 5*time.Second)
		defer w.run(t)()
		before := w.counted.Total()
		var commits []int // at each start
		w.program.starts = func(run.Attempt) error { commits = append(commits, w.count()); return nil }
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		ready := w.until(t, rec.ID, time.Hour, lifecycle.Ready)
		created := w.counted.Total() - before
		must.Equal(t, "commits until the run was started", commits[0], 2)
		gone := w.until(t, rec.ID, 9*time.Hour, lifecycle.Destroyed)
		t.Logf("requests: %d to create, %d to destroy; the end was seen after %s", created, w.counted.Total()-before-created,
			gone.Runs[0].QueuedAt.Sub(ready.ExpiresAt))
		if created > 9 { // of 30; the others are made by the run itself
			t.Errorf("%d requests to create, want at most 9", created)
		}
		if lag := gone.Runs[0].StartedAt.Sub(ready.ExpiresAt); lag > 5*time.Second {
			t.Errorf("the run that destroys began %s after the end", lag)
		}
	})
}
