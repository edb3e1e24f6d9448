// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/files"
)

// KeyDir is a directory of keys: ID.asc, private, for its owner alone, and ID.pub.asc.
type KeyDir string

// StoredKey is a key in a directory; of cosign only file names.
type StoredKey struct {
	ID          string    `json:"id,omitempty"`
	Fingerprint string    `json:"fingerprint,omitempty"`
	UserID      string    `json:"user_id,omitempty"`
	Created     time.Time `json:"created,omitzero"`
	Expires     time.Time `json:"expires,omitzero"`
	Revoked     bool      `json:"revoked,omitempty"`
	Private     string    `json:"private,omitempty"` // file
	Public      string    `json:"public"`            // file
}

const (
	privateSuffix = ".asc"
	publicSuffix  = ".pub.asc"
)

// Create creates the directory if it does not exist.
func (d KeyDir) Create() error { return os.MkdirAll(string(d), 0o700) }

func (d KeyDir) keyFile(name string) string { return filepath.Join(string(d), name) }

// SaveCosign writes both halves of a cosign key, and never replaces a file.
func (d KeyDir) SaveCosign(private, public []byte) (StoredKey, error) {
	info := StoredKey{Private: d.keyFile("okara-cosign.key"), Public: d.keyFile("okara-cosign.pub")}
	if err := writeNew(info.Private, private, 0o600); err != nil {
		return StoredKey{}, err
	}
	return info, writeNew(info.Public, public, 0o644)
}

// Save writes both halves of a key. Existing files are never replaced.
func (d KeyDir) Save(key *Key, passphrase []byte) (StoredKey, error) {
	public, err := key.Public()
	if err != nil {
		return StoredKey{}, err
	}
	private, err := key.Armor(passphrase)
	if err != nil {
		return StoredKey{}, err
	}
	if err := d.Create(); err != nil {
		return StoredKey{}, err
	}
	info := newStoredKey(public, d.keyFile(public.ID+publicSuffix))
	info.Private = d.keyFile(public.ID + privateSuffix)
	if err := writeNew(info.Private, private, 0o600); err != nil {
		return StoredKey{}, err
	}
	return info, writeNew(info.Public, []byte(public.Armor), 0o644)
}

func writeNew(file string, b []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

func newStoredKey(k PublicKey, file string) StoredKey {
	return StoredKey{ID: k.ID, Fingerprint: k.Fingerprint, UserID: k.UserID, Created: k.Created, Expires: k.Expires, Revoked: k.Revoked, Public: file}
}

// List returns the keys of the directory, none if it does not exist.
func (d KeyDir) List() ([]StoredKey, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	infos := []StoredKey{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), publicSuffix) {
			continue
		}
		file := d.keyFile(e.Name())
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		keys, err := ParsePublicKeys(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, k := range keys {
			info := newStoredKey(k, file)
			private := strings.TrimSuffix(file, publicSuffix) + privateSuffix
			if _, err := os.Stat(private); err == nil {
				info.Private = private
			}
			infos = append(infos, info)
		}
	}
	return infos, nil
}

// Find returns the key with this ID or fingerprint. ok is false if there is none.
func (d KeyDir) Find(id string) (key StoredKey, ok bool, err error) {
	infos, err := d.List()
	if err != nil {
		return StoredKey{}, false, err
	}
	for _, k := range infos {
		if strings.EqualFold(k.ID, id) || strings.EqualFold(k.Fingerprint, id) {
			return k, true, nil
		}
	}
	return StoredKey{}, false, nil
}

// Rotate creates and saves the successor of a key.
func (d KeyDir) Rotate(old StoredKey, passphrase []byte, lifetime time.Duration) (StoredKey, error) {
	b, err := os.ReadFile(old.Public)
	if err != nil {
		return StoredKey{}, err
	}
	public, err := ParsePublicKeys(b)
	if err != nil {
		return StoredKey{}, fmt.Errorf("%s: %w", old.Public, err)
	}
	key, err := Successor(public[0], lifetime)
	if err != nil {
		return StoredKey{}, err
	}
	return d.Save(key, passphrase)
}

// Import stores the public keys in b, and b itself if it is a private key.
func (d KeyDir) Import(b []byte) ([]StoredKey, error) {
	if err := d.Create(); err != nil {
		return nil, err
	}
	public, private, err := SplitKeys(b)
	if err != nil {
		return nil, err
	}
	var infos []StoredKey
	for _, k := range public {
		info := newStoredKey(k, d.keyFile(k.ID+publicSuffix))
		if private {
			info.Private = d.keyFile(k.ID + privateSuffix)
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

// Revoke replaces both files of a key by revoked ones; fs.ErrNotExist without the private one.
func (d KeyDir) Revoke(id, reason string, passphrase []byte) (StoredKey, error) {
	file := d.keyFile(filepath.Base(id) + privateSuffix)
	b, err := os.ReadFile(file)
	if err != nil {
		return StoredKey{}, err
	}
	key, err := ParseKey(b, passphrase)
	if err != nil {
		return StoredKey{}, err
	}
	if err := key.Revoke(time.Now(), reason); err != nil {
		return StoredKey{}, fmt.Errorf("revoke key %s: %w", id, err)
	}
	public, err := key.Public()
	if err != nil {
		return StoredKey{}, err
	}
	private, err := key.Armor(passphrase)
	if err != nil {
		return StoredKey{}, err
	}
	info := newStoredKey(public, d.keyFile(public.ID+publicSuffix))
	info.Private = file
	// The public key first, because others need it.
	if err := files.Replace(info.Public, []byte(public.Armor), 0o644); err != nil {
		return StoredKey{}, err
	}
	return info, files.Replace(info.Private, private, 0o600)
}
