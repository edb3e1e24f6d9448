// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/signing"
)

func newKeysImport(a *app) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Add a key of another tool",
		Long: `Add an OpenPGP key of another tool, such as gpg --export-secret-keys --armor or
gpg --export --armor, to the keys on this machine. A protected private key stays
protected; its passphrase is asked for in OKARA_KEY_PASSPHRASE or --passphrase-file
when it is used.`,
		Example: `  okara keys import release-key.asc`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := a.keysDir(dir)
			if err != nil {
				return err
			}
			b, err := os.ReadFile(args[0])
			if err != nil {
				return usageError("%w", err)
			}
			infos, err := importKey(folder, b)
			if err != nil {
				return usageError("%s: %w", args[0], err)
			}
			return a.printResult(infos, keyTable(infos))
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`FOLDER` for the key files")
	return cmd
}

// importKey stores the public keys in b, and b itself if it is a private key.
func importKey(dir string, b []byte) ([]keyInfo, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	public, private, err := signing.SplitKeys(b)
	if err != nil {
		return nil, err
	}
	var infos []keyInfo
	for _, k := range public {
		info := newKeyInfo(k, filepath.Join(dir, k.ID+publicSuffix))
		if private {
			info.Private = filepath.Join(dir, k.ID+privateSuffix)
			if err := writeNew(info.Private, b, 0o600); err != nil {
				return nil, err
			}
		}
		if err := writeNew(info.Public, []byte(k.Armor), 0o644); err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func newKeysRevoke(a *app) *cobra.Command {
	var dir, reason, passphraseFile string
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Mark a key as revoked",
		Long: `Mark a key as revoked: it signs nothing any more, and the public key says so to
everybody who gets it. Publish that file where your users find the key. Versions
that were published keep their signature; sign them again with another key and
okara sign --replace. A front-end serves nothing with the key any more once its
configuration names the ID in revoked_keys.`,
		Example: `  okara keys revoke 6F3C0A1B2C3D4E5F --reason "laptop stolen"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := a.keysDir(dir)
			if err != nil {
				return err
			}
			passphrase, err := a.passphrase(passphraseFile)
			if err != nil {
				return err
			}
			info, err := revokeKey(folder, strings.ToUpper(args[0]), reason, passphrase)
			if errors.Is(err, os.ErrNotExist) {
				return &exitError{code: exitNotFound, err: fmt.Errorf("no private key %s in %s", args[0], folder)}
			}
			if err != nil {
				return err
			}
			return a.printResult(info, info.Public)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "`FOLDER` with the key files")
	f.StringVar(&reason, "reason", "", "`TEXT` that the public key shows")
	f.StringVar(&passphraseFile, "passphrase-file", "", "`FILE` with the key's passphrase (or the variable OKARA_KEY_PASSPHRASE)")
	return cmd
}

// revokeKey replaces both files of a key by revoked ones.
func revokeKey(dir, id, reason string, passphrase []byte) (keyInfo, error) {
	file := filepath.Join(dir, filepath.Base(id)+privateSuffix)
	b, err := os.ReadFile(file)
	if err != nil {
		return keyInfo{}, err
	}
	key, err := signing.ParseKey(b, passphrase)
	if err != nil {
		return keyInfo{}, err
	}
	if err := key.Revoke(time.Now(), reason); err != nil {
		return keyInfo{}, fmt.Errorf("revoke key %s: %w", id, err)
	}
	public, err := key.Public()
	if err != nil {
		return keyInfo{}, err
	}
	private, err := key.Armor(passphrase)
	if err != nil {
		return keyInfo{}, err
	}
	info := newKeyInfo(public, filepath.Join(dir, public.ID+publicSuffix))
	info.Private = file
	// The public key first: it is what others need.
	if err := writeRenamed(info.Public, []byte(public.Armor), 0o644); err != nil {
		return keyInfo{}, err
	}
	return info, writeRenamed(info.Private, private, 0o600)
}

// writeRenamed writes a temporary file and renames it.
func writeRenamed(file string, b []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".okara-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone after the rename
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
