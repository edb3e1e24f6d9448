// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/buildinfo"
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
