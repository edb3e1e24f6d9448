// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Package is one zip of a provider with its hashes.
type Package struct {
	Platform addr.Platform
	Filename string
	SHA256   string // hex, the zh: hash of lock files
	H1       string // "h1:…", over the files inside
	Size     int64

	fsys fs.FS // file system that contains the file; nil: the registry has the blob
}

// inspectPackage hashes a zip and checks that it is a provider for the platform.
func inspectPackage(ctx context.Context, fsys fs.FS, name, typ string, p addr.Platform) (Package, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return Package{}, err
	}
	defer f.Close()
	h := sha256.New()
	k := Package{Platform: p, Filename: name, fsys: fsys}
	if k.Size, err = io.CopyBuffer(h, oci.Interruptible(ctx, f), make([]byte, copyBuffer)); err != nil {
		return Package{}, fmt.Errorf("read %s: %w", name, err)
	}
	k.SHA256 = hexSum(h)
	at, ok := f.(io.ReaderAt)
	if !ok {
		return Package{}, fmt.Errorf("read %s: the file system does not support random access", name)
	}
	k.H1, err = signing.HashPackage(ctx, at, k.Size, typ, p)
	if err != nil {
		return Package{}, fmt.Errorf("%s: %w", name, err)
	}
	return k, nil
}

// blob returns the unchanged zip as a blob.
func (k Package) blob() oci.Blob {
	return oci.Blob{Descriptor: k.descriptor(), Open: func() (io.ReadCloser, error) { return k.fsys.Open(k.Filename) }}
}

func (k Package) descriptor() oci.Descriptor {
	return oci.Descriptor{MediaType: artifact.MediaZip, Digest: digestOf(k.SHA256), Size: k.Size}
}

func digestOf(zh string) digest.Digest { return digest.NewDigestFromEncoded(digest.SHA256, zh) }

func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
