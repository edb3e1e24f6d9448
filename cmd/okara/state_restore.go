// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/statebackend"
)

func newStateRestore(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var lostKey, yes bool
	var n int64
	cmd := &cobra.Command{
		Use:   "restore [REPOSITORY] N",
		Short: "Restore the content of version N as a new version",
		Long: `Store the content of version N as a new version, under the lock. Nothing is removed: the
versions in between stay, and restoring can be undone the same way. The serial becomes
one more than the current one, except in states encrypted by OpenTofu, whose serial
cannot be changed without their key.

Restoring a state that okara encrypted requires its key, so an older unencrypted version
cannot become current. If the key of the current version is lost, --force restores a
version that another key decrypts: from then on the state is encrypted with the keys of
--key, and holders of other keys cannot read it.`,
		Example: "  okara state restore registry.example.com/state/shop 41 -w prod",
		Args:    cobra.RangeArgs(1, 2),
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			if last := args[len(args)-1]; len(args) == 1 && strings.Contains(last, "/") {
				return cli.WithHint(cli.UsageError("missing: N"), "`okara state history %s` shows the numbers", last)
			}
			n, err = versionArg(args[len(args)-1])
			return err
		},
		RunE: f.withStore(reg, 2, &ws, func(cmd *cobra.Command, s *statebackend.Store, args []string) error {
			old, _, err := s.GetVersion(cmd.Context(), ws, n)
			if err != nil {
				return noState(err, args[0], ws)
			}
			if err := reg.ConfirmOverwrite(yes, fmt.Sprintf("make version %d the current state of workspace %q in %s", n, ws, args[0])); err != nil {
				return err
			}
			var v statebackend.Version
			if err := s.Hold(cmd.Context(), ws, statebackend.NewLockInfo(fmt.Sprintf("restore of version %d", n), reg.UserAgent()), func(l *statebackend.Lock) error {
				v, err = l.Restore(statebackend.WithUsageOf(cmd.Context(), s, ws, n), old, lostKey)
				return closedHead(err, old, lostKey)
			}); err != nil {
				return err
			}
			if statebackend.EncryptedByTool(old) {
				reg.Note("the state is encrypted by OpenTofu, its serial is that of version %d", n)
			}
			return reg.PrintResult(v, fmt.Sprintf("workspace %s: version %d has the content of version %d", ws, v.N, n))
		}),
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().BoolVar(&lostKey, "force", false, "continue even if no key decrypts the current version")
	cli.AddYes(cmd.Flags(), &yes)
	return cmd
}

// closedHead adds advice to the error of a key that does not open the current version, for
// the case that the right key is lost. The version to restore was opened.
func closedHead(err error, old []byte, lostKey bool) error {
	if !errors.Is(err, envelope.ErrKey) || lostKey || statebackend.EncryptedByTool(old) {
		return err
	}
	return cli.WithHint(fmt.Errorf("cannot decrypt the current version: %w", err), "also specify one of its keys: %s; if all of them are lost, use --force", states.KeyOptions)
}

func versionArg(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return 0, cli.UsageError("version %q is not a positive number", s)
	}
	return n, nil
}
