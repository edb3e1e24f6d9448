// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/publishclient"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
)

// signed is the result of sign.
type signed struct {
	Address string `json:"address"`
	Version string `json:"version"`
	OpenPGP string `json:"openpgp,omitempty"` // tag of the event; "": the key has signed it before
	Cosign  string `json:"cosign,omitempty"`  // digest of the signature manifest; "": likewise
}

func (s signed) text() string {
	if s.OpenPGP == "" && s.Cosign == "" {
		return s.Address + "@" + s.Version + " is signed already"
	}
	return s.Address + "@" + s.Version + " signed"
}

// signers are the private keys of one run.
type signers struct {
	openpgp *signing.Key      // nil: none
	cosign  *ecdsa.PrivateKey // nil: none
	replace bool
}

func newSign(a *app) *cobra.Command {
	var signKey, cosignKey, passphraseFile string
	var replace bool
	var server serverFlags
	cmd := &cobra.Command{
		Use:   "sign ADDRESS[@CONSTRAINT]",
		Short: "Add a signature to versions that exist",
		Long: `Add a signature to a version that exists, or to all that a constraint allows;
without one to every version. What the key has signed already is left as it is, so a
run that was cut can be repeated.

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
  okara sign acme/dns@1.2.3 --sign-key new-key.asc
  okara sign acme/dns --sign-key new-key.asc           # every version`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if signKey == "" && cosignKey == "" {
				return usageError("no key given: --sign-key or --cosign-key")
			}
			it, err := addr.ParseSelection(args[0])
			if err != nil {
				return usageError("%w", err)
			}
			if signKey != "" && it.Kind == addr.KindModule {
				return usageError("modules have no OpenPGP signature; sign them with --cosign-key")
			}
			keys := signers{replace: replace}
			if err := keys.read(a, signKey, cosignKey, passphraseFile); err != nil {
				return err
			}
			address, _, _ := strings.Cut(args[0], "@")
			front, err := a.frontend(server, nil)
			if err != nil {
				return err
			}
			if front != nil {
				return a.signThrough(cmd.Context(), front, address, it, keys)
			}
			return a.sign(cmd.Context(), address, it, keys)
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

// read reads the private keys; an empty name is no key.
func (s *signers) read(a *app, signKey, cosignKey, passphraseFile string) (err error) {
	if s.openpgp, err = a.privateKey(signKey, passphraseFile); err == nil {
		s.cosign, err = a.cosignKey(cosignKey, passphraseFile)
	}
	return err
}

// signThrough signs one version through a front-end.
func (a *app) signThrough(ctx context.Context, front *publishclient.Client, address string, it addr.Selection, keys signers) error {
	if keys.openpgp != nil {
		return usageError("--server takes signatures of --cosign-key only")
	}
	v, err := addr.ParseVersion(it.Versions)
	if err != nil {
		return usageError("--server signs one version: %w", err)
	}
	path, err := frontPath(it.Item)
	if err != nil {
		return err
	}
	d, err := front.SignCosign(ctx, path, v, keys.cosign)
	if err != nil {
		return serverHint(err)
	}
	out := signed{Address: address, Version: v.String(), Cosign: d.String()}
	return a.printResult(out, out.text())
}

func (a *app) sign(ctx context.Context, address string, it addr.Selection, keys signers) error {
	client, layout, err := a.registryClient()
	if err != nil {
		return err
	}
	d := depot.New(depot.Options{Client: client, Layout: layout})
	if exact, err := addr.ParseVersion(it.Versions); err == nil {
		one, err := signOne(ctx, d, layout, it, exact, keys)
		if err != nil {
			return err
		}
		one.Address = address
		return a.printResult(one, one.text())
	}
	versions, err := selectedVersions(ctx, d, layout, it)
	if err != nil {
		return err
	}
	var all []signed
	var lines []string
	for _, v := range versions {
		one, err := signOne(ctx, d, layout, it, v, keys)
		if err != nil {
			return fmt.Errorf("signing %s@%s: %w", address, v, err)
		}
		one.Address = address
		all, lines = append(all, one), append(lines, one.text())
	}
	return a.printResult(all, strings.Join(lines, "\n"))
}

// selectedVersions lists what the constraint of the item allows.
func selectedVersions(ctx context.Context, d *depot.Depot, layout addr.Layout, it addr.Selection) ([]addr.Version, error) {
	l, err := d.Versions(ctx, it.Repository(layout))
	if err != nil {
		return nil, err
	}
	versions := slices.DeleteFunc(slices.Clone(l.Versions), func(v addr.Version) bool { return !it.Selects(v) })
	if len(versions) == 0 {
		return nil, fmt.Errorf("%s has no version that %s allows: %w", l.Repository, it.Versions, oci.ErrNotFound)
	}
	return versions, nil
}

func signOne(ctx context.Context, d *depot.Depot, layout addr.Layout, it addr.Selection, v addr.Version, keys signers) (signed, error) {
	out := signed{Version: v.String()}
	if keys.openpgp != nil {
		e, err := d.SignProvider(ctx, it.Provider, v, keys.openpgp, keys.replace)
		if err != nil {
			return signed{}, err
		}
		out.OpenPGP = e.Tag
	}
	if keys.cosign != nil {
		m, err := d.SignCosign(ctx, it.Repository(layout), v, keys.cosign)
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
