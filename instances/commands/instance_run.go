// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/internal/child"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/internal/cli"
)

// maxOrder bounds the input of a run, in bytes: a spec with all values of its credentials.
const maxOrder = 16 << 20

// newInstanceRun is the command that a server starts for each attempt; its process may outlive it.
func newInstanceRun(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:    "instance-run",
		Short:  "Execute one attempt of a run, described on standard input",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := sandbox.Harden(); err != nil {
				return err
			}
			b, err := io.ReadAll(io.LimitReader(a.In, maxOrder+1))
			if err != nil {
				return err
			}
			if len(b) > maxOrder {
				return errors.New("the description of the run is too large")
			}
			order, err := child.ReadOrder(b)
			if err != nil {
				return err
			}
			if len(order.Ask) > 0 {
				return child.Answer(order, os.Environ(), a.Out)
			}
			return child.Run(cmd.Context(), child.Options{Order: order, Getenv: a.Getenv, UserAgent: a.UserAgent()})
		},
	}
}

// newInstanceExec is the command by which a run starts the tool inside its sandbox.
func newInstanceExec() *cobra.Command {
	var o sandbox.ExecOptions
	cmd := &cobra.Command{
		Use:    sandbox.ExecCommand + " [flags] -- PROGRAM [ARG...]",
		Short:  "Limit this process and become another program",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return sandbox.Exec(o, args, os.Environ()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Base, "base", "", "`FOLDER` that --dir is in")
	f.StringVar(&o.Dir, "dir", "", "`FOLDER` to work in")
	f.IntVar(&o.UID, "uid", 0, "user `ID` to switch to; 0: keep the current user")
	f.IntVar(&o.GID, "gid", 0, "group `ID`, with --uid")
	f.Int64Var(&o.Memory, "memory", 0, "`BYTES` of data of each process")
	f.Int64Var(&o.FileSize, "file-size", 0, "`BYTES` of each file")
	f.IntVar(&o.Processes, "processes", 0, "`NUMBER` of processes and threads of the user")
	return cmd
}

// newInstanceEnter is the command that starts a run in a sandbox.
func newInstanceEnter() *cobra.Command {
	var o sandbox.EnterOptions
	cmd := &cobra.Command{
		Use:    sandbox.EnterCommand + " [flags] -- PROGRAM [ARG...]",
		Short:  "Run another program with a folder in memory",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return sandbox.Enter(o, args, os.Environ()) },
	}
	f := cmd.Flags()
	f.Int64Var(&o.Size, "size", 0, "`BYTES` of the folder")
	f.IntVar(&o.UID, "uid", 0, "user `ID` of the tool; 0: the current user")
	f.IntVar(&o.GID, "gid", 0, "group `ID`, with --uid")
	f.StringVar(&o.Errored, "errored", "", "`FILE` for a state that cannot be stored")
	f.StringArrayVar(&o.Show, "show", nil, "`FILE` or folder that the tool sees")
	f.BoolVar(&o.Inside, "inside", false, "the namespace exists")
	return cmd
}
