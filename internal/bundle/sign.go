// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
)

// maxSignature bounds a signature file, in bytes.
const maxSignature = 64 << 10

// signatureFile names the detached OpenPGP signature of index.json, which authenticates all of it.
func (b *File) signatureFile() string { return b.file.Name() + ".sig" }

// Sign writes FILE.sig, replacing an earlier one, and returns that name.
func (b *File) Sign(k *signing.Key, now time.Time) (string, error) {
	sig, err := k.Sign(b.IndexRaw, now)
	if err != nil {
		return "", fmt.Errorf("signing the bundle: %w", err)
	}
	if err := files.Replace(b.signatureFile(), sig, 0o644); err != nil {
		return "", fmt.Errorf("signing the bundle: %w", err)
	}
	return b.signatureFile(), nil
}

// VerifySignature checks FILE.sig and returns its key, or wraps trust.ErrUntrusted.
func (b *File) VerifySignature(keys []signing.PublicKey) (signing.PublicKey, error) {
	info, err := os.Stat(b.signatureFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return signing.PublicKey{}, fmt.Errorf("the bundle has no signature %s: %w", b.signatureFile(), trust.ErrUntrusted)
	case err != nil:
		return signing.PublicKey{}, fmt.Errorf("reading the signature of the bundle: %w", err)
	case info.Size() > maxSignature:
		return signing.PublicKey{}, fmt.Errorf("%s has %d bytes and is not a signature: %w", b.signatureFile(), info.Size(), trust.ErrUntrusted)
	}
	sig, err := os.ReadFile(b.signatureFile())
	if err != nil {
		return signing.PublicKey{}, fmt.Errorf("reading the signature of the bundle: %w", err)
	}
	key, err := signing.Verify(b.IndexRaw, sig, keys, signing.VerifyOptions{})
	if err != nil {
		return signing.PublicKey{}, fmt.Errorf("%s: %w: %w", b.signatureFile(), trust.ErrUntrusted, err)
	}
	return key, nil
}
