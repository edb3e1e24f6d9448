// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/lease"
	"github.com/seed-141914ff/okara/internal/modulelock"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

// Options configure a run.
type Options struct {
	// Command is the program and its arguments; required.
	Command []string
	Config  Config
	// Open returns the store for the settings of one repository; required.
	Open func(ctx context.Context, b backendblock.Backend) (*statebackend.Store, error)
	// Getenv reads the environment for okara; required. The child gets the process's.
	Getenv func(string) string

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Begin is called with a description of the run before its command starts; may be nil.
	Begin func(Start)
	// Warn is called with what the tool should not be run without knowing; may be nil.
	Warn func(string)
	// LockWait is the command's -lock-timeout, which precedes the block's; nil: none.
	LockWait *time.Duration
	// Logger gets a debug record for each request of the tool; nil: none.
	Logger *slog.Logger
	// Init is called before the tool initializes dir; done gets its exit code. May be nil.
	Init func(dir, dataDir string) (done func(code int), err error)
	// Unchanged leaves the lines of init in which the tool names the backend as they are.
	Unchanged bool
	// Environ are NAME=VALUE pairs that override the environment of the command.
	Environ []string

	applies bool   // the command is an apply of the whole configuration, or of a saved plan, and no destroy
	part    bool   // the command applies a part of the configuration
	plan    string // the file of the saved plan that is applied; "": none
	group   bool   // a signal goes to all processes that the command started
}

// Start is the description of a run that is printed before it starts.
type Start struct {
	Repository string // that has the state; "" if the run only reads other states
	Workspace  string
	// Errored is the file of a state that an earlier run could not store, or "".
	Errored string
}

// Result is the outcome of a run.
type Result struct {
	Code     int             // exit code of the program
	Held     []s3facade.Held // locks that a killed program left
	Failures []error         // errors between okara and the registry
	Behind   []error         // replicas and records of uses that could not be updated
}

// Run runs a command while it serves its state. An error is okara's: it did not run, or clean up.
func Run(ctx context.Context, o Options) (Result, error) {
	if !o.Config.Used() {
		if err := removeLeftover(o.Config.Dir); err != nil {
			return Result{}, err
		}
		code, err := o.runCommand(ctx, "", nil)
		return Result{Code: code}, err
	}
	if err := checkEnvironment(o.Getenv); err != nil {
		return Result{}, err
	}
	if o.Config.Recorded != "" {
		if err := allowMetadata(backendblock.DataDir(o.Config.Dir, o.Getenv)); err != nil {
			return Result{}, err
		}
	}
	if o.Begin != nil {
		o.Begin(o.Config.announceStart(o.Getenv))
	}
	if len(o.Config.Remote) == 0 && !o.Config.Declared {
		if err := removeLeftover(o.Config.Dir); err != nil {
			return Result{}, err
		}
		return o.serveCommand(ctx)
	}
	override, err := openOverride(o.Config.Dir, o.Config.Override())
	if err != nil {
		return Result{}, err
	}
	res, err := o.serveCommand(ctx)
	return res, errors.Join(err, override.close())
}

// serveCommand runs the command beside a facade that outlives it, and ctx: an apply still writes.
func (o Options) serveCommand(ctx context.Context) (res Result, err error) {
	dir, remove, err := files.TempDir("")
	if err != nil {
		return res, fmt.Errorf("preparing the run: %w", err)
	}
	defer func() { err = errors.Join(err, remove()) }()

	var failures failures
	var pid atomic.Int64
	key := rand.Text()
	facade := s3facade.New(s3facade.Options{
		AccessKey: key,
		Open: func(ctx context.Context, p s3facade.Ref) (*statebackend.Store, error) {
			b := o.Config.For(p.Repository)
			b.StrictReads = b.StrictReads || p.Remote
			return o.Open(ctx, b.ForWorkspace(p.Workspace))
		},
		Repositories: o.Config.Repositories(),
		Workspaces:   o.workspaces(),
		LockWait:     o.lockWait(),
		Done:         ctx.Done(),
		LockNote:     func() string { return lockNote(o.Getenv, filepath.Base(o.Command[0]), pid.Load()) },
		TempDir:      dir,
		Loaded:       o.warnOnce(),
		Failed:       func(err error) { failures.addError(err) },
		Logger:       o.Logger,
	})
	root := usage.Root{Dir: o.Config.Dir, DataDir: backendblock.DataDir(o.Config.Dir, o.Getenv), Part: o.part, ParseLock: ParseLock, ParseModules: modulelock.ParseDigests, LiveCalls: modulelock.LiveCalls, Getenv: o.Getenv}
	if o.plan != "" {
		root.Read = readPlan(o.plan)
		root.LiveCalls = nil // it has no others
	}
	record := root.Record()
	server, err := httpserve.Listen(httpserve.Options{Addr: "127.0.0.1:0", Handler: recordUsage(facade, record)})
	if err != nil {
		return res, fmt.Errorf("serving the state: %w", err)
	}
	if err := writeProfile(dir, server.URL(), key); err != nil {
		return res, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	var served error
	done.Go(func() { served = server.Serve(serving) })
	res.Code, err = o.runCommand(ctx, dir, func(p *os.Process) (end func()) {
		pid.Store(int64(p.Pid))
		return lease.Guard(p, facade.Lease, func(err error) { failures.addError(err) })
	})
	stop()
	done.Wait()
	if o.applies && record != nil && res.Code == 0 && err == nil && ctx.Err() == nil {
		if o.plan == "" { // it may be of a part
			res.Behind = facade.RecordApplied(ctx, usage.Unchanged(record))
		}
		if len(facade.Held()) > 0 {
			res.Code = 1
		}
		if said := findMarked(backendblock.DataDir(o.Config.Dir, o.Getenv), record); said != "" && o.Warn != nil {
			o.Warn(said)
		}
	}
	res.Held = facade.Held()
	res.Failures = append(failures.listErrors(), facade.Refused()...)
	res.Behind = append(res.Behind, o.replicate(ctx, facade.Written())...)
	return res, errors.Join(err, served, facade.Close())
}

// warnOnce warns, once for each text, of a state that the tool does not understand.
func (o Options) warnOnce() func(agent string, state []byte) {
	var said failures
	return func(agent string, state []byte) {
		if warning := states.WarnOther(agent, state); warning != "" && o.Warn != nil && said.addError(errors.New(warning)) {
			o.Warn(warning)
		}
	}
}

// lockWait is how long the run waits for a lock that another client holds.
func (o Options) lockWait() time.Duration {
	if o.LockWait != nil {
		return *o.LockWait
	}
	return o.Config.Backend.LockTimeout
}

// writeProfile writes the override's two files, which alone contain the run's port and key.
func writeProfile(dir, url, key string) error {
	config := "[profile " + profile + "]\nregion = us-east-1\nservices = " + profile +
		"\n\n[services " + profile + "]\ns3 =\n  endpoint_url = " + url + "\n"
	credentials := "[" + profile + "]\naws_access_key_id = " + key + "\naws_secret_access_key = " + rand.Text() + "\n"
	for name, text := range map[string]string{"config": config, "credentials": credentials} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("preparing the run: %w", err)
		}
	}
	return nil
}

// runCommand runs the command to its end, passing signals on. Where possible it ends when okara
// dies, since it could store nothing.
func (o Options) runCommand(ctx context.Context, dir string, started func(*os.Process) (end func())) (code int, err error) {
	if ctx.Err() != nil { // before there was a command that could have heard of it
		return 0, context.Cause(ctx)
	}
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Stdin = o.Stdin
	cmd.Stdout = o.Stdout
	cmd.Stderr = o.Stderr
	cmd.Env = append(os.Environ(), o.Environ...)
	if dir != "" {
		cmd.Env = append(cmd.Env, runVariable+"="+dir)
	}
	if before := o.Getenv(askingVariable); before != "" {
		cmd.Env = append(cmd.Env, extendAsking(before, o.Command[0]))
	}
	stop, err := startForwarding(cmd, o.group)
	if err != nil {
		return 0, fmt.Errorf("running %s: %w", o.Command[0], err)
	}
	defer stop()
	defer endWithParent(cmd.Process)()
	if started != nil {
		defer started(cmd.Process)()
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exitCode(exit), nil
	}
	return 0, err
}

// workspaces returns those to look for if a repository's name contains {workspace}.
func (o Options) workspaces() []string {
	names := slices.DeleteFunc(backendblock.Selected(o.Config.Dir, o.Getenv), func(s string) bool { return s == "default" })
	slices.Sort(names)
	return slices.Compact(names)
}

// SelectedWorkspace returns the workspace that the tool uses in that directory.
func SelectedWorkspace(dir string, getenv func(string) string) string {
	return append(backendblock.Selected(dir, getenv), "default")[0]
}

// failures collects errors, each message once.
type failures struct {
	mu   sync.Mutex // guards errs
	errs []error
}

// addError reports whether the message is new.
func (f *failures) addError(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.errs {
		if e.Error() == err.Error() {
			return false
		}
	}
	f.errs = append(f.errs, err)
	return true
}

func (f *failures) listErrors() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errs
}
