// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// release is an origin that serves one release folder and lets a test lie. It is
// a depot.Source.
type release struct {
	Dist   fstest.MapFS
	Keys   []artifact.SigningKey
	Has    []string // platforms
	Offers []addr.Version
	Change func(*upstream.Package) // what it says that is not so; nil: nothing
	Opened atomic.Int64            // packages
}

// newRelease returns the origin of a release that k signed.
func newRelease(t *testing.T, k *signing.Key, platforms ...string) *release {
	t.Helper()
	r := &release{Dist: depottest.NewDist(t, platforms...), Has: platforms}
	depottest.Sign(t, r.Dist, k)
	public := depottest.MustPublic(t, k)
	r.Keys = []artifact.SigningKey{{KeyID: public.ID, ASCIIArmor: public.Armor}}
	return r
}

// Versions returns Offers.
func (r *release) Versions(context.Context, addr.Provider) ([]addr.Version, error) {
	return r.Offers, nil
}

// Platforms returns Has.
func (r *release) Platforms(context.Context, addr.Provider, addr.Version) ([]addr.Platform, error) {
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
func (r *release) Package(_ context.Context, _ addr.Provider, _ addr.Version, t addr.Platform) (upstream.Package, error) {
	name := depottest.Stem + t.String() + ".zip"
	zip := r.Dist[name].Data
	pkg := upstream.Package{
		Platform: t, Filename: name, Zh: digest.FromBytes(zip).Encoded(), Keys: r.Keys, Protocols: []string{"6.0"},
		Shasums: r.Dist[depottest.Stem+"SHA256SUMS"].Data, Signature: r.Dist[depottest.Stem+"SHA256SUMS.sig"].Data,
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
