// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/taglog"
	"github.com/seed-141914ff/okara/oci"
)

const (
	// takeover is the age at which any replica may run a job that has not ended.
	takeover = 5 * time.Minute
	// lookEvery is how often the queue is read for such jobs.
	lookEvery = time.Minute

	maxRetries = 12
	firstDelay = 10 * time.Second // doubles with each retry
	maxDelay   = time.Hour

	// maxLosses is how many tries may begin and not return, because their
	// process ended, before the job is parked: it may have crashed the process.
	maxLosses = 3
	maxAgain  = 10 // how often a parked job may be requested again

	backTimeout = 5 * time.Second // for recording that a try returned

	// kept is how long the queue remembers an ended job's id.
	kept = 30 * 24 * time.Hour
	// endsRead is how many ends one call of findOpen reads to learn their age.
	endsRead = 50

	atOnce  = 4
	timeout = time.Hour        // for one try
	grace   = 30 * time.Second // for running tries when the server ends
)

// Job is background work, recorded before it is acknowledged; it must have no secrets.
type Job struct {
	Kind string // selects the handler
	Data map[string]string
}

// Handler runs a job, maybe twice at a time, which must be harmless. After an error it is tried
// again, unless that is [Permanent].
type Handler func(ctx context.Context, j Job) (result string, err error)

// permanentError is an error that further tries cannot resolve.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error that further tries cannot resolve.
func Permanent(err error) error { return permanentError{err} }

// Counts are the jobs that wait or run, and those ended here by result.
type Counts struct {
	Waiting, Running, Done, Failed, Parked int

	Last Failure // the most recent failure that the queue remembers, in any replica
}

// Failure is a failed job with its last error.
type Failure struct {
	Time   time.Time // when it ended; zero: no failure
	Result string
}

// Options configures a queue. Repo is required.
type Options struct {
	Repo     *oci.Repo          // repository of the jobs, shared by all replicas
	Handlers map[string]Handler // by kind; jobs of other kinds are left to other replicas
	Counted  func(Counts)       // called after each change, one call at a time; it must not call the queue; nil: not called
	Logger   *slog.Logger       // nil: none
	Now      func() time.Time   // nil: time.Now
}

// Queue runs jobs recorded in a repository that replicas share: at once where accepted, after five
// minutes by any replica that sees them.
type Queue struct {
	repo     *oci.Repo
	handlers map[string]Handler
	log      *slog.Logger
	now      func() time.Time
	counted  func(Counts)
	wake     chan struct{} // there may be a job to start

	ends map[string]time.Time // by tag: when jobs ended; used only by look
	old  *taglog.Expiry       // likewise

	mu     sync.Mutex          // guards the fields below and the content of open
	open   map[string]*openJob // by tag, including jobs of a kind without handler
	counts Counts
}

// openJob is an open job that this process knows.
type openJob struct {
	id string
	Job
	due     time.Time
	retries int
	running bool
	tries   int // number of tries that began, in any replica; used by the running try
	losses  int // number of tries that did not return; likewise
}

// elsewhereError means that a try began in another process and may still run.
type elsewhereError struct{ until time.Time }

func (e *elsewhereError) Error() string { return "another attempt may still be running" }

// New returns a queue, which is idle until [Queue.Run].
func New(o Options) *Queue {
	if o.Counted == nil {
		o.Counted = func(Counts) {}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Queue{
		repo: o.Repo, handlers: o.Handlers, counted: o.Counted, log: o.Logger, now: o.Now,
		old:  taglog.New(o.Repo, o.Logger, "jobs that have ended"),
		wake: make(chan struct{}, 1), open: map[string]*openJob{}, ends: map[string]time.Time{},
	}
}

// Add records and starts a job; false: its id was recorded, whatever the result.
func (q *Queue) Add(ctx context.Context, id string, j Job) (added bool, err error) {
	now := q.now()
	added, err = AddJob(ctx, q.repo, Recorded{ID: id, Kind: j.Kind, Data: j.Data, Time: now})
	if added {
		q.keepOpen(JobTag(id), &openJob{id: id, Job: j, due: now})
	}
	return added, err
}

// AddAgain is [Queue.Add] for a person's repetition: a new job, with id now, replaces a parked one.
func (q *Queue) AddAgain(ctx context.Context, id string, j Job) (now string, added bool, err error) {
	now = id
	for n := 2; ; n++ {
		if added, err = q.Add(ctx, now, j); added || err != nil {
			break
		}
		if end, err := ReadEnd(ctx, q.repo, now); err != nil || !end.Parked || n > maxAgain {
			break // Outcome returns the reason
		}
		now = againID(id, n)
	}
	return now, added, err
}

// againID returns the id of the n-th request of a job.
func againID(id string, n int) string { return fmt.Sprintf("%s again %d", id, n) }

// Outcome describes the state of a job for users.
func (q *Queue) Outcome(ctx context.Context, id string) (string, error) {
	end, err := ReadEnd(ctx, q.repo, id)
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return "not done yet", nil
	case err != nil:
		return "", err
	case end.Failed:
		return "failed: " + end.Result, nil
	}
	return "done: " + end.Result, nil
}

// keepOpen adds an open job and wakes the loop, which may have found it with a later time.
func (q *Queue) keepOpen(tag string, j *openJob) {
	q.mu.Lock()
	if known := q.open[tag]; known == nil {
		q.open[tag] = j
	} else if j.due.Before(known.due) {
		known.due = j.due
	}
	q.countStates()
	q.mu.Unlock()
	q.signal()
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // the loop runs anyway
	}
}

// countStates counts the jobs in each state. The caller must hold mu.
func (q *Queue) countStates() {
	q.counts.Waiting = 0
	q.counts.Running = 0
	for _, j := range q.open {
		switch {
		case j.running:
			q.counts.Running++
		case q.handlers[j.Kind] != nil:
			q.counts.Waiting++
		}
	}
	q.counted(q.counts)
}

func (q *Queue) countEnd(n *int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	*n++
	q.counted(q.counts)
}

// recordFailed records the end of a job if it is the most recent failure.
func (q *Queue) recordFailed(end End) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if end.Failed && end.Time.After(q.counts.Last.Time) {
		q.counts.Last = Failure{Time: end.Time, Result: end.Result}
		q.counted(q.counts)
	}
}

// Run runs jobs until ctx ends, and a short time longer; the rest is left to others.
func (q *Queue) Run(ctx context.Context) {
	if len(q.handlers) == 0 {
		return
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var running sync.WaitGroup
	look := q.now()
	for ctx.Err() == nil {
		if !q.now().Before(look) {
			if err := q.findOpen(ctx); err != nil && ctx.Err() == nil {
				q.log.Warn("queue: cannot be read", "error", err)
			}
			look = q.now().Add(lookEvery)
		}
		next := q.startDue(work, &running, look)
		t := time.NewTimer(next.Sub(q.now()))
		select {
		case <-ctx.Done():
		case <-q.wake:
		case <-t.C:
		}
		t.Stop()
	}
	t := time.AfterFunc(grace, cancel)
	defer t.Stop()
	running.Wait()
}

// findOpen finds open jobs, forgets those ended elsewhere, deletes old ones. One call at a time.
func (q *Queue) findOpen(ctx context.Context) error {
	list, err := q.repo.Snapshot(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		return nil // no job was ever recorded
	}
	if err != nil {
		return err
	}
	ended := map[string]bool{}
	for _, tag := range list.Tags {
		ended[tag] = true
	}
	for _, tag := range list.Tags {
		done := DoneTag(tag)
		switch {
		case done == "":
		case ended[done]:
			q.forgetJob(tag)
		case !q.knowsJob(tag):
			j, err := ReadJob(ctx, q.repo, tag)
			if errors.Is(err, oci.ErrCorrupt) || errors.Is(err, oci.ErrNotFound) {
				q.log.Warn("queue: damaged job", "tag", tag, "error", err) // it must not prevent other jobs from running
				continue
			}
			if err != nil {
				return err
			}
			q.keepOpen(tag, &openJob{id: j.ID, Job: Job{Kind: j.Kind, Data: j.Data}, due: j.Time.Add(takeover)})
		}
	}
	return q.expire(ctx, list.Tags)
}

// expire deletes jobs that ended long ago, their end last, or they would run again.
func (q *Queue) expire(ctx context.Context, tags []string) error {
	reads := endsRead
	tries := map[string][]string{}
	for _, tag := range tags {
		if job := triedJobTag(tag); job != "" {
			tries[job] = append(tries[job], tag)
		}
	}
	for _, tag := range tags {
		job := endedJobTag(tag)
		if job == "" || q.old.Refused() {
			continue
		}
		at, known := q.ends[tag]
		if !known && reads > 0 {
			reads--
			end, err := readEndAt(ctx, q.repo, tag)
			if errors.Is(err, oci.ErrCorrupt) || errors.Is(err, oci.ErrNotFound) {
				continue // another replica was faster
			}
			if err != nil {
				return err
			}
			at = end.Time
			known = true
			q.ends[tag] = at
			q.recordFailed(end)
		}
		if !known || q.now().Sub(at) < kept {
			continue
		}
		if err := q.old.Expire(ctx, slices.Concat([]string{job}, tries[job], []string{tag})...); err != nil {
			return err
		}
		delete(q.ends, tag)
	}
	return nil
}

func (q *Queue) knowsJob(tag string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open[tag] != nil
}

// forgetJob drops a job, unless it runs: its try will notice.
func (q *Queue) forgetJob(tag string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.open[tag]; j != nil && !j.running {
		delete(q.open, tag)
	}
	q.countStates()
}

// startDue starts due jobs, the oldest first, and returns when to be called again.
func (q *Queue) startDue(ctx context.Context, running *sync.WaitGroup, next time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	free := atOnce
	var waiting []string
	for tag, j := range q.open {
		switch {
		case j.running:
			free--
		case q.handlers[j.Kind] != nil:
			waiting = append(waiting, tag)
		}
	}
	slices.SortFunc(waiting, func(a, b string) int {
		return cmp.Or(q.open[a].due.Compare(q.open[b].due), cmp.Compare(a, b))
	})
	now := q.now()
	for _, tag := range waiting {
		j := q.open[tag]
		if j.due.After(now) {
			if j.due.Before(next) {
				next = j.due
			}
			break
		}
		if free == 0 {
			break // the end of a try wakes the loop
		}
		free--
		j.running = true
		running.Go(func() { q.tryJob(ctx, tag, j) })
	}
	q.countStates()
	return next
}
