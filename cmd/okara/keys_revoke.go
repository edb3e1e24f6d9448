// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/signing"
)

func newKeysImport(a *cli.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import a key from another tool",
		Long: `Import an OpenPGP key from another tool into the keys on this machine, such as the output
of gpg --export-secret-keys --armor or gpg --export --armor. A protected private key stays
protected; its passphrase is read from OKARA_KEY_PASSPHRASE or --passphrase-file
when it is used.`,
		Example: `  okara keys import release-key.asc`,
		Args:    cobra.ExactArgs(1),
		RunE: inKeysDir(a, &dir, func(folder signing.KeyDir, args []string) error {
			b, err := os.ReadFile(args[0])
			if err != nil {
				return cli.UsageError("%w", err)
			}
			infos, err := folder.Import(b)
			if err != nil {
				return cli.UsageError("%s: %w", args[0], err)
			}
			return a.PrintResult(infos, keyTable(infos))
		}),
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`FOLDER` for the key files")
	return cmd
}

func newKeysRevoke(a *cli.App) *cobra.Command {
	var dir, reason, passphraseFile string
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Mark a key as revoked",
		Long: `Mark a key as revoked: it can no longer sign, and its public key says so. Publish that
file where your users find the key. Published versions keep their signature; sign them
again with another key and okara sign --replace. A server refuses what the key signed
once revoked_keys in its configuration contains the ID.`,
		Example: `  okara keys revoke 6F3C0A1B2C3D4E5F --reason "laptop stolen"`,
		Args:    cobra.ExactArgs(1),
		RunE: inKeysDir(a, &dir, func(folder signing.KeyDir, args []string) error {
			passphrase, err := readPassphrase(a, passphraseFile)
			if err != nil {
				return err
			}
			info, err := folder.Revoke(strings.ToUpper(args[0]), reason, passphrase)
			if errors.Is(err, os.ErrNotExist) {
				return cli.WithHint(&cli.ExitError{Code: cli.ExitNotFound, Err: fmt.Errorf("no private key %s in %s", args[0], folder)}, "`okara keys list` shows the keys")
			}
			if err != nil {
				return err
			}
			a.Note("publish the file where users find the key, add the ID to revoked_keys of a server, and sign again with another key: okara sign --replace")
			return a.PrintResult(info, info.Public)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "`FOLDER` with the key files")
	f.StringVar(&reason, "reason", "", "`TEXT` shown in the public key")
	f.StringVar(&passphraseFile, "passphrase-file", "", "`FILE` with the key's passphrase (or the variable OKARA_KEY_PASSPHRASE)")
	return cmd
}
