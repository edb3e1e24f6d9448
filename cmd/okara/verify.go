// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
)

type verified struct {
	Address  string        `json:"address"`
	Version  string        `json:"version"`
	Verified bool          `json:"verified"`
	Checks   []trust.Check `json:"checks"`
}

func newVerify(reg *cli.Registries) *cobra.Command {
	var policy policyFlags
	var server cli.ServerFlags
	var digestFlag string
	var allowYanked, deep bool
	cmd := &cobra.Command{
		Use:   "verify ADDRESS[@VERSION]",
		Short: "Check a version of a module or provider",
		Long: `Check a version of a module or provider: its manifests and hashes, the OpenPGP signature
over SHA256SUMS, a cosign signature, the newest scan report, and that it is not
withdrawn. The checks stop at the first failure.

--openpgp-key and --cosign-key name the trusted keys; keys in the artifact are
never trusted. Without them a valid signature is "consistent", not "trusted".
--certificate-identity, --certificate-oidc-issuer and --trusted-root trust a cosign
signature without a key instead; Sigstore is not contacted.
--require makes a signature or report mandatory. --deep reads every blob and
computes the hashes again.

` + readServerHelp + ` Everything
is checked locally, with these keys. What is not signed depends on the server:
whether the version is withdrawn, its reports, and which version is the newest.

Exit codes: 0 verified, 1 a check failed, 2 usage, 3 version not found, 5 denied.`,
		Example: `  okara verify acme/dns@1.2.3 --openpgp-key release.pub.asc --require openpgp
  okara verify net/vpc/aws@1.4.0 --cosign-key cosign.pub --require cosign --deep
  okara verify net/vpc/aws --cosign-key cosign.pub --server https://okara.example.com
  okara verify net/vpc/aws --require cosign --trusted-root trusted_root.json \
    --certificate-identity 'https://github.com/acme/vpc/.github/workflows/release.yml@refs/tags/*' \
    --certificate-oidc-issuer https://token.actions.githubusercontent.com`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := policy.readPolicy()
			if err != nil {
				return err
			}
			o = cmp.Or(o, &trust.Policy{})
			o.AllowYanked = allowYanked
			o.Deep = deep
			if o.Digest = digest.Digest(digestFlag); digestFlag != "" && o.Digest.Validate() != nil {
				return cli.UsageError("--digest %q is not a digest", digestFlag)
			}
			server.Checks = true
			t, err := pickRead(cmd.Context(), reg, server, args[0], nil)
			if err != nil {
				return err
			}
			checks, err := t.depot.Verify(cmd.Context(), t.Item, t.version, *o)
			if err != nil && !errors.Is(err, trust.ErrUntrusted) {
				return err
			}
			if perr := reg.PrintResult(verified{t.address, t.version.String(), err == nil, checks}, checksText(checks)); perr != nil {
				return perr
			}
			if errors.Is(err, oci.ErrNotFound) { // a part of the version
				err = &cli.ExitError{Code: cli.ExitFailure, Err: err}
			}
			return err
		},
	}
	policy.addTo(cmd)
	server.Add(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&digestFlag, "digest", "", "the version must have this `DIGEST`")
	f.BoolVar(&allowYanked, "allow-yanked", false, "accept a withdrawn version")
	f.BoolVar(&deep, "deep", false, "read every blob and compute the hashes again")
	return cmd
}

func checksText(checks []trust.Check) string {
	var rows [][]string
	for _, c := range checks {
		rows = append(rows, []string{c.Result, c.Name, c.Detail})
	}
	return cli.Table(rows)
}
