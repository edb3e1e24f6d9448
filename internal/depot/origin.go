// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// Source provides packages of an origin; package upstream implements it for each kind of origin.
type Source interface {
	Versions(ctx context.Context, p addr.Provider) ([]addr.Version, error)
	Platforms(ctx context.Context, p addr.Provider, v addr.Version) ([]addr.Platform, error)
	Package(ctx context.Context, p addr.Provider, v addr.Version, t addr.Platform) (upstream.Package, error)
}

// FetchPackage writes a package to w, and returns its SHA-256 and size.
func FetchPackage(ctx context.Context, pkg upstream.Package, w io.Writer) (zh string, n int64, err error) {
	body, err := pkg.Open(ctx)
	if err != nil {
		return "", 0, err
	}
	defer body.Close()
	h := sha256.New()
	if !pkg.Checked {
		w = io.MultiWriter(w, h)
	}
	if n, err = io.CopyBuffer(w, body, make([]byte, copyBuffer)); err != nil {
		return "", 0, fmt.Errorf("downloading %s: %w", pkg.Filename, err)
	}
	if pkg.Checked {
		return pkg.Zh, n, nil
	}
	if zh = hexSum(h); pkg.Zh != "" && zh != pkg.Zh {
		return "", 0, fmt.Errorf("%s: the origin announced SHA-256 %s but sent %s: %w", pkg.Filename, pkg.Zh, zh, oci.ErrCorrupt)
	}
	return zh, n, nil
}

const copyBuffer = 256 << 10

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }
