// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/signing"
)

type rotated struct {
	Old signing.StoredKey `json:"old"`
	New signing.StoredKey `json:"new"`
}

func newKeysRotate(a *cli.App) *cobra.Command {
	var dir, passphraseFile string
	var days int
	cmd := &cobra.Command{
		Use:   "rotate ID",
		Short: "Create a key that replaces another",
		Long: `Create a key of the same user and type to replace key ID. The old key stays: its
signatures remain valid, and both sign new versions until everyone trusts the new one.

  okara publish provider ... --sign-key OLD --sign-key NEW
  okara sign NAMESPACE/TYPE --sign-key NEW     adds its signature to every version

Publish the new public key where your users find the old one. When all of them have it,
stop signing with the old key, or let it expire; revoke a lost or stolen key with okara
keys revoke.

Prints the new key's ID and the private key's file.

Exit codes: 0 done, 2 usage, 3 key not found.`,
		Example: `  okara keys rotate 6F3C0A1B2C3D4E5F`,
		Args:    cobra.ExactArgs(1),
		RunE: inKeysDir(a, &dir, func(folder signing.KeyDir, args []string) error {
			if days < 1 {
				return cli.UsageError("--days %d: must be at least 1", days)
			}
			passphrase, err := readPassphrase(a, passphraseFile)
			if err != nil {
				return err
			}
			old, err := findKey(folder, args[0])
			if err != nil {
				return err
			}
			made, err := folder.Rotate(old, passphrase, time.Duration(days)*24*time.Hour)
			if err != nil {
				return err
			}
			noteUnprotected(a, passphrase)
			if old.Revoked {
				a.Note("replace the signatures of every version: okara sign NAMESPACE/TYPE --sign-key %s --replace", made.Private)
				return a.PrintResult(rotated{Old: old, New: made}, made.ID+"\t"+made.Private)
			}
			a.Note("sign every version again: okara sign NAMESPACE/TYPE --sign-key %s", made.Private)
			a.Note("sign new versions with both keys: --sign-key %s --sign-key %s", cmp.Or(old.Private, "OLD"), made.Private)
			return a.PrintResult(rotated{Old: old, New: made}, made.ID+"\t"+made.Private)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "`FOLDER` with the key files")
	f.IntVar(&days, "days", int(signing.DefaultLifetime/(24*time.Hour)), "days until the new key expires")
	f.StringVar(&passphraseFile, "passphrase-file", "", "`FILE` with the passphrase that protects the new key (or the variable OKARA_KEY_PASSPHRASE)")
	return cmd
}
