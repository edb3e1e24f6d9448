// SPDX-License-Identifier: Apache-2.0

package depottest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Release is an origin that serves one release folder. A test can make it serve false
// metadata. It implements depot.Source.
type Release struct {
	Dist   fstest.MapFS
	Keys   []artifact.SigningKey
	Has    []string // platforms
	Offers []addr.Version
	Change func(*upstream.Package) // falsifies the served metadata; nil: no change
	Opened atomic.Int64            // counts opened packages
}

// NewRelease returns the origin of a release that k signed.
func NewRelease(t *testing.T, k *signing.Key, platforms ...string) *Release {
	t.Helper()
	r := &Release{Dist: NewDist(t, platforms...), Has: platforms}
	Sign(t, r.Dist, k)
	public := MustPublic(t, k)
	r.Keys = []artifact.SigningKey{{KeyID: public.ID, ASCIIArmor: public.Armor}}
	return r
}

// Versions returns Offers.
func (r *Release) Versions(context.Context, addr.Provider) ([]addr.Version, error) {
	return r.Offers, nil
}

// Platforms returns Has.
func (r *Release) Platforms(context.Context, addr.Provider, addr.Version) ([]addr.Platform, error) {
	var out []addr.Platform
	for _, s := range r.Has {
		t, err := addr.ParsePlatform(s)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// Package describes the zip of a platform.
func (r *Release) Package(_ context.Context, _ addr.Provider, _ addr.Version, t addr.Platform) (upstream.Package, error) {
	name := Stem + t.String() + ".zip"
	file := r.Dist[name]
	if file == nil {
		return upstream.Package{}, fmt.Errorf("no package for %s: %w", t, oci.ErrNotFound)
	}
	zip := file.Data
	pkg := upstream.Package{
		Platform: t, Filename: name, Zh: digest.FromBytes(zip).Encoded(), Keys: r.Keys, Protocols: []string{"6.0"},
		Shasums: r.Dist[Stem+"SHA256SUMS"].Data, Signature: r.Dist[Stem+"SHA256SUMS.sig"].Data,
		Open: func(context.Context) (io.ReadCloser, error) {
			r.Opened.Add(1)
			return io.NopCloser(bytes.NewReader(zip)), nil
		},
	}
	if r.Change != nil {
		r.Change(&pkg)
	}
	return pkg, nil
}
