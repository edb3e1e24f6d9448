// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/oci"
)

func newAuthToken(reg *cli.Registries) *cobra.Command {
	return &cobra.Command{
		Use:   "token HOST",
		Short: "Print a registry credential as one token for TF_TOKEN_... variables",
		Long: `Print the credential for a registry in the single-token form that a server in
pass-through mode forwards to that registry: basic.<base64url of USER:PASSWORD>,
identity.<base64url of an identity token>, or a registry token unchanged. The output is
a secret.`,
		Example: `  export TF_TOKEN_okara_example_com="$(okara auth token ghcr.io)"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, c, err := findCredential(cmd.Context(), reg, args[0])
			if err != nil {
				return err
			}
			if c == (oci.Credential{}) {
				return noCredential(t)
			}
			token := credentials.EncodeToken(c)
			return reg.PrintResult(map[string]string{"token": token}, token)
		},
	}
}
