// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/statebackend"
)

type deletedState struct {
	Repository string `json:"repository"`
	Workspace  string `json:"workspace"`
	Last       int64  `json:"last_version"`
	Deleted    bool   `json:"deleted"`
}

func newStateDelete(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete [REPOSITORY] --workspace NAME",
		Short: "Delete a workspace; its versions stay until they are pruned",
		Long: `Delete a workspace, as "tofu workspace delete -force" does: the infrastructure
does not change. The versions stay, and "okara state restore" restores one.`,
		Example: "  okara state delete registry.example.com/state/shop -w old-test",
		Args:    cobra.MaximumNArgs(1),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("workspace") {
				return cli.UsageError("--workspace is required, even for the workspace %q", ws)
			}
			return nil
		},
		RunE: f.withStore(reg, 1, &ws, func(cmd *cobra.Command, s *statebackend.Store, args []string) error {
			ctx := cmd.Context()
			v, err := s.Current(ctx, ws)
			if err != nil {
				return noState(err, args[0], ws)
			}
			if err := reg.Confirm(yes, fmt.Sprintf("delete the state of workspace %q in %s", ws, args[0])); err != nil {
				return err
			}
			err = s.Hold(ctx, ws, statebackend.NewLockInfo("delete", reg.UserAgent()), func(l *statebackend.Lock) error { return l.Delete(ctx) })
			if err != nil {
				return err
			}
			reg.Note("restore it with: okara state restore %s %d -w %s", args[0], v.N, ws)
			return reg.PrintResult(deletedState{args[0], ws, v.N, true}, fmt.Sprintf("deleted workspace %s", ws))
		}),
	}
	f.workspaceFlag(reg, cmd, &ws)
	cli.AddYes(cmd.Flags(), &yes)
	return cmd
}
