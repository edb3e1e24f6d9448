// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// tryJob runs a job once, and drops it if it has ended.
func (q *Queue) tryJob(ctx context.Context, tag string, j *openJob) {
	again, err := q.attemptJob(ctx, j)
	log := q.log.With("kind", j.Kind, "job", j.id)
	var elsewhere *elsewhereError
	q.mu.Lock()
	j.running = false
	switch {
	case ctx.Err() != nil: // the server shuts down
	case !again:
		delete(q.open, tag)
	case errors.As(err, &elsewhere):
		j.due = elsewhere.until
	default:
		delay := min(firstDelay<<j.retries, maxDelay)
		j.due = q.now().Add(delay)
		j.retries = min(j.retries+1, maxRetries)
		log.Warn("queue: job will be retried", "in", delay.String(), "error", err)
	}
	q.countStates()
	q.mu.Unlock()
	q.signal()
}

// attemptJob returns whether the job should be tried again, and why.
func (q *Queue) attemptJob(ctx context.Context, j *openJob) (again bool, err error) {
	if _, err := ReadEnd(ctx, q.repo, j.id); !errors.Is(err, oci.ErrNotFound) {
		return err != nil, err // without error: another replica was faster
	}
	if err := q.beginTry(ctx, j); err != nil {
		return true, err
	}
	if j.losses >= maxLosses {
		return q.parkJob(ctx, j)
	}
	result, err := q.callHandler(ctx, j)
	if again, err = q.endTry(ctx, j, result, err); again {
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), backTimeout)
		defer cancel()
		err = errors.Join(err, endTry(back, q.repo, j.id, j.tries, q.now()))
	}
	return again, err
}

// beginTry records that a try begins, unless too many did not return or one may run.
func (q *Queue) beginTry(ctx context.Context, j *openJob) error {
	for j.losses < maxLosses {
		begun, err := BeginTry(ctx, q.repo, j.id, j.tries+1, q.now())
		if begun {
			j.tries++
		}
		if begun || err != nil {
			return err
		}
		at, back, err := readTry(ctx, q.repo, j.id, j.tries+1)
		if err != nil {
			return err
		}
		if !back {
			if until := at.Add(takeover); until.After(q.now()) {
				return &elsewhereError{until}
			}
			j.losses++
		}
		j.tries++
	}
	return nil
}

// parkJob ends a job that will not be retried automatically.
func (q *Queue) parkJob(ctx context.Context, j *openJob) (again bool, err error) {
	end := End{Failed: true, Parked: true, Time: q.now(), Result: fmt.Sprintf("parked: the server stopped during each of %d attempts", j.losses)}
	if err := EndJob(ctx, q.repo, j.id, end); err != nil {
		return true, err
	}
	q.recordFailed(end)
	q.countEnd(&q.counts.Parked)
	q.log.Error("queue: job parked", "kind", j.Kind, "job", j.id, "result", end.Result, "hint", "find out what crashed the server, then deliver the event again")
	return false, nil
}

func (q *Queue) endTry(ctx context.Context, j *openJob, result string, err error) (again bool, _ error) {
	end := End{Result: result, Time: q.now()}
	if err != nil {
		_, final := errors.AsType[permanentError](err)
		if ctx.Err() != nil || !final && j.retries < maxRetries {
			return true, err
		}
		end.Failed = true
		end.Result = text.Excerpt(err.Error())
	}
	if err := EndJob(ctx, q.repo, j.id, end); err != nil {
		return true, err
	}
	state := "done"
	level := slog.LevelInfo
	count := &q.counts.Done
	if end.Failed {
		state = "failed"
		level = slog.LevelError
		count = &q.counts.Failed
	}
	q.recordFailed(end)
	q.countEnd(count)
	q.log.Log(ctx, level, "queue: job "+state, "kind", j.Kind, "job", j.id, "result", end.Result)
	return false, nil
}

// callHandler calls the handler. A panic becomes an error of this job.
func (q *Queue) callHandler(ctx context.Context, j *openJob) (result string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			q.log.Error("panic", "kind", j.Kind, "job", j.id, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	return q.handlers[j.Kind](ctx, Job{Kind: j.Kind, Data: maps.Clone(j.Data)})
}
