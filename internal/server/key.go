// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/files"
)

// archiveKey reads the secret that signs archive links, and makes it on the
// first start. Replicas need the same file.
func archiveKey(file string) (access.Key, error) {
	key, err := readArchiveKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newArchiveKey(file)
	}
	return key, err
}

func readArchiveKey(file string) (access.Key, error) {
	secret, err := files.ReadSecret(file)
	return access.Key{Secret: secret}, err
}

func newArchiveKey(file string) (access.Key, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return access.Key{}, err
	}
	secret := make([]byte, sha256.Size)
	rand.Read(secret) // never fails
	tmp, err := os.CreateTemp(filepath.Dir(file), ".key-*")
	if err != nil {
		return access.Key{}, err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(hex.EncodeToString(secret) + "\n")
	if err = errors.Join(err, tmp.Close()); err != nil {
		return access.Key{}, fmt.Errorf("write %s: %w", file, err)
	}
	// A link, not a rename: of two servers that start at once, one wins and
	// the other reads the winner's key.
	err = os.Link(tmp.Name(), file)
	if errors.Is(err, fs.ErrExist) {
		return archiveKey(file)
	}
	return access.Key{Secret: secret}, err
}
