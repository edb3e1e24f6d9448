// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/signing"
)

// verified is the result of verify.
type verified struct {
	Address  string        `json:"address"`
	Version  string        `json:"version"`
	Verified bool          `json:"verified"`
	Checks   []depot.Check `json:"checks"`
}

func newVerify(a *app) *cobra.Command {
	var o depot.VerifyOptions
	var openpgp, cosign []string
	var digestFlag string
	cmd := &cobra.Command{
		Use:   "verify ADDRESS[@VERSION]",
		Short: "Check a version of a module or provider",
		Long: `Check a version of a module or provider: its manifests and hashes, the OpenPGP
signature over SHA256SUMS, a cosign signature, the newest scan report, and that it
has not been yanked. The first failure ends the checks.

Whom to trust is said by --openpgp-key and --cosign-key; keys in the artifact are
never trusted. Without them a signature that fits is "consistent", not "trusted".
--require makes a signature or report mandatory. --deep reads every blob and
computes the hashes again.

Exit codes: 0 verified, 1 a check failed, 2 usage, 3 there is no such version.`,
		Example: `  okara verify acme/dns@1.2.3 --openpgp-key release.pub.asc --require openpgp
  okara verify net/vpc/aws@1.4.0 --cosign-key cosign.pub --require cosign --deep`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			it, err := parseItem(args[0])
			if err != nil {
				return usageError("%w", err)
			}
			if o.Digest = digest.Digest(digestFlag); digestFlag != "" && o.Digest.Validate() != nil {
				return usageError("--digest %q is not a digest", digestFlag)
			}
			if err := checkPolicy(o); err != nil {
				return err
			}
			if o.OpenPGP, err = readPublicKeys(openpgp); err != nil {
				return err
			}
			if o.Cosign, err = readCosignKeys(cosign); err != nil {
				return err
			}
			client, layout, err := a.registryClient()
			if err != nil {
				return err
			}
			d := depot.New(depot.Options{Client: client, Layout: layout})
			_, v, err := itemVersion(cmd.Context(), d, layout, it)
			if err != nil {
				return err
			}
			checks, err := d.Verify(cmd.Context(), it.repository(layout), v, o)
			if err != nil && !errors.Is(err, depot.ErrUntrusted) {
				return err
			}
			var rows [][]string
			for _, c := range checks {
				rows = append(rows, []string{c.Result, c.Name, c.Detail})
			}
			address, _, _ := strings.Cut(args[0], "@")
			if perr := a.printResult(verified{address, v.String(), err == nil, checks}, table(rows)); perr != nil {
				return perr
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&openpgp, "openpgp-key", nil, "armored OpenPGP public key `FILE` to trust (repeatable)")
	f.StringArrayVar(&cosign, "cosign-key", nil, "ECDSA public key `FILE` to trust for cosign signatures (repeatable)")
	f.StringSliceVar(&o.Require, "require", nil, "what must be there: `openpgp|cosign|scan` (repeatable)")
	f.StringVar(&o.Block, "block", "", "fail on scan findings of this level and above: `critical|high|medium|low`")
	f.StringVar(&digestFlag, "digest", "", "the version must have this `DIGEST`")
	f.BoolVar(&o.AllowYanked, "allow-yanked", false, "accept a yanked version")
	f.BoolVar(&o.Deep, "deep", false, "read every blob and compute the hashes again")
	return cmd
}

func checkPolicy(o depot.VerifyOptions) error {
	for _, name := range o.Require {
		if !slices.Contains([]string{depot.RequireOpenPGP, depot.RequireCosign, depot.RequireScan}, name) {
			return usageError("--require %q is not openpgp, cosign or scan", name)
		}
	}
	if !slices.Contains([]string{"", "critical", "high", "medium", "low"}, o.Block) {
		return usageError("--block %q is not critical, high, medium or low", o.Block)
	}
	return nil
}

func readCosignKeys(files []string) ([]*ecdsa.PublicKey, error) {
	var keys []*ecdsa.PublicKey
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, usageError("%w", err)
		}
		key, err := signing.ParseCosignPublicKey(b)
		if err != nil {
			return nil, usageError("%s: %w", file, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}
