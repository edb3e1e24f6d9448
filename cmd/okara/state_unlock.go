// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const unlockLong = `Remove a lock whose holder is gone. If the holder is still running, two runs can change
infrastructure at once; its next state write is refused and kept as a version.

--id removes the lock with that ID, as printed by "okara state locks". --take-over removes
any lock of the workspace, acquires the lock and releases it again, so the next versions get
higher numbers than any of the old holder.`

type unlockedState struct {
	Repository string `json:"repository"`
	Workspace  string `json:"workspace"`
	ID         string `json:"id,omitempty"`
	Unlocked   bool   `json:"unlocked"`
}

func newStateUnlock(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws, id string
	var takeOver, yes bool
	cmd := &cobra.Command{
		Use:   "unlock [REPOSITORY] (--id ID | --take-over)",
		Short: "Remove the lock of a run that is gone",
		Long:  unlockLong,
		Example: `  okara state unlock registry.example.com/state/shop -w prod --id 6f1c6b1e-55d0-4a9c-b6cf-3c7b3b8b5d0e
  okara state unlock registry.example.com/state/shop --take-over --yes`,
		Args: cobra.MaximumNArgs(1),
		PreRunE: func(*cobra.Command, []string) error {
			if (id == "") == !takeOver {
				return cli.UsageError("exactly one of --id and --take-over is required")
			}
			return nil
		},
		RunE: f.withStore(reg, 1, &ws, func(cmd *cobra.Command, s *statebackend.Store, args []string) error {
			if err := reg.Confirm(yes, fmt.Sprintf("remove the lock of workspace %q in %s", ws, args[0])); err != nil {
				return err
			}
			end := func() error { return s.ForceUnlock(cmd.Context(), ws, id) }
			if takeOver {
				end = func() error { return endAnyLock(cmd.Context(), s, ws, reg.UserAgent()) }
			}
			if err := end(); errors.Is(err, oci.ErrNotFound) && !takeOver {
				return cli.WithHint(err, "`okara state locks %s` shows the locks", args[0])
			} else if err != nil {
				return err
			}
			return reg.PrintResult(unlockedState{args[0], ws, id, true}, fmt.Sprintf("unlocked workspace %s", ws))
		}),
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().StringVar(&id, "id", "", "`ID` of the lock to remove")
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "remove any lock that is held")
	cli.AddYes(cmd.Flags(), &yes)
	return cmd
}

func endAnyLock(ctx context.Context, s *statebackend.Store, ws, tool string) error {
	if list, err := s.List(ctx); err != nil || list.Size() == 0 {
		return cmp.Or(err, noStates(fmt.Sprint(s.Repo())))
	}
	l, err := s.TakeOver(ctx, ws, statebackend.NewLockInfo("takeover", tool))
	if err != nil {
		return err
	}
	return l.UnlockRetrying(ctx)
}
