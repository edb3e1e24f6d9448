// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

const (
	// claimTime is how long an attempt may be seen without a claim of its lock.
	claimTime = 2 * time.Minute
	// leaseGrace is added to the lease of a lock, as its next holder does.
	leaseGrace = 30 * time.Second
	// askTime is how often the lock of an attempt is looked at whose processes
	// live here: they may be stopped.
	askTime = time.Minute
	// killTime is how long the rest of a run may take to end in order. It can
	// store nothing any more; it writes down what it made.
	killTime = 3 * time.Minute
)

// observation is what this process saw of an attempt, by its own clock, which does
// not jump.
type observation struct {
	mu        sync.Mutex // guards the fields below
	alive     time.Time  // when the attempt was first looked for, or its claim last seen
	asked     time.Time  // when the lock was last looked at, or the attempt first
	heartbeat string     // of the claim
	since     time.Time  // when the claim had that beat first, the registry answering all the while
	cancelled bool
	// interrupted is when the rest of the run was asked to end; zero: it was not.
	interrupted time.Time
}

// observation returns what is known of an attempt.
func (l observer) observation(r lifecycle.Ref) *observation {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.observations[r]
	if g == nil {
		g = &observation{alive: time.Now(), asked: time.Now()}
		l.observations[r] = g
	}
	return g
}

func (l observer) forget(r lifecycle.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.observations, r)
}

// Observe tells how an attempt goes. Its processes are looked at before its
// result: a child writes that first and ends then.
func (l *Local) Observe(ctx context.Context, s run.Spec, h run.Handle) (run.Status, error) {
	if err := checkRef(s.Ref); err != nil {
		return run.Status{}, err
	}
	at, err := l.observer().find(s, h)
	if err != nil {
		return run.Status{}, err
	}
	g := l.observer().observation(s.Ref)
	g.mu.Lock()
	defer g.mu.Unlock()
	st, err := l.observer().observe(ctx, s, at, g)
	if err != nil {
		g.heartbeat = "" // whoever holds the lock may have got no answer either
		return run.Status{}, fmt.Errorf("looking at attempt %s: %w", attemptName(s.Ref), err)
	}
	if st.State != run.Running {
		l.observer().forget(s.Ref)
		if err := l.folders().cleanBefore(s.Ref); err != nil {
			l.o.Logger.WarnContext(ctx, "instances: folders of earlier attempts stay", "instance", s.Ref.ID, "error", err)
		}
	}
	return st, nil
}

// workDir is where an attempt is.
type workDir struct {
	marker
	known  bool   // it is known where
	here   bool   // its process ids mean something here
	folder string // its scratch folder, on this host; "": there is none
}

// find tells where an attempt is: by its folder, else by its handle.
func (l observer) find(s run.Spec, h run.Handle) (workDir, error) {
	var p workDir
	if h != "" {
		at, err := parseHandle(h)
		if err != nil {
			return p, err
		}
		p.parsedHandle = at
		p.known = true
	}
	dir := l.scratch(s.Ref)
	switch m, err := readMarker(dir); {
	case err == nil && m.LockID == run.LockID(s.Ref):
		p.marker = m
		p.known = true
		p.folder = dir
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return p, err
	}
	short := l.here
	short.Host = short.Host[:min(len(short.Host), maxHost)]
	p.Host = p.Host[:min(len(p.Host), maxHost)]
	p.here = p.known && p.machine == short
	return p, nil
}

func (l observer) observe(ctx context.Context, s run.Spec, at workDir, g *observation) (run.Status, error) {
	if at.here && at.PID == 0 { // it waits for a credential
		return l.startWaiting(ctx, s, g)
	}
	if at.here && l.running(l.scratch(s.Ref), at.marker) {
		return l.observeRunning(ctx, s, at, g)
	}
	st, err := l.result(ctx, s)
	if err == nil && st.State != run.Ended && at.folder != "" {
		st, err = l.storeResult(ctx, s, at.folder)
	}
	switch {
	case err != nil:
		return run.Status{}, err
	case st.State == run.Ended:
		return st, l.folders().clean(at.folder)
	case at.here, !at.known && l.o.Only:
		return l.lost(at, "its processes are gone")
	}
	why, err := l.abandoned(ctx, s, g)
	if err != nil || why == "" {
		return run.Status{State: run.Running}, err
	}
	return l.lost(at, why)
}

// startWaiting starts an attempt that could not be started when it was to.
func (l observer) startWaiting(ctx context.Context, s run.Spec, g *observation) (run.Status, error) {
	if g.cancelled {
		return run.Status{State: run.Ended, Result: lifecycle.Result{Outcome: lifecycle.Cancelled, Resources: -1}}, nil
	}
	_, err := l.begin(ctx, s)
	if _, ok := errors.AsType[*CredentialError](err); ok {
		return run.Status{State: run.Running, Waiting: lifecycle.WaitCredentialMissing, Message: err.Error()}, nil
	}
	g.alive = time.Now()
	return run.Status{State: run.Running}, err
}

// observeRunning looks at an attempt of which something lives here. A child that
// is dead can store nothing: what it left is asked to end, and waited for. One
// that lives and lost its lock, as in a machine that slept, is ended before
// somebody else takes the lock over.
func (l observer) observeRunning(ctx context.Context, s run.Spec, at workDir, g *observation) (run.Status, error) {
	if !at.process.alive() {
		return l.endRest(at, g)
	}
	if time.Since(g.asked) < askTime {
		return run.Status{State: run.Running}, nil
	}
	why, err := l.abandoned(ctx, s, g)
	if err == nil && why != "" {
		l.o.Logger.WarnContext(ctx, "instances: a run is ended whose lock is not its own any more", "attempt", attemptName(s.Ref), "reason", why)
		err = l.kill(at)
	}
	if errors.Is(err, oci.ErrUnavailable) {
		// an outage ends no run
		err = nil
		g.heartbeat = ""
	}
	return run.Status{State: run.Running}, err
}

// endRest interrupts what a dead child left, once, and kills it later.
func (l observer) endRest(at workDir, g *observation) (run.Status, error) {
	mark := filepath.Join(at.folder, "interrupted") // a server that is started anew must not do it again
	switch info, err := os.Stat(mark); {
	case err == nil && g.interrupted.IsZero():
		g.interrupted = time.Now().Add(min(0, time.Until(info.ModTime())))
	case err == nil, !errors.Is(err, fs.ErrNotExist):
	default:
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return run.Status{}, err
		}
		g.interrupted = time.Now()
		if err := l.interrupt(at); err != nil {
			return run.Status{}, err
		}
	}
	if time.Since(g.interrupted) > killTime {
		if err := l.kill(at); err != nil {
			return run.Status{}, err
		}
	}
	return run.Status{State: run.Running, Message: "the process that served its state is gone: waiting for the tool to end"}, nil
}

// result reads how an attempt ended, if it did. What does not repeat its nonce
// is not its result, and decides nothing.
func (l observer) result(ctx context.Context, s run.Spec) (run.Status, error) {
	repo, err := l.o.Instance(ctx, s)
	if err != nil {
		return run.Status{}, err
	}
	r, _, err := run.ReadReport(ctx, repo, s.Ref)
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return run.Status{}, nil
	case errors.Is(err, oci.ErrCorrupt):
		l.o.Logger.WarnContext(ctx, "instances: the file found in place of a result is ignored", "attempt", attemptName(s.Ref), "error", err)
		return run.Status{}, nil
	case err != nil:
		return run.Status{}, err
	}
	return run.Status{State: run.Ended, Result: r.Result()}, nil
}

// storeResult stores the result that a child wrote down here and could not store,
// since the registry did not answer for so long. A plan is not in it, and is made
// anew by the next attempt.
func (l observer) storeResult(ctx context.Context, s run.Spec, folder string) (run.Status, error) {
	b, err := files.ReadPrivate(filepath.Join(folder, resultFile), records.MaxRunResult)
	if errors.Is(err, fs.ErrNotExist) {
		return run.Status{}, nil
	}
	if err != nil {
		return run.Status{}, err
	}
	var r run.Report
	if err := json.Unmarshal(b, &r); err != nil || r.Plan != "" || r.Kind != s.Ref.Kind || subtle.ConstantTimeCompare([]byte(r.Nonce), []byte(s.Ref.Nonce)) != 1 {
		return run.Status{}, nil // it is half written, or another attempt's
	}
	repo, err := l.o.Instance(ctx, s)
	if err != nil {
		return run.Status{}, err
	}
	log, err := files.ReadPrivate(filepath.Join(folder, logFile), records.MaxRunLog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return run.Status{}, err
	}
	err = repo.PutRun(ctx, run.AttemptOf(s.Ref), records.RunFiles{Result: b, Log: log})
	switch {
	case errors.Is(err, oci.ErrExists):
		return run.Status{}, nil // and that was not believed
	case err != nil:
		return run.Status{}, err
	}
	return l.result(ctx, s)
}

// abandoned tells why an attempt will never end: "" as long as it may. Who holds
// its lock renews it; one that was never taken, or was given up without a result,
// belongs to a child that died.
func (l observer) abandoned(ctx context.Context, s run.Spec, g *observation) (why string, err error) {
	store, err := l.o.State(ctx, s)
	if err != nil {
		return "", err
	}
	list, err := store.List(ctx)
	if err != nil {
		return "", err
	}
	held, err := list.Held(ctx, s.Workspace)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return "", err
	}
	now := time.Now()
	g.asked = now
	if held == nil || held.Info.ID != run.LockID(s.Ref) {
		g.heartbeat = ""
		if now.Sub(g.alive) > claimTime {
			return fmt.Sprintf("it was not seen to hold the lock of its state for %v", claimTime), nil
		}
		return "", nil
	}
	g.alive = now
	if g.heartbeat != held.Heartbeat {
		g.heartbeat = held.Heartbeat
		g.since = now
	}
	if held.TTL > 0 && now.Sub(g.since) > held.TTL+leaseGrace {
		return "the lease of its lock is over", nil
	}
	return "", nil
}

// lost says that an attempt has no result and will have none, and where a state
// lies that is newer than the stored one.
func (l observer) lost(at workDir, why string) (run.Status, error) {
	reason := why
	if at.folder != "" {
		if file := findErrored(at.folder); file != "" {
			return run.Status{State: run.Gone, Message: fmt.Sprintf("%s; host %s may hold a newer state in %s", why, at.Host, file)}, nil
		}
		if said := lastLine(filepath.Join(at.folder, "child.log")); said != "" {
			reason += ": " + said
		}
	}
	return run.Status{State: run.Gone, Message: reason}, l.folders().clean(at.folder)
}

// lastLine is the last line that a child wrote before it died, cut to be shown.
func lastLine(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	const limit = 4 << 10
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		_, _ = f.Seek(-limit, io.SeekEnd) // the whole of it says as much
	}
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return text.Excerpt(strings.ToValidUTF8(lines[len(lines)-1], "?"))
}

// Cancel asks an attempt on this host to end early; elsewhere its child reads it
// in the ledger.
func (l *Local) Cancel(_ context.Context, s run.Spec, h run.Handle) error {
	at, err := l.observer().find(s, h)
	if err != nil || !at.here {
		return err
	}
	if at.PID == 0 {
		g := l.observer().observation(s.Ref)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.cancelled = true
		return nil
	}
	return at.process.signal(cancelSignal)
}

// Kill ends the tool of an attempt on this host at once; elsewhere its child reads it in
// the ledger.
func (l *Local) Kill(_ context.Context, s run.Spec, h run.Handle) error {
	at, err := l.observer().find(s, h)
	if err != nil || !at.here {
		return err
	}
	return at.process.signal(forceSignal)
}

// Log returns the log of an attempt from offset on, as far as it is written. On
// another host, and after the attempt, it is the one in the registry.
func (l *Local) Log(ctx context.Context, s run.Spec, h run.Handle, offset int64) (io.ReadCloser, error) {
	if err := checkRef(s.Ref); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, errors.New("a log has no byte " + strconv.FormatInt(offset, 10))
	}
	at, err := l.observer().find(s, h)
	if err != nil {
		return nil, err
	}
	if at.folder != "" {
		f, err := os.OpenFile(filepath.Join(at.folder, logFile), os.O_RDONLY, 0)
		if err == nil {
			_, err = f.Seek(offset, io.SeekStart)
			return f, err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	b, err := l.observer().storedLog(ctx, s)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(b[min(offset, int64(len(b))):])), nil
}

func (l observer) storedLog(ctx context.Context, s run.Spec) ([]byte, error) {
	repo, err := l.o.Instance(ctx, s)
	if err != nil {
		return nil, err
	}
	_, files, err := run.ReadReport(ctx, repo, s.Ref)
	if err == nil {
		return files.Log(ctx)
	}
	if !errors.Is(err, oci.ErrNotFound) && !errors.Is(err, oci.ErrCorrupt) {
		return nil, err
	}
	b, err := repo.Log(ctx, run.AttemptOf(s.Ref))
	if errors.Is(err, oci.ErrNotFound) {
		return nil, nil // nothing was written yet
	}
	return b, err
}
