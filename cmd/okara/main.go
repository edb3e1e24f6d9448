// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	_ "time/tzdata" // where the system has no time zones

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // where the system has no certificates

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// Exit codes, the same for every command; `okara tofu`, `okara terraform` and
// `okara exec` return the code of the program they run instead.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitDenied      = 5
	exitPartly      = 6
	exitInterrupted = 130
)

func main() {
	if code, ok := upstream.Child(os.Args, os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	os.Exit(mainCode())
}

// mainCode runs the command line of the process. The first interrupt ends its
// context; a second one is not caught and ends the process at once.
func mainCode() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
}

// run executes one command line and returns the exit code of the process.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer, getenv func(string) string) int {
	return execute(ctx, &app{in: in, out: out, err: errOut, getenv: getenv}, newRoot, args)
}

// execute runs one command line of the tree that newRoot makes, and returns the exit
// code of the process. It is main without the process: nothing in it reads a global.
func execute(ctx context.Context, a *app, newRoot func(*app) *cobra.Command, args []string) int {
	a.version = version()
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd := root
	stopTracing, err := a.startTracing(ctx)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
		stopTracing()
	}
	code := exitCode(err)
	if ctx.Err() != nil && code != exitOK && !isChildExit(err) {
		code = exitInterrupted
	}
	if err != nil && !isChildExit(err) {
		if code == exitUsage && slices.Contains(args, "--json") {
			a.json = true // a wrong flag before it ended the parsing
		}
		a.fail(a.newFailure(err, code, cmd))
	}
	return code
}

// exitCode is the only place that maps an error to a status of the process.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[*syntax.SettingError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*statebackend.LockedError](err); ok {
		return exitConflict
	}
	if _, ok := errors.AsType[*addr.SyntaxError](err); ok {
		return exitUsage
	}
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return exitNotFound
	case errors.Is(err, oci.ErrExists), errors.Is(err, statebackend.ErrLockLost), errors.Is(err, statebackend.ErrStale), errors.Is(err, statebackend.ErrReplica):
		return exitConflict
	case errors.Is(err, oci.ErrUnauthenticated), errors.Is(err, oci.ErrDenied):
		return exitDenied
	}
	return exitFailure
}

// exitError gives an error an exit code that its sentinel does not tell.
type exitError struct {
	code  int
	err   error
	child bool // the code is that of a program okara ran, which has printed its own message
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func isChildExit(err error) bool {
	e, ok := errors.AsType[*exitError](err)
	return ok && e.child
}

// childExit returns the error that ends okara with the exit code of the
// program it ran, without a message of its own. It is nil for code 0.
func childExit(code int) error {
	if code == 0 {
		return nil
	}
	return &exitError{code: code, child: true}
}

// usageError is a mistake on the command line: exit code 2.
func usageError(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// partlyError says that some of several items failed: exit code 6.
func partlyError(format string, args ...any) error {
	return &exitError{code: exitPartly, err: fmt.Errorf(format, args...)}
}

// hintError carries what the user can do next; it is printed on a second line.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// withHint adds a next step to err. It returns nil for a nil err.
func withHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &hintError{err: err, hint: fmt.Sprintf(format, args...)}
}
