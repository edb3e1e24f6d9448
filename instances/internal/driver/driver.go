// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const (
	defaultConcurrency = 4
	// observeEvery is how often a running attempt is looked at.
	observeEvery = 2 * time.Second
	// lookEvery is how often templates are compared with the instances, which makes no request.
	lookEvery = 30 * time.Second
	// againAfter is the pause after a reconcile that could not be committed.
	againAfter = 5 * time.Second
	// effectsAtOnce bounds how many effects run at once, apart from attempts.
	effectsAtOnce = 8
)

// Options are what a [Driver] needs. Logger, Metrics and Queue may be nil;
// all other fields without a stated default are required.
type Options struct {
	Store     lifecycle.Store
	Machine   *lifecycle.Machine // that of the Store
	Changed   func() <-chan struct{}
	Executor  run.MachineExecutor // the one that templates call local
	Templates lifecycle.Templates
	Client    *oci.Client
	Layout    addr.Layout
	Sealer    artifact.Sealer // nil: there are no state keys
	Ledger    func() string   // repository of the current ledger, without host
	// RunID returns the ID of a workspace's run in tfe.v2; nil: there are no such runs.
	RunID func(organization, workspace, record string, n int) string

	Concurrency int               // runs at once; 0: 4
	Limits      run.Limits        // of each attempt; its Timeout is the template's
	Config      map[string]string // free values for templates
	Queue       *jobs.Queue       // of notices; nil: no notices are sent
	Metrics     *Metrics
	Logger      *slog.Logger
	Audit       *slog.Logger // what the server does by itself; nil: it is not logged
	// Observe is how often running attempts are looked at; 0: 2 s.
	Observe time.Duration
}

// Driver drives the machine on the leader: it starts what commits decide, watches attempts, and
// applies what time and templates make due. What one leader leaves unfinished the next one finds.
type Driver struct {
	o Options

	mu       sync.Mutex // guards the fields below
	attempts map[lifecycle.Ref]*attempt
	// doing are the effects under way, without Again, with a channel closed when their term ends.
	doing map[lifecycle.Effect]<-chan struct{}

	concurrency chan struct{}       // for effects beside attempts
	audited     *lifecycle.Document // for auditChanges, which only Run calls
	wg          sync.WaitGroup
}

// New returns a driver that does nothing until [Driver.Run].
func New(o Options) *Driver {
	if o.Concurrency <= 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.Observe <= 0 {
		o.Observe = observeEvery
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Driver{
		o: o, attempts: map[lifecycle.Ref]*attempt{}, doing: map[lifecycle.Effect]<-chan struct{}{},
		concurrency: make(chan struct{}, effectsAtOnce),
	}
}

// Effects starts what a commit decided, and returns. All of it stops when the term's ctx ends.
func (r *Driver) Effects(ctx context.Context, effects []lifecycle.Effect) {
	for _, e := range effects {
		if ctx.Err() != nil {
			return
		}
		switch e.Kind {
		case lifecycle.StartRun:
			r.beginAttempt(ctx, e.Ref, e.Again)
		case lifecycle.CancelRun:
			r.beginAttempt(ctx, e.Ref, true).cancel()
		case lifecycle.KillRun:
			r.beginAttempt(ctx, e.Ref, true).kill()
		default:
			r.repeatEffect(ctx, e)
		}
	}
}

// repeatEffect does an effect other than an attempt until it succeeds, unless it is under way.
func (r *Driver) repeatEffect(ctx context.Context, e lifecycle.Effect) {
	e.Again = false
	r.mu.Lock()
	defer r.mu.Unlock()
	over := ctx.Done()
	if known, ok := r.doing[e]; ok && !isClosed(known) {
		return
	}
	r.doing[e] = over
	r.wg.Go(func() {
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.doing[e] == over {
				delete(r.doing, e)
			}
		}()
		for wait := time.Second; ; wait = min(2*wait, time.Minute) {
			err := r.doEffect(ctx, e)
			if err == nil || ctx.Err() != nil {
				return
			}
			r.o.Logger.WarnContext(ctx, "instances: retrying an action", "effect", e.Kind, "instance", e.Ref.ID, "error", err)
			if text.Wait(ctx, wait) != nil {
				return
			}
		}
	})
}

func (r *Driver) doEffect(ctx context.Context, e lifecycle.Effect) error {
	select {
	case r.concurrency <- struct{}{}:
		defer func() { <-r.concurrency }()
	case <-ctx.Done():
		return ctx.Err()
	}
	switch e.Kind {
	case lifecycle.Notify:
		return r.queueNotice(ctx, e)
	case lifecycle.Archive:
		return r.archiveRecord(ctx, e.Ref.ID)
	case lifecycle.Remove:
		return r.removeTags(ctx, e.Ref.ID)
	}
	return nil
}

// Run commits pending changes on the leader until ctx ends, then waits for the effects.
func (r *Driver) Run(ctx context.Context) error {
	defer r.wg.Wait()
	for ctx.Err() == nil {
		changed := r.o.Changed()
		wait := r.reconcile(ctx)
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-t.C:
		}
		t.Stop()
	}
	return nil
}

// reconcile commits what is pending, and returns how long to wait if nothing changes.
func (r *Driver) reconcile(ctx context.Context) time.Duration {
	view, err := r.o.Store.View(ctx)
	if err != nil {
		r.audited = nil
		return lookEvery
	}
	r.tidyHost(ctx, view)
	if !view.Leading {
		r.audited = nil
		return lookEvery
	}
	r.auditChanges(ctx, view.Document)
	events, next := view.Document.Pending(r.o.Templates, r.o.Concurrency, view.AsOf)
	wait := lookEvery
	if !next.IsZero() {
		wait = min(wait, next.Sub(view.AsOf))
	}
	c := newCommand(lifecycle.Reconcile{Events: events})
	// Ask the machine first: without a change there is no commit.
	if after, _, _, err := r.o.Machine.Step(view.Document, c, view.AsOf); err != nil || after == view.Document {
		return wait
	}
	if _, err := r.o.Store.Do(ctx, c); err != nil {
		if ctx.Err() == nil {
			r.o.Logger.WarnContext(ctx, "instances: pending changes could not be stored", "error", err)
		}
		return againAfter
	}
	return 0
}

// tidyHost removes what runs of gone instances left on this host, on every replica.
func (r *Driver) tidyHost(ctx context.Context, v lifecycle.View) {
	if v.Document == nil {
		return
	}
	gone := func(id string) bool {
		rec := v.Document.Records[id]
		return rec == nil || !rec.Phase.Live()
	}
	if err := r.o.Executor.Tidy(v.AsOf, gone); err != nil {
		r.o.Logger.WarnContext(ctx, "instances: folders of removed instances not deleted", "error", err)
	}
}

func newCommand(e lifecycle.Event) lifecycle.Command {
	c := lifecycle.Command{Event: e}
	_, _ = rand.Read(c.Seed[:]) // never fails
	return c
}

// report commits an event of the server, repeating it after a failure, until ctx ends.
func (r *Driver) report(ctx context.Context, e lifecycle.Event) error {
	c := newCommand(e)
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		_, err := r.o.Store.Do(ctx, c)
		if err == nil {
			return nil
		}
		if !errors.Is(err, lifecycle.ErrNoLeader) {
			return err
		}
		if perr := text.Wait(ctx, wait); perr != nil {
			return perr
		}
	}
}

// findRecord returns a record and its document as committed last, nil for none, or ErrNoLeader.
func (r *Driver) findRecord(ctx context.Context, id string) (*lifecycle.Record, *lifecycle.Document, error) {
	v, err := r.o.Store.View(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !v.Leading {
		return nil, nil, lifecycle.ErrNoLeader
	}
	return v.Document.Records[id], v.Document, nil
}
