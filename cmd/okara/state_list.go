// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/oci"
)

func newStateList(reg *registries, f *stateFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "list REPOSITORY",
		Short:   "List the workspaces that have a state",
		Example: "  okara state list registry.example.com/infrastructure/tofu-state",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.store(reg, args[0])
			if err != nil {
				return err
			}
			names, err := workspaces(cmd.Context(), s)
			if err != nil && !errors.Is(err, oci.ErrNotFound) { // no repository yet: no workspace
				return err
			}
			if len(names) == 0 {
				names = []string{} // in JSON a list
				reg.note("no state in %s", args[0])
			}
			return reg.printResult(struct {
				Repository string   `json:"repository"`
				Workspaces []string `json:"workspaces"`
			}{args[0], names}, strings.Join(names, "\n"))
		},
	}
}
