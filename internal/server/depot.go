// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/statebackend"
)

// depotRunner runs a depot file on its interval. A replica that does not get the lock waits for the
// next run.
type depotRunner struct {
	env   Env
	file  string       // the depot file
	used  []string     // lock files whose versions retention keeps
	uses  *states.Uses // what states use; nil: the server serves none
	d     *depot.Depot
	store *statebackend.Store // holds the lock
	log   *slog.Logger
	audit *slog.Logger
	force chan struct{} // holds at most one request to run now

	metrics  depotMetrics
	failed   int                // number of versions that failed in this run
	failures []web.DepotFailure // the first of them, at most maxFailures

	mu   sync.Mutex // guards the fields below
	next time.Time  // when the next run begins; zero: a run is under way
	last web.DepotRun
}

// maxFailures bounds the failures of a run that are kept for the depot page.
const maxFailures = 50

// maxReason bounds the text that is kept of an error, in bytes.
const maxReason = 1 << 10

// depotWorkspace is the name of the lock in the queue repository.
const depotWorkspace = "depot"

// depotLease is how long that lock outlives a server that was killed while holding it.
const depotLease = 3 * time.Minute

// newDepotRunner checks the depot file before the server starts.
func newDepotRunner(s *Settings, o Options, env Env) (*depotRunner, error) {
	if _, err := supply.ReadSet(s.Depot); err != nil {
		return nil, &syntax.SettingError{Err: err}
	}
	r, err := o.Client.Repo(o.Layout.QueueRepo())
	if err != nil {
		return nil, err
	}
	audit := o.Audit
	if audit == nil {
		audit = slog.New(slog.DiscardHandler)
	}
	var uses *states.Uses
	if o.States != nil {
		uses = o.States.Uses()
	}
	return &depotRunner{
		env: env, file: s.Depot, used: s.UsedBy, uses: uses, log: env.Log, audit: audit, force: make(chan struct{}, 1),
		metrics: o.Metrics.depots(),
		d:       depot.New(depot.Options{Client: o.Client, Layout: o.Layout}),
		store:   statebackend.New(r, statebackend.Options{LockTTL: depotLease, Tool: env.OCI.UserAgent, Logger: env.Log}),
	}, nil
}

// ServeHTTP requests a run now and does not wait for it.
func (r *depotRunner) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.requestRun()
	w.WriteHeader(http.StatusAccepted)
}

// requestRun requests a run as soon as the current one, if any, has ended.
func (r *depotRunner) requestRun() {
	select {
	case r.force <- struct{}{}:
	default: // a request is pending already
	}
}

// runTimes returns when the next run begins, and how the last one ended.
func (r *depotRunner) runTimes() (next time.Time, last web.DepotRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next, r.last
}

// recordNext records when the next run begins; zero: a run is under way.
func (r *depotRunner) recordNext(next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = next
}

func (r *depotRunner) recordEnd(err error) {
	run := web.DepotRun{Ended: time.Now(), Failures: r.failures, More: r.failed - len(r.failures)}
	if err != nil {
		run.Problem = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = run
}

// runDepots works until ctx ends. An error in the file is reported; each run reads it again.
func (r *depotRunner) runDepots(ctx context.Context) {
	for {
		r.failed = 0
		r.failures = nil
		r.recordNext(time.Time{})
		interval := time.Minute
		set, err := supply.ReadSet(r.file)
		if err == nil {
			interval = set.Interval
			err = r.runOnce(ctx, set)
		}
		locked, _ := errors.AsType[*statebackend.LockedError](err)
		if locked == nil && ctx.Err() == nil {
			r.metrics.countRun(err, r.failed)
			r.recordEnd(err)
		}
		switch {
		case locked != nil:
			r.log.Info("depot: another replica is running it", "who", locked.Held.Who)
		case err != nil && ctx.Err() == nil:
			r.log.Error("depot: run failed", "error", err)
		}
		wait := depotWait(interval, locked != nil)
		r.recordNext(time.Now().Add(wait))
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		case <-r.force:
			t.Stop()
		}
	}
}

// depotWait returns the time until the next run, ±5 %, lest replicas ask at once; while another has
// the lock, at most a quarter of the lease, to notice its end.
func depotWait(interval time.Duration, locked bool) time.Duration {
	if locked {
		interval = min(interval, depotLease/4)
	}
	return interval - interval/20 + rand.N(interval/10+1)
}

// whileHeld returns a context that ends before another replica may take the lock over.
func whileHeld(ctx context.Context, lock *statebackend.Lock) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := time.NewTicker(time.Second)
	go func() {
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if age, ttl := lock.Lease(); ttl > 0 && age >= ttl*4/5 {
				cancel(fmt.Errorf("the lock could not be renewed in the registry for %s: %w", age.Round(time.Second), statebackend.ErrLockLost))
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

func (r *depotRunner) runOnce(ctx context.Context, set *supply.Set) error {
	lock, err := r.store.Lock(ctx, depotWorkspace, depotLockInfo(statebackend.OpDepot, r.env.Version))
	if err != nil {
		return err
	}
	defer func() {
		if err := lock.Unlock(context.WithoutCancel(ctx)); err != nil {
			r.log.Error("depot: releasing the lock", "error", err)
		}
	}()
	ctx, end := whileHeld(ctx, lock)
	defer end()
	s, err := r.env.Syncer(set, r.d, r.used, r.uses)
	if err != nil {
		return err
	}
	p, err := s.Plan(ctx)
	if err == nil {
		for _, d := range p.LeftOut {
			r.log.Warn("depot: skipped", "entry", d.Entry, "version", d.Version, "reason", d.Reason)
		}
		_, err = s.Apply(ctx, p, r.logResult)
	}
	if lost := context.Cause(ctx); lost != nil {
		err = lost
	}
	return err
}

// depotLockInfo describes the holder of the depot lock and the operation.
func depotLockInfo(operation, version string) statebackend.LockInfo {
	info := statebackend.NewLockInfo(operation, version)
	info.Who = "okara serve on " + info.Who[strings.LastIndex(info.Who, "@")+1:]
	return info
}

// logResult logs a change, a failure or drift.
func (r *depotRunner) logResult(res supply.Result) {
	attrs := []any{"action", string(res.Action), "entry", res.Entry, "version", res.Version, "state", string(res.State), "reason", res.Reason}
	switch {
	case res.Error != "":
		if r.failed++; len(r.failures) < maxFailures {
			r.failures = append(r.failures, web.DepotFailure{Entry: res.Entry, Version: res.Version, Reason: text.Clip(res.Error, maxReason)})
		}
		r.log.Error("depot: failed", append(attrs, "error", res.Error)...)
	case res.Action == supply.ActionDrift:
		r.log.Error("depot: drift", attrs...)
	case res.Changes():
		r.log.Info("depot: changed", attrs...)
		for _, w := range res.Published.Warnings {
			r.log.Warn("depot: published with a warning", "entry", res.Entry, "version", res.Version, "warning", w)
		}
	default:
		return
	}
	r.audit.Info("depot", append(attrs, "error", res.Error)...)
}

// depotSync lets an administrator request a run of the depot file.
func (f *Front) depotSync(w http.ResponseWriter, r *http.Request) error {
	grant, err := f.kit.Guard.Allow(r, rights.Server())
	if err != nil {
		return err
	}
	f.o.Depot.ServeHTTP(w, r)
	grant.Record(depotWorkspace, access.Change{Action: "sync", Status: http.StatusAccepted})
	return nil
}
