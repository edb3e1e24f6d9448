// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
)

func newApprove(reg *cli.Registries) *cobra.Command {
	return &cobra.Command{
		Use:   "approve ADDRESS@VERSION",
		Short: "Publish a version that waits for approval or was blocked by a scan",
		Long: `Give the candidate of a version its version tag. The scan report stays attached
to it, and a server that requires clean reports still refuses it.`,
		Example: "  okara depot approve net/vpc/aws@1.4.0\n  okara depot approve registry.opentofu.org/hashicorp/time@0.14.2",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !strings.Contains(args[0], "@") {
				return cli.UsageError("missing: the version; write %s@1.4.0", args[0])
			}
			it, v, err := addr.ParseItemVersion(args[0])
			if err != nil {
				return err
			}
			client, layout, err := reg.Client()
			if err != nil {
				return err
			}
			r, err := client.Repo(it.Repository(layout))
			if err != nil {
				return err
			}
			out, err := depot.New(depot.Options{Client: client, Layout: layout}).Approve(cmd.Context(), r, v, "")
			if err != nil {
				return err
			}
			return cli.PrintPublished(reg.App, out)
		},
	}
}
