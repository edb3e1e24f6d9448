// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/signing"
)

func newKeys(a *cli.App) *cobra.Command {
	keys := cli.Parent("keys", "artifacts", "Create and list the keys that sign providers")
	keys.Long = `Create and list the OpenPGP keys that sign providers.

A private key is a file readable only by its owner, by default in
$XDG_CONFIG_HOME/okara/keys or ~/.config/okara/keys. The public key is next to it, with
the extension .pub.asc. Private keys are never sent to a server or a registry.`
	keys.AddCommand(newKeysNew(a), newKeysList(a), newKeysExport(a), newKeysImport(a), newKeysRotate(a), newKeysRevoke(a))
	return keys
}

func inKeysDir(a *cli.App, dir *string, run func(folder signing.KeyDir, args []string) error) runFunc {
	return func(_ *cobra.Command, args []string) error {
		folder, err := keysDir(a, *dir)
		if err != nil {
			return err
		}
		return run(folder, args)
	}
}

func keysDir(a *cli.App, dir string) (signing.KeyDir, error) {
	if dir != "" {
		return signing.KeyDir(dir), nil
	}
	config := a.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		home := a.Getenv("HOME")
		if home == "" {
			return "", cli.UsageError("neither XDG_CONFIG_HOME nor HOME is set; specify a folder with --dir")
		}
		config = filepath.Join(home, ".config")
	}
	return signing.KeyDir(filepath.Join(config, "okara", "keys")), nil
}

func newKeysNew(a *cli.App) *cobra.Command {
	var dir, passphraseFile string
	var o signing.KeyOptions
	var cosign bool
	var days int
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Create a key that signs providers",
		Long: `Create an OpenPGP key that signs providers: RSA with 4096 bits, valid for two years.

The private key is protected by the passphrase in OKARA_KEY_PASSPHRASE or
--passphrase-file, if set. Prints the key ID and the file of the private key.`,
		Example: `  okara keys new --name "Acme releases" --email release@example.com
  okara keys new --name CI --dir ./secrets --passphrase-file pass.txt`,
		Args: cobra.NoArgs,
		RunE: inKeysDir(a, &dir, func(folder signing.KeyDir, args []string) error {
			if days < 1 {
				return cli.UsageError("--days %d: must be at least 1", days)
			}
			if cosign {
				return saveNewCosignKey(a, folder)
			}
			o.Lifetime = time.Duration(days) * 24 * time.Hour
			return saveNewKey(a, folder, o, passphraseFile)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "`FOLDER` for the key files")
	f.StringVar(&o.Name, "name", "okara", "name in the key's user ID")
	f.StringVar(&o.Email, "email", "", "address in the key's user ID")
	f.BoolVar(&cosign, "cosign", false, "create an ECDSA key for okara sign --cosign-key instead, in okara-cosign.key and okara-cosign.pub")
	f.BoolVar(&o.ECC, "ed25519", false, "create an Ed25519 key, which older Terraform releases do not accept")
	f.IntVar(&days, "days", int(signing.DefaultLifetime/(24*time.Hour)), "days until the key expires")
	f.StringVar(&passphraseFile, "passphrase-file", "", "`FILE` with the passphrase that protects the key (or the variable OKARA_KEY_PASSPHRASE)")
	return cmd
}

func saveNewKey(a *cli.App, dir signing.KeyDir, o signing.KeyOptions, passphraseFile string) error {
	passphrase, err := readPassphrase(a, passphraseFile)
	if err != nil {
		return err
	}
	key, err := signing.NewKey(o)
	if err != nil {
		return cli.UsageError("%w", err)
	}
	info, err := dir.Save(key, passphrase)
	if err != nil {
		return err
	}
	noteUnprotected(a, passphrase)
	return a.PrintResult(info, info.ID+"\t"+info.Private)
}

func noteUnprotected(a *cli.App, passphrase []byte) {
	if len(passphrase) == 0 {
		a.Note("the private key is not protected by a passphrase: keep the file safe")
	}
}

func saveNewCosignKey(a *cli.App, dir signing.KeyDir) error {
	private, public, err := signing.NewCosignKey()
	if err != nil {
		return err
	}
	if err := dir.Create(); err != nil {
		return err
	}
	info, err := dir.SaveCosign(private, public)
	if err != nil {
		return cli.UsageError("%w", err)
	}
	noteUnprotected(a, nil)
	return a.PrintResult(info, info.Private)
}

func newKeysList(a *cli.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the keys on this machine",
		Example: `  okara keys list --json`,
		Args:    cobra.NoArgs,
		RunE: inKeysDir(a, &dir, func(folder signing.KeyDir, args []string) error {
			if dir != "" {
				if err := cli.CheckFolder(dir); err != nil {
					return err
				}
			}
			infos, err := folder.List()
			if err != nil {
				return err
			}
			if len(infos) == 0 {
				a.Note("no keys in %s; `okara keys new` creates one", folder)
			}
			return a.PrintResult(infos, keyTable(infos))
		}),
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`FOLDER` with the key files")
	return cmd
}

func keyTable(infos []signing.StoredKey) string {
	var rows [][]string
	for _, k := range infos {
		expires := "never"
		if !k.Expires.IsZero() {
			expires = k.Expires.Format(time.DateOnly)
		}
		if k.Revoked {
			expires = "revoked"
		}
		rows = append(rows, []string{k.ID, expires, k.UserID, cmp.Or(k.Private, k.Public)})
	}
	return cli.Table(rows)
}

func newKeysExport(a *cli.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "export ID",
		Short:   "Print the public key",
		Example: `  okara keys export 6F3C0A1B2C3D4E5F > release.pub.asc`,
		Args:    cobra.ExactArgs(1),
		RunE: inKeysDir(a, &dir, func(folder signing.KeyDir, args []string) error {
			k, err := findKey(folder, args[0])
			if err != nil {
				return err
			}
			b, err := os.ReadFile(k.Public)
			if err != nil {
				return err
			}
			return a.PrintResult(map[string]string{"id": k.ID, "ascii_armor": string(b)}, strings.TrimSuffix(string(b), "\n"))
		}),
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`FOLDER` with the key files")
	return cmd
}

func findKey(dir signing.KeyDir, id string) (signing.StoredKey, error) {
	k, ok, err := dir.Find(id)
	if err == nil && !ok {
		err = cli.WithHint(&cli.ExitError{Code: cli.ExitNotFound, Err: fmt.Errorf("no key %s in %s", id, dir)}, "`okara keys list` shows the keys")
	}
	return k, err
}
