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
	"syscall"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

const (
	// claimTime is how long an attempt may be observed without a claim on its lock.
	claimTime = 2 * time.Minute
	// leaseGrace is added to the lease of a lock, as its next holder does.
	leaseGrace = 30 * time.Second
	// askTime is how often the lock of an attempt is checked whose processes are alive
	// here: they may be suspended.
	askTime = time.Minute
	// killTime is how long a run's remaining processes may take to end in order.
	killTime = 3 * time.Minute
)

// observation is what this process has observed of an attempt, by its monotonic clock.
type observation struct {
	local *Local

	mu        sync.Mutex // guards the fields below
	alive     time.Time  // when the attempt was first looked for, or its claim last seen
	asked     time.Time  // when the lock was last checked, or the attempt first looked for
	heartbeat string     // of the claim
	since     time.Time  // since when the claim has had that heartbeat, with the registry answering all the time
	cancelled bool
	// interrupted is when the remaining processes were interrupted; zero: they were not.
	interrupted time.Time
}

func (l *Local) observationOf(r lifecycle.Ref) *observation {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.observations[r]
	if g == nil {
		g = &observation{local: l, alive: time.Now(), asked: time.Now()}
		l.observations[r] = g
	}
	return g
}

// Advance begins an attempt that has not begun, and else observes it.
func (l *Local) Advance(ctx context.Context, s run.Attempt) (run.Status, error) {
	if err := checkRef(s.Ref); err != nil {
		return run.Status{}, err
	}
	if !s.Begun && s.Handle == "" {
		h, err := l.startAttempt(ctx, s)
		return run.Status{State: run.Running, Handle: h}, err
	}
	return l.observeAttempt(ctx, s)
}

// observeAttempt returns the status of an attempt: processes first, since a child ends after its result.
func (l *Local) observeAttempt(ctx context.Context, s run.Attempt) (run.Status, error) {
	at, err := l.findDir(s)
	if err != nil {
		return run.Status{}, err
	}
	g := l.observationOf(s.Ref)
	g.mu.Lock()
	defer g.mu.Unlock()
	st, err := g.observe(ctx, s, at)
	if err != nil {
		g.heartbeat = "" // the holder of the lock may have got no answer either
		return run.Status{}, fmt.Errorf("inspecting attempt %s: %w", attemptName(s.Ref), err)
	}
	if st.State != run.Running {
		l.mu.Lock()
		delete(l.observations, s.Ref)
		l.mu.Unlock()
		if err := cleanEarlier(l, s.Ref); err != nil {
			l.o.Logger.WarnContext(ctx, "instances: folders of earlier attempts not deleted", "instance", s.Ref.ID, "error", err)
		}
	}
	return st, nil
}

// workDir is the location of an attempt.
type workDir struct {
	marker
	known  bool   // the location is known
	here   bool   // its process IDs are valid on this machine
	folder string // its scratch folder on this host; "": none
}

// findDir locates an attempt: by its folder, else by its handle.
func (l *Local) findDir(s run.Attempt) (workDir, error) {
	var p workDir
	if s.Handle != "" {
		at, err := parseHandle(s.Handle)
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

func (g *observation) observe(ctx context.Context, s run.Attempt, at workDir) (run.Status, error) {
	l := g.local
	if at.here && at.PID == 0 { // it waits for a credential
		return g.startWaiting(ctx, s)
	}
	if at.here && l.isRunning(l.scratch(s.Ref), at.marker) {
		return g.observeRunning(ctx, s, at)
	}
	st, err := readResult(ctx, l, s)
	if err == nil && st.State != run.Ended && at.folder != "" {
		st, err = storeResult(ctx, l, s, at.folder)
	}
	switch {
	case err != nil:
		return run.Status{}, err
	case st.State == run.Ended:
		return st, cleanFolder(l, at.folder)
	case at.here, !at.known && l.o.Only:
		return reportLost(l, at, "its processes are gone")
	}
	why, err := g.findAbandoned(ctx, s)
	if err != nil || why == "" {
		return run.Status{State: run.Running}, err
	}
	return reportLost(l, at, why)
}

func (g *observation) startWaiting(ctx context.Context, s run.Attempt) (run.Status, error) {
	if g.cancelled {
		return run.Status{State: run.Ended, Result: lifecycle.Result{Outcome: lifecycle.Cancelled, Resources: -1, Untouched: true}}, nil
	}
	_, err := g.local.beginAttempt(ctx, s)
	if _, ok := errors.AsType[*CredentialError](err); ok {
		return run.Status{State: run.Running, Waiting: lifecycle.WaitCredentialMissing, Message: err.Error()}, nil
	}
	g.alive = time.Now()
	return run.Status{State: run.Running}, err
}

// observeRunning checks an attempt with processes here. Of a dead child the rest is interrupted and
// awaited. A child that lost its lock, as after sleep, is killed before another run takes over.
func (g *observation) observeRunning(ctx context.Context, s run.Attempt, at workDir) (run.Status, error) {
	if !at.Process.Alive() {
		return g.endRest(at)
	}
	if time.Since(g.asked) < askTime {
		return run.Status{State: run.Running}, nil
	}
	why, err := g.findAbandoned(ctx, s)
	if err == nil && why != "" {
		g.local.o.Logger.WarnContext(ctx, "instances: stopping a run that lost its lock", "attempt", attemptName(s.Ref), "reason", why)
		err = g.local.kill(at)
	}
	if errors.Is(err, oci.ErrUnavailable) {
		// An outage ends no run.
		err = nil
		g.heartbeat = ""
	}
	return run.Status{State: run.Running}, err
}

// endRest interrupts what a dead child left, once, and kills it later.
func (g *observation) endRest(at workDir) (run.Status, error) {
	mark := filepath.Join(at.folder, "interrupted") // so that a restarted server does not interrupt again
	switch info, err := os.Stat(mark); {
	case err == nil && g.interrupted.IsZero():
		g.interrupted = time.Now().Add(min(0, time.Until(info.ModTime())))
	case err == nil, !errors.Is(err, fs.ErrNotExist):
	default:
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return run.Status{}, err
		}
		g.interrupted = time.Now()
		if err := g.local.attemptProcesses(at.folder, at.marker).Interrupt(); err != nil {
			return run.Status{}, err
		}
	}
	if time.Since(g.interrupted) > killTime {
		if err := g.local.kill(at); err != nil {
			return run.Status{}, err
		}
	}
	return run.Status{State: run.Running, Message: "the process that served its state is gone: waiting for the tool to end"}, nil
}

// readResult reads the result of an attempt, if there is one with its nonce.
func readResult(ctx context.Context, l *Local, s run.Attempt) (run.Status, error) {
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
	return run.Status{State: run.Ended, Result: r.Result}, nil
}

// storeResult stores a result that a child could not store while the registry was away. It has no
// plan: the next attempt makes a new one.
func storeResult(ctx context.Context, l *Local, s run.Attempt, folder string) (run.Status, error) {
	b, err := files.ReadPrivate(filepath.Join(folder, sandbox.ResultFile), records.MaxRunResult)
	if errors.Is(err, fs.ErrNotExist) {
		return run.Status{}, nil
	}
	if err != nil {
		return run.Status{}, err
	}
	var r run.Report
	if err := json.Unmarshal(b, &r); err != nil || r.Plan != "" || r.Kind != s.Ref.Kind || subtle.ConstantTimeCompare([]byte(r.Nonce), []byte(s.Ref.Nonce)) != 1 {
		return run.Status{}, nil // incomplete, or of another attempt
	}
	repo, err := l.o.Instance(ctx, s)
	if err != nil {
		return run.Status{}, err
	}
	log, err := files.ReadPrivate(filepath.Join(folder, sandbox.LogFile), records.MaxRunLog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return run.Status{}, err
	}
	err = repo.PutRun(ctx, s.Ref, records.RunFiles{Result: b, Log: log})
	if err != nil && !errors.Is(err, oci.ErrExists) { // the last request of a killed child may have arrived meanwhile
		return run.Status{}, err
	}
	return readResult(ctx, l, s)
}

// findAbandoned returns why an attempt will never end, or "". A lock never taken, or released
// without a result, means that the child died.
func (g *observation) findAbandoned(ctx context.Context, s run.Attempt) (why string, err error) {
	store, err := g.local.o.State(ctx, s)
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
			return fmt.Sprintf("it has not held the lock of its state for %v", claimTime), nil
		}
		return "", nil
	}
	g.alive = now
	if g.heartbeat != held.Heartbeat {
		g.heartbeat = held.Heartbeat
		g.since = now
	}
	if held.TTL > 0 && now.Sub(g.since) > held.TTL+leaseGrace {
		return "the lease of its lock has expired", nil
	}
	return "", nil
}

// reportLost reports that there will be no result, and where a state newer than the stored one is.
func reportLost(l *Local, at workDir, why string) (run.Status, error) {
	reason := why
	if at.folder != "" {
		if file := sandbox.FindErrored(at.folder); file != "" {
			return run.Status{State: run.Gone, Message: fmt.Sprintf("%s; host %s may hold a newer state in %s", why, at.Host, file)}, nil
		}
		if last := lastLine(filepath.Join(at.folder, "child.log")); last != "" {
			reason += ": " + last
		}
	}
	return run.Status{State: run.Gone, Message: reason}, cleanFolder(l, at.folder)
}

// lastLine returns the last line that a child wrote before it died, cut for display.
func lastLine(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	const limit = 4 << 10
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		_, _ = f.Seek(-limit, io.SeekEnd) // reading the whole file has the same result
	}
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return text.Excerpt(strings.ToValidUTF8(lines[len(lines)-1], "?"))
}

// Cancel asks an attempt on this host to end early, or with force to kill its tool; on
// another host its child reads that from the ledger.
func (l *Local) Cancel(_ context.Context, s run.Attempt, force bool) error {
	at, err := l.findDir(s)
	switch {
	case err != nil || !at.here:
		return err
	case force:
		return at.Process.Signal(sandbox.ForceSignal)
	case at.PID != 0:
		return at.Process.Signal(syscall.SIGTERM)
	}
	g := l.observationOf(s.Ref)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancelled = true
	return nil
}

// Log returns the log of an attempt from offset on; after its end or from elsewhere, as stored.
func (l *Local) Log(ctx context.Context, s run.Attempt, offset int64) (io.ReadCloser, error) {
	if err := checkRef(s.Ref); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, errors.New("invalid offset in a log: " + strconv.FormatInt(offset, 10))
	}
	at, err := l.findDir(s)
	if err != nil {
		return nil, err
	}
	if at.folder != "" {
		f, err := os.OpenFile(filepath.Join(at.folder, sandbox.LogFile), os.O_RDONLY, 0)
		if err == nil {
			_, err = f.Seek(offset, io.SeekStart)
			return f, err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	b, err := readStoredLog(ctx, l, s)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(b[min(offset, int64(len(b))):])), nil
}

func readStoredLog(ctx context.Context, l *Local, s run.Attempt) ([]byte, error) {
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
	b, err := repo.Log(ctx, s.Ref)
	if errors.Is(err, oci.ErrNotFound) {
		return nil, nil // nothing is written yet
	}
	return b, err
}

// machine is where a process ID is valid: not after a boot, nor in another namespace.
type machine struct {
	Host      string `json:"host"`
	Boot      string `json:"boot"`      // boot ID of the kernel
	Namespace string `json:"namespace"` // of process ids
}

func (l *Local) attemptProcesses(folder string, m marker) sandbox.Processes {
	a := sandbox.Processes{Scratch: folder, Child: m.Process, Cgroup: m.Cgroup}
	if l.isolation.Mode == sandbox.ModeUser {
		a.UID = m.UID
	}
	return a
}

// isRunning reports whether any process of an attempt lives on this machine.
func (l *Local) isRunning(folder string, m marker) bool {
	return m.Boot == l.here.Boot && m.Namespace == l.here.Namespace && l.attemptProcesses(folder, m).Alive()
}

func (l *Local) kill(at workDir) error { return l.attemptProcesses(at.folder, at.marker).Kill() }

// reaper waits for children that end while this process lives.
type reaper struct {
	reaping sync.WaitGroup
	mu      sync.Mutex                      // guards ends
	ends    map[lifecycle.Ref]chan struct{} // of living children; closed when they end
}

// reapChild waits for a child, and notifies those that wait for the end of its attempt.
func (p *reaper) reapChild(r lifecycle.Ref, wait func()) {
	ended := make(chan struct{})
	p.mu.Lock()
	p.ends[r] = ended
	p.mu.Unlock()
	p.reaping.Go(func() {
		wait()
		close(ended)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ends[r] == ended {
			delete(p.ends, r)
		}
	})
}

// Ended implements [run.MachineExecutor].
func (p *reaper) Ended(r lifecycle.Ref) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ends[r]
}
