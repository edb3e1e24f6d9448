// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const ledgerLong = `Make a server accept the ledger of its instances as it is. A server does not
become the leader with a ledger that is older than before, that was replaced, or
that is empty although instances were created: it was restored from a backup, or
versions of it were removed. If the newer one cannot be restored, this command
makes the servers accept the existing one; they continue within seconds. Records
missing from it are lost: okara admin doctor instances lists the states
without a record.

REPOSITORY is that of the ledger, HOST[:PORT]/PATH, by default the prefix of the
server and /ledger. --key or OKARA_STATE_KEYS set the state keys of the server.
The ledger records who accepted it, and when.`

func newInstanceLedger(reg *cli.Registries) *cobra.Command {
	var f cli.KeyFlags
	var accept, yes bool
	cmd := &cobra.Command{
		Use:     "ledger REPOSITORY --accept",
		Short:   "Accept a restored or lost ledger",
		Long:    ledgerLong,
		Example: "  okara instance ledger registry.example.com/okara/ledger --accept",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !accept {
				return cli.UsageError("--accept is required")
			}
			l, err := openLedger(reg, &f, args[0])
			if err != nil {
				return err
			}
			if err := reg.Confirm(yes, "continue with the ledger in "+args[0]+" as it is"); err != nil {
				return err
			}
			a, err := l.Accept(cmd.Context(), statebackend.NewLockInfo("accept", reg.UserAgent()).Who)
			if _, led := errors.AsType[*statebackend.LockedError](err); led {
				return cli.WithHint(err, "a leader is using it, so there is nothing to accept; if that server is gone, wait for two minutes")
			}
			if err != nil {
				return err
			}
			return reg.PrintResult(a, fmt.Sprintf("accepted %s from serial %d on, with %s", a.Repository, a.Serial, text.Plural(a.Instances, "instance")))
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.Keys, "key", nil, "key `REFERENCE` of the states; repeatable (OKARA_STATE_KEYS)")
	fl.StringArrayVar(&f.Identities, "identity", nil, "age identity `FILE` of the states; repeatable (OKARA_STATE_IDENTITIES)")
	fl.BoolVar(&accept, "accept", false, "accept the ledger")
	cli.AddYes(fl, &yes)
	return cmd
}

func openLedger(reg *cli.Registries, f *cli.KeyFlags, reference string) (*ledger.Ledger, error) {
	o, err := f.StateOptions(reg.App)
	if err != nil {
		return nil, err
	}
	return ledger.New(ledger.Options{
		Repo: func(number int) (*oci.Repo, error) {
			name := reference
			if number > 1 {
				name += "-" + strconv.Itoa(number)
			}
			return reg.OpenRepo(name)
		},
		Sealer: o.Sealer, Tool: o.Tool, Logger: o.Logger,
	})
}

type acceptedClock struct {
	Accepted bool   `json:"accepted"`
	Held     string `json:"held,omitempty"` // why expiry was suspended
}

func newInstanceClock(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var accept bool
	cmd := &cobra.Command{
		Use:   "clock --accept",
		Short: "Confirm that the clock of the server is right",
		Long: `Confirm that the clock of the server is right. No instance expires while the
clocks of server and registry are more than 5 minutes apart, after one of them
jumped, or after the server was down for a week: a wrong clock would destroy
everything. If the clocks are in fact right, an admin confirms it, and
instances expire again.

` + instanceHelp,
		Example: "  okara instance clock --accept",
		Args:    cobra.NoArgs,
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, _ []string) error {
			if !accept {
				return cli.UsageError("--accept is required")
			}
			held, err := c.AcceptClock(ctx)
			if err != nil {
				return err
			}
			text := "clock accepted; expiry was not suspended"
			if held != "" {
				text = "clock accepted; expiry was suspended: " + held
			}
			return reg.PrintResult(acceptedClock{true, held}, text)
		}),
	}
	f.addTo(reg, cmd, true)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Flags().BoolVar(&accept, "accept", false, "let instances expire again")
	return cmd
}
