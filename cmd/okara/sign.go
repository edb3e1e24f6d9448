// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/signing"
)

// signed is the result of sign.
type signed struct {
	Address string `json:"address"`
	Version string `json:"version"`
	OpenPGP string `json:"openpgp,omitempty"` // tag of the event
	Cosign  string `json:"cosign,omitempty"`  // digest of the signature manifest
}

func newSign(a *app) *cobra.Command {
	var signKey, cosignKey, passphraseFile string
	var replace bool
	var server serverFlags
	cmd := &cobra.Command{
		Use:   "sign ADDRESS@VERSION",
		Short: "Add a signature to a version that exists",
		Long: `Add a signature to a version that exists.

--cosign-key signs the digest of a module or provider in the form of cosign's
signatures; it is an ECDSA P-256 key in PEM, also in cosign's encrypted form. There is
no entry in a transparency log. okara verify checks it.

--sign-key adds an OpenPGP signature over SHA256SUMS of a provider, which tofu and
terraform check. Old signatures stay, so that old and new key count while a key is
replaced; --replace drops them. The published version itself does not change.

With --server the signature goes through a front-end (okara serve), which needs a
token there as okara publish does; the key stays here.

Exit codes: 0 signed, 2 usage, 3 there is no such version, 5 denied.`,
		Example: `  okara sign net/vpc/aws@1.4.0 --cosign-key cosign.key
  okara sign net/vpc/aws@1.4.0 --cosign-key cosign.key --server https://okara.example.com
  okara sign acme/dns@1.2.3 --sign-key new-key.asc`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if signKey == "" && cosignKey == "" {
				return usageError("no key given: --sign-key or --cosign-key")
			}
			address, version, _ := strings.Cut(args[0], "@")
			it, err := parseItem(address)
			if err != nil {
				return usageError("%w", err)
			}
			v, err := addr.ParseVersion(version)
			if err != nil {
				return usageError("%w", err)
			}
			if signKey != "" && it.kind == addr.KindModule {
				return usageError("modules have no OpenPGP signature; sign them with --cosign-key")
			}
			openpgp, err := a.privateKey(signKey, passphraseFile)
			if err != nil {
				return err
			}
			cosign, err := a.cosignKey(cosignKey, passphraseFile)
			if err != nil {
				return err
			}
			out, err := a.sign(cmd.Context(), server, it, v, openpgp, cosign, replace)
			if err != nil {
				return err
			}
			out.Address = address
			return a.printResult(out, address+"@"+v.String()+" signed")
		},
	}
	f := cmd.Flags()
	server.add(f)
	f.StringVar(&signKey, "sign-key", "", "armored OpenPGP private key `FILE`, for providers")
	f.StringVar(&cosignKey, "cosign-key", "", "ECDSA private key `FILE`")
	f.StringVar(&passphraseFile, "passphrase-file", "", "`FILE` with the key's passphrase (or the variable OKARA_KEY_PASSPHRASE)")
	f.BoolVar(&replace, "replace", false, "drop the OpenPGP signatures and keys that are there")
	return cmd
}

func (a *app) sign(ctx context.Context, s serverFlags, it item, v addr.Version, openpgp *signing.Key, cosign *ecdsa.PrivateKey, replace bool) (signed, error) {
	front, err := a.frontend(s, nil)
	if err != nil {
		return signed{}, err
	}
	if front != nil {
		path, err := it.frontPath()
		switch {
		case err != nil:
			return signed{}, err
		case openpgp != nil:
			return signed{}, usageError("--server takes signatures of --cosign-key only")
		}
		d, err := front.SignCosign(ctx, path, v, cosign)
		return signed{Version: v.String(), Cosign: d.String()}, serverHint(err)
	}
	client, layout, err := a.registryClient()
	if err != nil {
		return signed{}, err
	}
	d := depot.New(depot.Options{Client: client, Layout: layout})
	out := signed{Version: v.String()}
	if openpgp != nil {
		e, err := d.SignProvider(ctx, it.provider, v, openpgp, replace)
		if err != nil {
			return signed{}, err
		}
		out.OpenPGP = e.Tag
	}
	if cosign != nil {
		m, err := d.SignCosign(ctx, it.repository(layout), v, cosign)
		if err != nil {
			return signed{}, err
		}
		out.Cosign = m.Digest.String()
	}
	return out, nil
}

// cosignKey reads an ECDSA private key; an empty name is no key.
func (a *app) cosignKey(file, passphraseFile string) (*ecdsa.PrivateKey, error) {
	if file == "" {
		return nil, nil
	}
	b, passphrase, err := a.keyFile(file, passphraseFile)
	if err != nil {
		return nil, err
	}
	key, err := signing.ParseCosignKey(b, passphrase)
	if err != nil {
		return nil, usageError("%s: %w", file, err)
	}
	return key, nil
}
