// SPDX-License-Identifier: Apache-2.0

package child

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/modulelock"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// Options configure [Run].
type Options struct {
	Order sandbox.Order
	// Named looks up the attempt in the ledger. nil: in the ledger of the order.
	Named func(ctx context.Context, ref lifecycle.Ref) (Standing, error)
	// Getenv reads the variables passed on to the tool: proxies and certificates; required.
	Getenv    func(string) string
	UserAgent string // of requests to the registry, and the tool that versions name
}

// Run executes one attempt: it takes the state's lock, serves the state to the tool, and leaves log
// and result in the instance's repository. An error means that there is no result. If ctx is
// cancelled, the attempt ends in order.
func Run(ctx context.Context, o Options) error { return newChild(o, pace{}).run(ctx) }

// Standing is the status of an attempt in the ledger.
type Standing struct {
	Named  bool   // it is the current attempt
	Cancel string // why it should end early; "": it should not
	Force  bool   // kill it at once
}

// startedTool is a running command of the tool, with all processes that it started.
type startedTool interface {
	Interrupt() error // asks it, once, to end in order
	Kill() error      // kills it and all processes that it started
	Wait() error      // like [exec.Cmd]; all output was passed on by then
}

// pace holds the timings of a child; zero fields have defaults.
type pace struct {
	lease   time.Duration // of the lock
	held    time.Duration // how long to wait for the lock of another holder
	poll    time.Duration // between two checks of ledger and lock
	persist time.Duration // how long the last write and the result are retried
	pause   time.Duration // longest pause between two retries
	grace   time.Duration // between interrupt and kill
	push    time.Duration // between two uploads of the log
}

func (p pace) withDefaults() pace {
	return pace{
		lease: cmp.Or(p.lease, 10*time.Minute), held: cmp.Or(p.held, time.Minute), poll: cmp.Or(p.poll, 30*time.Second),
		persist: cmp.Or(p.persist, 15*time.Minute), pause: cmp.Or(p.pause, 10*time.Second),
		grace: cmp.Or(p.grace, 5*time.Minute), push: cmp.Or(p.push, 30*time.Second),
	}
}

// Limits if the spec sets none.
const (
	defaultTimeout = 30 * time.Minute
	defaultLog     = 16 << 20
)

// operation is the operation recorded in the lock and the versions of a run.
const operation = "instance-run"

type child struct {
	Options
	pace pace
	// start starts a command of the tool.
	start func(sandbox.Command) (startedTool, error)

	dir   *sandbox.Workdir // the tool's writable folder; nil until it is made
	repo  records.InstanceRepo
	store *statebackend.Store
	lock  *statebackend.Lock
	lost  time.Time // when the attempt began whose lock was taken over; zero: none
	masks *masks
	log   *runLog
	stop  *stopper

	mu       sync.Mutex // guards the fields below
	failures []error    // of the facade
	stored   bool       // a state was stored
	head     *written   // the last state, if it is small; nil: it has to be read

	report   run.Report
	stays    bool           // the tool's error is permanent
	unlisted bool           // no tag list read under the lock had a result of the attempt
	plan     []byte         // sealed with the result
	planJSON []byte         // likewise; nil: not requested, or not available
	lockFile []byte         // the dependency lock file that init left, if it is new
	filling  sync.WaitGroup // makes what init fetched available to other runs
	input    run.RemoteInput
}

func newChild(o Options, p pace) *child {
	c := &child{Options: o, pace: p.withDefaults(), stop: newStopper()}
	c.start = func(t sandbox.Command) (startedTool, error) { return c.Order.Start(c.dir, t) }
	if c.Named == nil {
		c.Named = (&ledgerReader{order: &c.Order, userAgent: o.UserAgent, number: 1}).readNamed
	}
	c.masks = newMasks(secretsOf(&o.Order))
	s := o.Order.Spec
	c.report = run.Report{
		Version: 1, Nonce: s.Ref.Nonce, Kind: s.Ref.Kind, Run: s.Run, Snapshot: s.Snapshot, Source: s.Source, Variables: s.Variables,
		Result: lifecycle.Result{Resources: -1, Untouched: true}, Started: time.Now().UTC(),
	}
	return c
}

// errNotNamed ends an attempt that the ledger does not name: its result would never be read.
var errNotNamed = errors.New("the ledger does not name this attempt")

func (c *child) run(ctx context.Context) (err error) {
	if err := c.openRun(); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(c.Order.Scratch, sandbox.LogFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|files.NoFollow, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	c.log = newRunLog(c.masks, int(cmp.Or(c.Order.Spec.Limits.Log, defaultLog)), file)
	if c.isRemote() {
		c.log.grow()
	}
	defer c.stop.stopOnSignal()()
	defer context.AfterFunc(ctx, func() { c.stop.askToStop(lifecycle.Cancelled, "the run was asked to stop") })()
	ctx = context.WithoutCancel(ctx) // what has begun is ended in order
	err = takeLock(ctx, c)
	if err == nil {
		err = c.runLocked(ctx)
	}
	if errors.Is(err, errNotNamed) {
		return c.unlock(ctx)
	}
	c.finish(ctx, err)
	defer c.filling.Wait()
	return errors.Join(c.putResult(ctx), c.unlock(ctx))
}

func (c *child) openRun() error {
	if c.store != nil { // set by a test, with a failing registry
		return nil
	}
	o := &c.Order
	if err := os.MkdirAll(o.Scratch, 0o700); err != nil {
		return fmt.Errorf("preparing the run: %w", err)
	}
	var err error
	if c.dir, err = o.Open(); err != nil {
		return err
	}
	repo, err := openRepo(o, o.Spec.Repository, c.UserAgent)
	if err != nil {
		return err
	}
	sealer, err := sealerOf(o)
	if err != nil {
		return err
	}
	if sealer == nil {
		c.report = c.report.InClear(o.Spec.Sensitive)
	}
	so := statebackend.Options{
		LockTTL: c.pace.lease, MaxVersions: 50, Tool: c.UserAgent, StrictReads: true, DigestDeletes: o.Registry.BuiltIn,
	}
	c.repo = records.InstanceRepo{Repo: repo}
	if sealer != nil {
		so.Sealer = sealer
		c.repo.Sealer = sealer
	}
	c.store = statebackend.New(repo, so)
	return nil
}

// runLocked runs the attempt while the lock is held.
func (c *child) runLocked(ctx context.Context) error {
	if err := c.checkMayContinue(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { c.watch(ctx) })
	beside.Go(func() { c.guard(ctx) })
	beside.Go(func() {
		_ = c.log.push(ctx, c.pace.push, func(ctx context.Context, b []byte) error {
			return c.repo.PutLog(ctx, c.Order.Spec.Ref, b)
		})
	})
	timeout := cmp.Or(c.Order.Spec.Limits.Timeout, defaultTimeout)
	defer time.AfterFunc(timeout, func() {
		c.stop.askToStop(lifecycle.RunFailed, fmt.Sprintf("the run took longer than its limit of %s", timeout))
	}).Stop()
	return c.runAttempt(ctx)
}

func (c *child) runAttempt(ctx context.Context) (err error) {
	spec := c.Order.Spec
	if c.isRemote() {
		p, err := prepareScratch(ctx, c)
		if err != nil {
			return err
		}
		defer removeUpload(c)
		return runSteps(ctx, c, p)
	}
	c.log.logLine("%s: %s, attempt %d", cmp.Or(spec.Run, spec.Ref.ID), spec.Ref.Kind, spec.Ref.Attempt)
	if err := keepFork(ctx, c); err != nil {
		return err
	}
	if err := storeLeftovers(ctx, c); err != nil {
		return err
	}
	if err := checkStored(ctx, c); err != nil {
		return err
	}
	p, err := prepareScratch(ctx, c)
	if err != nil {
		return err
	}
	var server *bridge.HeldServer
	err = c.dir.Fill(profileFolder, func(dir string) (err error) {
		server, err = bridge.ServeHeld(ctx, bridge.HeldOptions{
			Lock: c.lock, Repository: spec.Repository, Dir: dir, Shown: string(c.dir.Inside(profileFolder)), Temp: c.Order.Scratch,
			Persist: c.pace.persist, Stored: c.wasStored, Failed: c.recordFailure, Usage: c.recorder(p.module),
		})
		return err
	})
	if err != nil {
		return err
	}
	p.env = append(p.env, server.Environment()...)
	defer func() {
		err = errors.Join(err, server.Close()) // it waits for a running write
		storeOwnErrored(ctx, c)
	}()
	return runSteps(ctx, c, p)
}

// recorder returns what is recorded with each state: what init found for the root module.
func (c *child) recorder(module string) func(state, before []byte) []byte {
	dir := path.Join(sandbox.Tool, module)
	r := usage.Root{
		Dir: dir, DataDir: path.Join(dir, ".terraform"), ParseLock: bridge.ParseLock, ParseModules: modulelock.ParseDigests, Read: c.dir.Read, Getenv: c.Getenv,
		LiveCalls: func(string, string) (live map[string]bool, err error) { // an upload has the list of its sender
			err = c.readInstalled(func(in modulelock.Files, dir, dataDir string) (err error) {
				live, err = in.ListLive(dir, dataDir)
				return err
			})
			return live, err
		},
	}
	if source := c.Order.Spec.Source; !c.isRemote() {
		r.Called = []usage.Module{{Source: source.Module, Version: source.Version, Digest: source.Digest}}
	}
	return r.Record()
}

// written is a state as it was stored.
type written struct {
	n     int64 // its version
	state []byte
}

// maxWritten bounds the state that is kept for the end of a run, in bytes.
const maxWritten = 4 << 20

// wasStored records that a state was stored under the lock; nil if its content is unknown.
func (c *child) wasStored(v statebackend.Version, state []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored = true
	c.head = nil
	if state != nil && len(state) <= maxWritten {
		c.head = &written{v.N, state}
	}
}

func (c *child) lastState(ctx context.Context) (written, error) {
	c.mu.Lock()
	w := c.head
	c.mu.Unlock()
	if w != nil {
		return *w, nil
	}
	state, v, err := c.lock.Get(ctx)
	return written{v.N, state}, err
}

// recordFailure records an error of the facade. A lost lock ends the run.
func (c *child) recordFailure(err error) {
	c.mu.Lock()
	c.failures = append(c.failures, err)
	c.mu.Unlock()
	c.log.logLine("okara: %s", text.Excerpt(states.Remedy(err)))
	if errors.Is(err, statebackend.ErrLockLost) {
		c.stop.askToStop(lifecycle.RunFailed, states.Remedy(err))
	}
}

// existsRE matches the providers' errors for resources that exist already.
var existsRE = text.Pattern(`(?i)already[ _-]?exist`)

func (c *child) finish(ctx context.Context, err error) {
	r := &c.report
	r.Outcome = lifecycle.Done
	c.mu.Lock()
	r.State = c.stored
	failures := c.failures
	c.mu.Unlock()
	if err != nil {
		r.Outcome = lifecycle.RunFailed
		texts := []string{states.Remedy(err)}
		if e, ok := errors.AsType[*stopError](err); ok {
			r.Outcome = e.outcome
		}
		for _, f := range failures {
			if !strings.Contains(texts[0], f.Error()) {
				texts = append(texts, states.Remedy(f))
			}
		}
		if !c.lost.IsZero() && existsRE().MatchString(texts[0]) {
			texts[0] = text.Clip(texts[0], maxError/2)
			texts = append(texts, fmt.Sprintf("an earlier attempt, started at %s, was killed before it stored what it had just created\nhint: import what exists into the state, or remove it; then okara instance retry %s",
				c.lost.UTC().Format(time.RFC3339), c.Order.Spec.Ref.ID))
		}
		r.Error = plainError(c.masks, texts...)
		r.Permanent = c.stays && r.Outcome == lifecycle.RunFailed && len(failures) == 0
		if _, fromTool := errors.AsType[*toolError](err); !fromTool && !(c.isRemote() && r.Outcome == lifecycle.Held) {
			c.log.logLine("okara: %s: %s", r.Outcome, r.Error)
		}
	}
	if c.lock != nil && !c.isRemote() {
		collectResult(ctx, c)
	}
	c.log.endLog()
	r.Ended = time.Now().UTC()
}

// putResult writes the result, again while the registry is away. A copy is in the scratch folder.
func (c *child) putResult(ctx context.Context) error {
	b, err := json.Marshal(c.report)
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	kept, err := json.Marshal(c.report.InClear(c.Order.Spec.Sensitive))
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	local := files.Replace(filepath.Join(c.Order.Scratch, sandbox.ResultFile), kept, 0o600)
	a := c.Order.Spec.Ref
	err = c.retryPersistently(ctx, func() error {
		files := records.RunFiles{Result: b, Log: c.log.bytes(), Plan: c.plan, JSON: c.planJSON, Lock: c.lockFile, Unlisted: c.unlisted}
		c.unlisted = false // this write may succeed although its answer is lost
		err := c.repo.PutRun(ctx, a, files)
		if errors.Is(err, oci.ErrExists) {
			_, err = c.repo.Run(ctx, a) // it is ours if an answer was lost
		}
		return err
	})
	return errors.Join(err, local)
}

// unlock releases the lock, if it is held.
func (c *child) unlock(ctx context.Context) error {
	if c.lock == nil {
		return nil
	}
	return c.retryPersistently(ctx, func() error { return c.lock.Unlock(ctx) })
}

// retryValue is [child.retryPersistently] for what returns a value.
func retryValue[T any](ctx context.Context, c *child, do func() (T, error)) (v T, err error) {
	err = c.retryPersistently(ctx, func() (err error) {
		v, err = do()
		return err
	})
	return v, err
}

// retryPersistently retries do while the registry cannot be reached.
func (c *child) retryPersistently(ctx context.Context, do func() error) error {
	begin := time.Now()
	for pause := min(time.Second, c.pace.pause); ; pause = min(2*pause, c.pace.pause) {
		err := do()
		if err == nil || !oci.Passing(err) || time.Since(begin)+pause > c.pace.persist || text.Wait(ctx, pause) != nil {
			return err
		}
	}
}
