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

	"github.com/seed-141914ff/okara/oci"
)

const (
	// takeover is the age at which a job that has not ended is everybody's:
	// until then it belongs to the replica that accepted it.
	takeover = 5 * time.Minute
	// lookEvery is how often the queue is read for such jobs.
	lookEvery = time.Minute

	maxRetries = 12
	firstDelay = 10 * time.Second // doubles with each retry
	maxDelay   = time.Hour

	// maxLosses is how many tries may begin and not come back, since their
	// process ended, before the job is parked: it may be what ended them.
	maxLosses = 3
	maxAgain  = 10 // how often a parked job may be asked for again

	backTimeout = 5 * time.Second // for the note that a try came back

	// kept is how long the queue remembers a job that has ended. One with
	// its id is new after that, which is harmless like any other repetition.
	kept = 30 * 24 * time.Hour
	// endsRead is how many ends one look reads to learn their age.
	endsRead = 50

	atOnce  = 4
	timeout = time.Hour        // of one try
	grace   = 30 * time.Second // for running tries when the server ends
)

// Job is work that nobody waits for. It is recorded in the registry before it
// is acknowledged, so it outlives this process; nothing secret is in it.
type Job struct {
	Kind string // selects the handler
	Data map[string]string
}

// Handler does a job and says what came of it. Two replicas may do the same
// job at the same time, so doing it twice must be harmless. An error means
// another try later, unless it is [Permanent].
type Handler func(ctx context.Context, j Job) (result string, err error)

// permanentError is one that no further try can cure.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks the error of a handler as one that no further try can cure.
func Permanent(err error) error { return permanentError{err} }

// Counts says how many jobs wait for a try and run now, and what became of those
// that ended in this process.
type Counts struct {
	Waiting, Running, Done, Failed, Parked int

	Last Failure // the newest that the queue remembers, here or elsewhere
}

// Failure is a job that failed, with its last error.
type Failure struct {
	Time   time.Time // when it ended; zero: there is none
	Result string
}

// Options is what a queue needs. Repo is required.
type Options struct {
	Repo     *oci.Repo          // where the jobs are; all replicas share it
	Handlers map[string]Handler // by kind; jobs of other kinds are left to other replicas
	Counted  func(Counts)       // hears of each change, one at a time; it must not call the queue; nil: nobody does
	Logger   *slog.Logger       // nil: none
	Now      func() time.Time   // nil: time.Now
}

// Queue does the jobs that are recorded in a repository which all replicas
// share. The one that accepts a job does it at once; what has not ended after
// five minutes is done by whoever sees it, also after a restart.
type Queue struct {
	repo     *oci.Repo
	handlers map[string]Handler
	log      *slog.Logger
	now      func() time.Time
	counted  func(Counts)
	wake     chan struct{} // there may be something to start

	ends     map[string]time.Time // by tag, what look knows of jobs that have ended
	keepEnds bool                 // the registry deletes no tags; for look too

	mu     sync.Mutex          // guards the fields below and what is in open
	open   map[string]*openJob // by tag, those of a kind without handler too
	counts Counts
}

// openJob is a job that this process knows of.
type openJob struct {
	id string
	Job
	due     time.Time
	retries int
	running bool
	tries   int // that began, here or elsewhere; for the running try
	losses  int // of them, those that did not come back; likewise
}

// elsewhereError says that a try began elsewhere and may still run.
type elsewhereError struct{ until time.Time }

func (e *elsewhereError) Error() string { return "another try may still run" }

// New returns a queue that does nothing before [Queue.Run].
func New(o Options) *Queue {
	if o.Counted == nil {
		o.Counted = func(Counts) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Queue{
		repo: o.Repo, handlers: o.Handlers, counted: o.Counted, log: o.Logger, now: o.Now,
		wake: make(chan struct{}, 1), open: map[string]*openJob{}, ends: map[string]time.Time{},
	}
}

// Add records the job and starts it. It is false if one with this id was
// recorded before, whatever came of it: who wants it done again uses another
// id.
func (q *Queue) Add(ctx context.Context, id string, j Job) (added bool, err error) {
	now := q.now()
	added, err = AddJob(ctx, q.repo, Recorded{ID: id, Kind: j.Kind, Data: j.Data, Time: now})
	if added {
		q.keep(JobTag(id), &openJob{id: id, Job: j, due: now})
	}
	return added, err
}

// AddAgain is [Queue.Add] for what a person asks for once more: a job that was parked
// gets a new one in its place. It returns the id under which the job is.
func (q *Queue) AddAgain(ctx context.Context, id string, j Job) (now string, added bool, err error) {
	now = id
	for n := 2; n <= maxAgain+1; n++ {
		if added, err = q.Add(ctx, now, j); added || err != nil {
			break
		}
		if end, err := ReadEnd(ctx, q.repo, now); err != nil || !end.Parked {
			break // Outcome says why
		}
		now = againID(id, n)
	}
	return now, added, err
}

// againID is the id of a job that is asked for the n-th time.
func againID(id string, n int) string { return fmt.Sprintf("%s again %d", id, n) }

// Outcome says for people how far a job is.
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

// keep remembers an open job and lets the loop see it. The loop may have found
// it between its recording and this call, as one to wait for.
func (q *Queue) keep(tag string, j *openJob) {
	q.mu.Lock()
	if known := q.open[tag]; known == nil {
		q.open[tag] = j
	} else if j.due.Before(known.due) {
		known.due = j.due
	}
	q.count()
	q.mu.Unlock()
	q.signal()
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // the loop will look anyway
	}
}

// count counts the jobs in each state. The caller holds mu.
func (q *Queue) count() {
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

// ended counts one more in n, a field of counts.
func (q *Queue) ended(n *int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	*n++
	q.counted(q.counts)
}

// failed remembers the end of a job if it is the newest failure.
func (q *Queue) failed(end End) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if end.Failed && end.Time.After(q.counts.Last.Time) {
		q.counts.Last = Failure{Time: end.Time, Result: end.Result}
		q.counted(q.counts)
	}
}

// Run does jobs until ctx ends, and then gives running ones a short time.
// What is cut off or still waits is done by another replica or after the next
// start.
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
			if err := q.look(ctx); err != nil && ctx.Err() == nil {
				q.log.Warn("queue: cannot be read", "error", err)
			}
			look = q.now().Add(lookEvery)
		}
		next := q.start(work, &running, look)
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

// look finds the jobs that have not ended, forgets those that another replica
// has ended, and deletes those that ended long ago. Only one runs at a time.
func (q *Queue) look(ctx context.Context) error {
	list, err := q.repo.Snapshot(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		return nil // there was never a job
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
			q.forget(tag)
		case !q.knows(tag):
			j, err := ReadJob(ctx, q.repo, tag)
			if errors.Is(err, oci.ErrCorrupt) || errors.Is(err, oci.ErrNotFound) {
				q.log.Warn("queue: damaged job", "tag", tag, "error", err) // it must not keep the others from being done
				continue
			}
			if err != nil {
				return err
			}
			q.keep(tag, &openJob{id: j.ID, Job: Job{Kind: j.Kind, Data: j.Data}, due: j.Time.Add(takeover)})
		}
	}
	return q.expire(ctx, list.Tags)
}

// expire deletes the jobs among tags that ended long ago, the job and its tries
// before its end: the other way round it would be done again if this stops in between.
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
		if job == "" || q.keepEnds {
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
			q.failed(end)
		}
		if !known || q.now().Sub(at) < kept {
			continue
		}
		for _, old := range slices.Concat([]string{job}, tries[job], []string{tag}) {
			err := q.repo.Untag(ctx, old)
			if errors.Is(err, oci.ErrUnsupported) || errors.Is(err, oci.ErrDenied) {
				q.log.Info("queue: the registry deletes no tags, so it keeps jobs that have ended", "reason", err)
				q.keepEnds = true
				return nil
			}
			if err != nil && !errors.Is(err, oci.ErrNotFound) {
				return err
			}
		}
		delete(q.ends, tag)
	}
	return nil
}

func (q *Queue) knows(tag string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open[tag] != nil
}

// forget drops a job, unless it runs: then its try will find that it has ended.
func (q *Queue) forget(tag string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.open[tag]; j != nil && !j.running {
		delete(q.open, tag)
	}
	q.count()
}

// start starts what is due, the oldest first, and returns when there will be
// more to do, which is next at the latest.
func (q *Queue) start(ctx context.Context, running *sync.WaitGroup, next time.Time) time.Time {
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
		running.Go(func() { q.try(ctx, tag, j) })
	}
	q.count()
	return next
}
