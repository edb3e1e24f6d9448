// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/trust"
)

// policyHelp describes policyFlags for commands that use versions.
const policyHelp = `With --require, --openpgp-key, --cosign-key, --certificate-identity or --block a
version is used only if it passes the checks of okara verify; one that is unsigned,
or signed by another key, is refused with the reason.`

// policyFlags set trusted keys and requirements on versions. They are the same for every
// command that reads versions.
type policyFlags struct{ trust.PolicyFiles }

func (p *policyFlags) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&p.OpenPGP, "openpgp-key", nil, "armored OpenPGP public key `FILE` to trust (repeatable)")
	f.StringArrayVar(&p.Cosign, "cosign-key", nil, "ECDSA public key `FILE` to trust for cosign signatures (repeatable)")
	f.StringArrayVar(&p.Names, "certificate-identity", nil, "`IDENTITY` in a Sigstore certificate to trust for cosign signatures, with * for any characters (repeatable)")
	f.StringVar(&p.Issuer, "certificate-oidc-issuer", "", "`URL` of the OIDC issuer that the certificate names")
	f.StringVar(&p.Root, "trusted-root", "", "`FILE` with the certificate authorities and logs to trust, such as Sigstore's trusted_root.json")
	f.StringSliceVar(&p.Require, "require", nil, "what is required: `openpgp|cosign|scan` (repeatable)")
	f.StringVar(&p.Block, "block", "", "fail on scan findings of this level and above: `critical|high|medium|low`")
	f.BoolVar(&p.Expired, "allow-expired-key", false, "accept a key that has expired")
}

func (p *policyFlags) readPolicy() (*trust.Policy, error) {
	o, err := p.Read()
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	return o, nil
}
