// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
)

type signed struct {
	Address string `json:"address"`
	Version string `json:"version"`
	OpenPGP string `json:"openpgp,omitempty"` // tag of the event; "": the key had signed it before
	Cosign  string `json:"cosign,omitempty"`  // digest of the signature manifest; "": likewise

	replaced bool // the earlier OpenPGP signatures are gone
}

func (s signed) text() string {
	if s.OpenPGP == "" && s.Cosign == "" {
		return s.Address + "@" + s.Version + " is already signed"
	}
	if s.replaced {
		return s.Address + "@" + s.Version + " signed, earlier OpenPGP signatures removed"
	}
	return s.Address + "@" + s.Version + " signed"
}

type signers struct {
	openpgp *signing.Key      // nil: none
	cosign  *ecdsa.PrivateKey // nil: none
	replace bool
}

func newSign(reg *cli.Registries) *cobra.Command {
	var signKey, cosignKey, passphraseFile string
	var replace bool
	var server cli.ServerFlags
	cmd := &cobra.Command{
		Use:   "sign ADDRESS[@CONSTRAINT]",
		Short: "Add a signature to published versions",
		Long: `Add a signature to a published version, or to all versions that match a constraint;
without one to every version. Versions already signed with the key are skipped, so an
interrupted run can be repeated.

--cosign-key adds a cosign signature of a module or provider, without a transparency log;
the key is ECDSA P-256 in PEM, also in cosign's encrypted form.

--sign-key adds an OpenPGP signature over SHA256SUMS of a provider, which tofu and
terraform check. Old signatures stay, so both keys are valid while one replaces the
other; --replace removes them.

With --server the signature goes through an okara server, which requires a token,
as for okara publish; the key stays on this machine.

Exit codes: 0 signed, 2 usage, 3 version not found, 5 denied.`,
		Example: `  okara sign net/vpc/aws@1.4.0 --cosign-key cosign.key
  okara sign net/vpc/aws@1.4.0 --cosign-key cosign.key --server https://okara.example.com
  okara sign acme/dns@1.2.3 --sign-key new-key.asc
  okara sign acme/dns --sign-key new-key.asc           # every version`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if signKey == "" && cosignKey == "" {
				return cli.UsageError("no key given: use --sign-key or --cosign-key")
			}
			if replace && signKey == "" {
				return cli.UsageError("--replace is for OpenPGP signatures: it requires --sign-key")
			}
			it, err := addr.ParseSelection(args[0])
			if err != nil {
				return cli.UsageError("%w", err)
			}
			if signKey != "" && it.Kind == addr.KindModule {
				return cli.UsageError("modules have no OpenPGP signature; sign them with --cosign-key")
			}
			keys := signers{replace: replace}
			if err := keys.readKeys(reg.App, signKey, cosignKey, passphraseFile); err != nil {
				return err
			}
			front, err := cli.OpenFrontEnd(reg, server, nil)
			if err != nil {
				return err
			}
			if front != nil {
				return signThrough(cmd.Context(), reg.App, front, args[0], it, keys)
			}
			return signVersions(cmd.Context(), reg, args[0], keys)
		},
	}
	f := cmd.Flags()
	server.Add(f)
	f.StringVar(&signKey, "sign-key", "", "armored OpenPGP private key `FILE`, for providers")
	f.StringVar(&cosignKey, "cosign-key", "", "ECDSA private key `FILE`")
	f.StringVar(&passphraseFile, "passphrase-file", "", "`FILE` with the key's passphrase (or the variable OKARA_KEY_PASSPHRASE)")
	f.BoolVar(&replace, "replace", false, "remove the existing OpenPGP signatures and keys")
	return cmd
}

func (s *signers) readKeys(a *cli.App, signKey, cosignKey, passphraseFile string) (err error) {
	if s.openpgp, err = readPrivateKey(a, signKey, passphraseFile); err == nil {
		s.cosign, err = readCosignKey(a, cosignKey, passphraseFile)
	}
	return err
}

func signThrough(ctx context.Context, a *cli.App, front *client.Client, arg string, it addr.Selection, keys signers) error {
	if keys.openpgp != nil {
		return cli.UsageError("--server only supports signatures of --cosign-key")
	}
	v, err := addr.ParseVersion(it.Versions)
	if err != nil {
		return cli.UsageError("--server signs one version: %w", err)
	}
	path, err := frontPath(it.Item)
	if err != nil {
		return err
	}
	d, err := front.SignCosign(ctx, path, v, keys.cosign)
	if err != nil {
		return cli.ServerHint(err)
	}
	address, _, _ := strings.Cut(arg, "@")
	out := signed{Address: address, Version: v.String(), Cosign: d.String()}
	return a.PrintResult(out, out.text())
}

func signVersions(ctx context.Context, reg *cli.Registries, arg string, keys signers) error {
	t, err := selectItem(reg, arg, nil)
	if err != nil {
		return err
	}
	if exact, err := addr.ParseVersion(t.Versions); err == nil {
		one, err := keys.sign(ctx, t, exact)
		if err != nil {
			return err
		}
		return reg.PrintResult(one, one.text())
	}
	l, err := t.depot.Versions(ctx, t.Item)
	if err != nil {
		return err
	}
	versions, err := l.Selected(t.Selection)
	if err != nil {
		return err
	}
	var all []signed
	var lines []string
	for _, v := range versions {
		one, err := keys.sign(ctx, t, v)
		if err != nil {
			return fmt.Errorf("signing %s@%s: %w", t.address, v, err)
		}
		all = append(all, one)
		lines = append(lines, one.text())
	}
	return reg.PrintResult(all, strings.Join(lines, "\n"))
}

func (s signers) sign(ctx context.Context, t selected, v addr.Version) (signed, error) {
	out := signed{Address: t.address, Version: v.String()}
	subject, err := t.depot.Subject(ctx, t.Item, v)
	if err != nil {
		return signed{}, err
	}
	if s.openpgp != nil {
		e, err := trust.SignProvider(ctx, subject, s.openpgp, s.replace)
		if err != nil {
			return signed{}, err
		}
		out.OpenPGP = e.Tag
		out.replaced = s.replace && e.Tag != ""
	}
	if s.cosign != nil {
		m, err := trust.SignCosign(ctx, subject, s.cosign)
		if err != nil {
			return signed{}, err
		}
		out.Cosign = m.Digest.String()
	}
	return out, nil
}

func readCosignKey(a *cli.App, file, passphraseFile string) (*ecdsa.PrivateKey, error) {
	return parseKeyFile(a, file, passphraseFile, signing.ParseCosignKey)
}
