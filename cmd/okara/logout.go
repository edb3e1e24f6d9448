// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/cli"
)

type logout struct {
	Host    string   `json:"host"`
	Removed []string `json:"removed"`
}

func newLogout(reg *cli.Registries) *cobra.Command {
	return &cobra.Command{
		Use:   "logout HOST",
		Short: "Remove the credentials stored by login",
		Long: `Remove the credentials for a registry from the credential helper or the Docker
configuration file. Credentials stored elsewhere by other tools stay, and a note
lists them.`,
		Example: `  okara logout ghcr.io`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := parseHost(args[0])
			if err != nil {
				return err
			}
			where, err := reg.Credentials().Logout(cmd.Context(), host)
			if err != nil {
				return err
			}
			list, err := reg.Credentials().Explain(cmd.Context(), host, "")
			if err != nil {
				return err
			}
			noteLeft(reg.App, host, list)
			text := "logged out of " + host + ", removed from " + strings.Join(where, ", ")
			if len(where) == 0 {
				text = "not logged in to " + host
			}
			return reg.PrintResult(logout{host, append([]string{}, where...)}, text)
		},
	}
}

func noteLeft(a *cli.App, host string, list []credentials.Candidate) {
	for _, c := range list {
		if c.Chosen && c.Source != credentials.Anonymous {
			a.Note("note: %s still has credentials for %s", c.Location, host)
		}
	}
}
