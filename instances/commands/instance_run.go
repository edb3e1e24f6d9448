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

// newInstanceRun is the command that a server starts for each attempt of a run. It has no
// other use. The process may outlive the server.
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
				return errors.New("the order of a run is too large")
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
