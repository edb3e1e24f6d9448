// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // for systems without time zone data

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/buildinfo"
	"github.com/seed-141914ff/okara/internal/httpserve"
	_ "github.com/seed-141914ff/okara/internal/startup"
	"github.com/seed-141914ff/okara/internal/upstream"
)

// Exit codes, as okara has them.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	if code, ok := upstream.Child(os.Args, os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	httpserve.FallbackRoots(os.Getenv)
	os.Exit(mainCode())
}

// mainCode runs the process's command line; the second interrupt ends it at once.
func mainCode() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return executeCommand(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// executeCommand runs one command line and returns the exit code of the process.
func executeCommand(ctx context.Context, args []string, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(errOut, "okara-operator: %v\n", err)
	if e, ok := errors.AsType[*hintError](err); ok {
		fmt.Fprintf(errOut, "hint: %s\n", e.hint)
	} else if isUsage(err) {
		fmt.Fprintln(errOut, "hint: okara-operator run, portal, render and explain with --help have examples")
	}
	if isUsage(err) {
		return exitUsage
	}
	return exitFailure
}

// usageError is a mistake on the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func isUsage(err error) bool {
	_, usage := errors.AsType[*usageError](err)
	_, address := errors.AsType[*addr.SyntaxError](err)
	return usage || address
}

// hintError is an error with a hint about what the user can do next.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	help := func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root := &cobra.Command{
		Use: "okara-operator", Short: "Fill an OCI registry from Kubernetes objects",
		Version: buildinfo.Version(), SilenceErrors: true, SilenceUsage: true,
		Args: noArgs, RunE: help,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(newRun(), newPortal(), newRender(), newExplain())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			// an unknown shell is a usage error
			c.Args = noArgs
			c.RunE = help
		}
	}
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return usagef("unknown command %q", args[0])
	}
	return usagef("%s takes no arguments: %q", cmd.CommandPath(), args[0])
}
