// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/bundle"
	"github.com/seed-141914ff/okara/internal/syntax"
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

// exitCode is the only place that maps an error to an exit code.
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
	case isWrongPath(err), errors.Is(err, bundle.ErrNone):
		return ExitUsage
	}
	return ExitFailure
}

// ExitError gives an error an exit code that the error itself does not imply.
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

// PartlyBecause is PartlyError with the hint for cause, which was printed before.
func PartlyBecause(cause error, format string, args ...any) error {
	return &ExitError{Code: ExitPartly, Err: Because(cause, format, args...)}
}

// Because is an error with the exit code and the hint of cause, which was printed before.
func Because(cause error, format string, args ...any) error {
	return &becauseError{fmt.Sprintf(format, args...), cause}
}

type becauseError struct {
	text  string
	cause error
}

func (e *becauseError) Error() string { return e.text }

func (e *becauseError) Unwrap() error { return e.cause }

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
