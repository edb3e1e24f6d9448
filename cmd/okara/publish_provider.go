// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
)

func newPublishProvider(reg *cli.Registries) *cobra.Command {
	var o providerFlags
	var server cli.ServerFlags
	cmd := &cobra.Command{
		Use:   "provider DIST NAMESPACE/TYPE VERSION",
		Short: "Publish a GoReleaser folder as a version of a provider",
		Long: `Publish a folder as a version of a provider.

DIST is a folder as written by GoReleaser: terraform-provider-TYPE_VERSION_OS_ARCH.zip
for each platform, and optionally SHA256SUMS, its signature and the registry manifest.
The zips are stored byte for byte. Everything is checked before anything is pushed, and
the version becomes visible when it is complete.

The registry manifest lists the protocols of the provider, 5.0 without one; the one in
the folder above DIST is used if SHA256SUMS lists it. --protocols replaces it.

A signature in the folder is verified with --openpgp-key and kept. Without one, SHA256SUMS
is signed with --sign-key; the private key stays on this machine.

Documentation in docs of DIST, or in --docs, is shown on the page of the version; it is
Markdown as for the public registries.

Published versions never change, except that --extend adds platforms: DIST then contains
the zips of all platforms, and existing ones must be unchanged.

` + serverHelp + `
An interrupted upload continues where it stopped.

Prints repository:tag@digest.

Exit codes: 0 published or already there, 2 usage, 4 the version exists with
other content, 5 denied.`,
		Example: `  okara publish provider ./dist acme/dns 1.2.3 --sign-key ~/.config/okara/keys/6F3C….asc
  okara publish provider ./dist acme/dns 1.2.3 --openpgp-key release.pub.asc
  okara publish provider ./dist acme/dns 1.2.3 --openpgp-key release.pub.asc --server https://okara.example.com`,
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := addr.ParseProvider(args[1])
			if err != nil {
				return cli.UsageError("%w", err)
			}
			if p.Hostname != "" {
				return cli.UsageError("provider %q: must be NAMESPACE/TYPE, without a host", args[1])
			}
			v, err := addr.ParseVersion(args[2])
			if err != nil {
				return cli.UsageError("%w", err)
			}
			dist, err := cli.OpenTree(args[0])
			if err != nil {
				return err
			}
			defer dist.Close()
			options, done, err := o.providerOptions(reg.App, args[0])
			if err != nil {
				return err
			}
			defer done()
			return publishOne(reg, server, func(to publisher) (depot.Published, error) {
				done, err := to.PublishProvider(cmd.Context(), dist.FS(), p, v, options)
				if err == nil && done.Existing && o.docs != "" {
					reg.Note("documentation is stored when a version is published, and not added later: publish the next version with --docs")
				}
				return done, err
			})
		},
	}
	f := cmd.Flags()
	server.Add(f)
	f.StringVar(&o.docs, "docs", "", "`FOLDER` with the documentation, usually docs in the source of a provider (default docs in DIST)")
	f.BoolVar(&o.extend, "extend", false, "add platforms missing from an existing version; existing ones must be unchanged")
	f.StringSliceVar(&o.protocols, "protocols", nil, "protocol `VERSIONS` of the provider, such as 5.0,6.0, instead of those in the registry manifest")
	f.StringArrayVar(&o.signKeys, "sign-key", nil, "armored OpenPGP private key `FILE` that signs SHA256SUMS (repeatable, while one key replaces another)")
	f.StringVar(&o.passphraseFile, "passphrase-file", "", "`FILE` with the key's passphrase (or the variable OKARA_KEY_PASSPHRASE)")
	f.StringArrayVar(&o.keys, "openpgp-key", nil, "armored OpenPGP public key `FILE` that made the signature in DIST (repeatable)")
	reg.KeepOldName(f, "openpgp-key", "key")
	return cmd
}

type providerFlags struct {
	signKeys, keys []string // files
	passphraseFile string
	extend         bool
	docs           string
	protocols      []string
}

// providerOptions reads the keys; the first one signs, and further ones add signatures. done closes
// the documentation.
func (f *providerFlags) providerOptions(a *cli.App, dist string) (o depot.ProviderOptions, done func(), err error) {
	o.Extend = f.extend
	o.Protocols = f.protocols
	if err := signing.CheckProtocols(f.protocols); err != nil {
		return o, nil, cli.UsageError("--protocols: %w", err)
	}
	if o.Manifest, err = readManifestAbove(dist); err != nil {
		return o, nil, err
	}
	if o.Annotations, err = publishAnnotations(a); err != nil {
		return o, nil, err
	}
	for _, file := range f.signKeys {
		key, err := readPrivateKey(a, file, f.passphraseFile)
		if err != nil {
			return o, nil, err
		}
		if o.SignKey == nil {
			o.SignKey = key
		} else {
			o.AlsoSign = append(o.AlsoSign, key)
		}
	}
	if o.Keys, err = readPublicKeys(f.keys); err != nil || f.docs == "" {
		return o, func() {}, err
	}
	docs, err := cli.OpenTree(f.docs)
	if err != nil {
		return o, nil, err
	}
	o.Docs = docs.FS()
	return o, func() { _ = docs.Close() }, nil // opened only for reading
}

// readManifestAbove reads the registry manifest in the source of a provider; nil if there is
// none in the folder above dist.
func readManifestAbove(dist string) ([]byte, error) {
	dist, err := filepath.Abs(dist)
	if err != nil {
		return nil, err
	}
	above, err := cli.OpenTree(filepath.Dir(dist))
	if err != nil {
		return nil, nil // it is optional
	}
	defer above.Close()
	f, err := above.FS().Open("terraform-registry-manifest.json")
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	const limit = 1 << 20
	return io.ReadAll(io.LimitReader(f, limit))
}

func readPrivateKey(a *cli.App, file, passphraseFile string) (*signing.Key, error) {
	return parseKeyFile(a, file, passphraseFile, signing.ParseKey)
}

func parseKeyFile[K any](a *cli.App, file, passphraseFile string, parse func(b, passphrase []byte) (*K, error)) (*K, error) {
	if file == "" {
		return nil, nil
	}
	b, passphrase, err := readKeyFile(a, file, passphraseFile)
	if err != nil {
		return nil, err
	}
	key, err := parse(b, passphrase)
	if err != nil {
		return nil, cli.UsageError("%s: %w", file, err)
	}
	return key, nil
}

func readKeyFile(a *cli.App, file, passphraseFile string) (key, passphrase []byte, err error) {
	if key, err = os.ReadFile(file); err != nil {
		return nil, nil, cli.WithHint(cli.UsageError("%w", err), "`okara keys list` shows the keys on this machine, `okara keys new` creates one")
	}
	passphrase, err = readPassphrase(a, passphraseFile)
	return key, passphrase, err
}

// readPassphrase returns the passphrase for private keys; nil if there is none.
func readPassphrase(a *cli.App, file string) ([]byte, error) {
	if file == "" {
		return []byte(a.Getenv("OKARA_KEY_PASSPHRASE")), nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	return bytes.TrimRight(b, "\r\n"), nil
}

func readPublicKeys(files []string) ([]signing.PublicKey, error) {
	keys, err := trust.ReadPublicKeys(files)
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	return keys, nil
}
