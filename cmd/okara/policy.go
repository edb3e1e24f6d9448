// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/signing"
)

// policyHelp describes policyFlags where a command uses versions.
const policyHelp = `With --require,
--openpgp-key, --cosign-key or --block a version is used only if it passes the
checks of okara verify; one that is not signed, or by a key that is not named, is
refused with the reason.`

// policyFlags say whom to trust and what a version must have. They are the same
// for every command that reads versions.
type policyFlags struct {
	openpgp, cosign, require []string
	block                    string
	expired                  bool
}

func (p *policyFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&p.openpgp, "openpgp-key", nil, "armored OpenPGP public key `FILE` to trust (repeatable)")
	f.StringArrayVar(&p.cosign, "cosign-key", nil, "ECDSA public key `FILE` to trust for cosign signatures (repeatable)")
	f.StringSliceVar(&p.require, "require", nil, "what must be there: `openpgp|cosign|scan` (repeatable)")
	f.StringVar(&p.block, "block", "", "fail on scan findings of this level and above: `critical|high|medium|low`")
	f.BoolVar(&p.expired, "allow-expired-key", false, "accept a key that has expired")
}

// read returns the policy, nil if no flag is given. A yanked version is accepted:
// who names one, wants it.
func (p *policyFlags) read() (*depot.VerifyOptions, error) {
	if p.openpgp == nil && p.cosign == nil && p.require == nil && p.block == "" && !p.expired {
		return nil, nil
	}
	o := &depot.VerifyOptions{Require: p.require, Block: p.block, AllowYanked: true, AllowExpired: p.expired}
	for _, name := range p.require {
		if !slices.Contains([]string{depot.RequireOpenPGP, depot.RequireCosign, depot.RequireScan}, name) {
			return nil, usageError("requirement %q is not openpgp, cosign or scan", name)
		}
	}
	if !slices.Contains([]string{"", "critical", "high", "medium", "low"}, p.block) {
		return nil, usageError("level of findings %q is not critical, high, medium or low", p.block)
	}
	var err error
	if o.OpenPGP, err = readPublicKeys(p.openpgp); err != nil {
		return nil, err
	}
	o.Cosign, err = readCosignKeys(p.cosign)
	return o, err
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
