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
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitConflict    = 4
	ExitDenied      = 5
	ExitPartly      = 6
	ExitInterrupted = 130
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
	return Run(ctx, &App{In: in, Out: out, Err: errOut, Getenv: getenv}, newRoot, args)
}

// Run runs one command line of the tree that newRoot makes, and returns the exit
// code of the process. It is main without the process: nothing in it reads a global.
func Run(ctx context.Context, a *App, newRoot func(*App) *cobra.Command, args []string) int {
	a.Version = version()
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	cmd := root
	stopTracing, err := a.startTracing(ctx)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
		stopTracing()
	}
	code := exitCode(err)
	if ctx.Err() != nil && code != ExitOK && !isChildExit(err) {
		code = ExitInterrupted
	}
	if err != nil && !isChildExit(err) {
		if code == ExitUsage && slices.Contains(args, "--json") {
			a.JSON = true // a wrong flag before it ended the parsing
		}
		a.fail(a.newFailure(err, code, cmd))
	}
	return code
}

// exitCode is the only place that maps an error to a status of the process.
func exitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	if _, ok := errors.AsType[*syntax.SettingError](err); ok {
		return ExitUsage
	}
	if _, ok := errors.AsType[*statebackend.LockedError](err); ok {
		return ExitConflict
	}
	if _, ok := errors.AsType[*addr.SyntaxError](err); ok {
		return ExitUsage
	}
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return ExitNotFound
	case errors.Is(err, oci.ErrExists), errors.Is(err, statebackend.ErrLockLost), errors.Is(err, statebackend.ErrStale), errors.Is(err, statebackend.ErrReplica):
		return ExitConflict
	case errors.Is(err, oci.ErrUnauthenticated), errors.Is(err, oci.ErrDenied):
		return ExitDenied
	}
	return ExitFailure
}

// ExitError gives an error an exit code that its sentinel does not tell.
type ExitError struct {
	Code  int
	Err   error
	child bool // the code is that of a program okara ran, which has printed its own message
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

func isChildExit(err error) bool {
	e, ok := errors.AsType[*ExitError](err)
	return ok && e.child
}

// ChildExit returns the error that ends okara with the exit code of the
// program it ran, without a message of its own. It is nil for code 0.
func ChildExit(code int) error {
	if code == 0 {
		return nil
	}
	return &ExitError{Code: code, child: true}
}

// UsageError is a mistake on the command line: exit code 2.
func UsageError(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// PartlyError says that some of several items failed: exit code 6.
func PartlyError(format string, args ...any) error {
	return &ExitError{Code: ExitPartly, Err: fmt.Errorf(format, args...)}
}

// hintError carries what the user can do next; it is printed on a second line.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// WithHint adds a next step to err. It returns nil for a nil err.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &hintError{err: err, hint: fmt.Sprintf(format, args...)}
}
