// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/buildinfo"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
)

// Run runs one command line of the tree that newRoot makes, and returns the exit code of
// the process. It does all of main's work without reading any globals.
func Run(ctx context.Context, a *App, newRoot func(*App) *cobra.Command, args []string) int {
	a.Version = buildinfo.Version()
	root := newRoot(a)
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		f := cmd.Flags().Lookup("dry-run")
		a.rehearses = f != nil && f.Value.String() == "true"
	}
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	cmd := root
	stopTracing, err := a.startTracing(ctx)
	if err == nil {
		if err = unknownHelp(root, args); err == nil {
			cmd, err = root.ExecuteContextC(ctx)
		}
		stopTracing()
	}
	code := exitCode(err)
	if ctx.Err() != nil && code != ExitOK && !isChildExit(err) {
		code = ExitInterrupted
	}
	if err != nil && !isChildExit(err) {
		if code == ExitUsage && slices.Contains(args, "--json") {
			a.JSON = true // a wrong flag before --json ended the parsing
		}
		f := a.newFailure(err, code, cmd)
		if code == ExitInterrupted {
			f = f.rewordInterrupted(ctx)
		}
		a.failCommand(f)
	}
	return code
}

// Failure is the end of a command line that failed: text on stderr and, with --json, the
// only document on stdout.
type Failure struct {
	Code   int    `json:"code"`
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"`
	Next   string `json:"next,omitempty"` // the next free version, if the version exists already
}

// newFailure uses the hint that an error carries, or the general one of its class.
func (a *App) newFailure(err error, code int, cmd *cobra.Command) Failure {
	f := Failure{Code: code, Reason: PlainReason(err)}
	if e, ok := errors.AsType[*hintError](err); ok {
		f.Hint = e.hint
	} else if before, own, ok := strings.Cut(f.Reason, "\nhint: "); ok {
		f.Reason = before
		f.Hint = own
	} else if f.Hint = a.classHint(err); f.Hint == "" && (code == ExitUsage && !hasType[*syntax.SettingError](err)) {
		f.Hint = usageHint(cmd)
	}
	if e, ok := errors.AsType[*depot.ConflictError](err); ok && e.Next != (addr.Version{}) {
		f.Next = e.Next.String()
	}
	return f
}

// rewordInterrupted rewords f for an interruption: the interrupted operation reports the name of
// the context error, or of its cause.
func (f Failure) rewordInterrupted(ctx context.Context) Failure {
	for _, name := range []string{context.Canceled.Error(), context.Cause(ctx).Error()} {
		f.Reason = strings.ReplaceAll(f.Reason, name, "interrupted")
	}
	return f
}

// printFailure writes the message, then the hint on a line of its own.
func (a *App) printFailure(f Failure) {
	fmt.Fprintf(a.Err, "%s %s\n", a.paintWords(a.Err, red, "okara:"), text.Block(f.Reason))
	if f.Hint != "" {
		fmt.Fprintf(a.Err, "%s %s\n", a.paintWords(a.Err, cyan, "hint:"), text.Block(f.Hint))
	}
}

// Explain prints why a program that okara ran has failed, with a hint; code is the exit
// code of the program.
func (a *App) Explain(err error, code int) { a.printFailure(a.newFailure(err, code, nil)) }

// failCommand prints how the command line failed. If a result is on stdout already, such as the
// list of a partly successful run, it remains the only document.
func (a *App) failCommand(f Failure) {
	a.printFailure(f)
	if a.JSON && !a.Printed {
		_ = a.PrintResult(map[string]Failure{"error": f}, "") // the exit code says so too
	}
}
