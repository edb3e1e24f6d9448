// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/signing"
)

func emptyIndex() ocispec.Index { return ocispec.Index{} }

// testKey is made once: it signs everything here.
var testKey = sync.OnceValues(func() (*signing.Key, error) {
	return signing.NewKey(signing.KeyOptions{Name: "Test", ECC: true})
})

func mustKey(t *testing.T) *signing.Key {
	t.Helper()
	k, err := testKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newKey(t *testing.T, o signing.KeyOptions) *signing.Key {
	t.Helper()
	o.ECC = true
	k, err := signing.NewKey(o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func mustPublic(t *testing.T, k *signing.Key) signing.PublicKey {
	t.Helper()
	public, err := k.Public()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

type zipEntry struct {
	name, text string
	mode       fs.FileMode
}

func newZip(t *testing.T, entries ...zipEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const stem = "terraform-provider-dns_1.2.3_"

// newDist returns a release of acme/dns 1.2.3 for the platforms, without
// SHA256SUMS.
func newDist(t *testing.T, platforms ...string) fstest.MapFS {
	t.Helper()
	dist := fstest.MapFS{
		stem + "manifest.json": {Data: []byte(`{"version":1,"metadata":{"protocol_versions":["5.0","6.0"]}}`)},
		"artifacts.json":       {Data: []byte("[]")},
	}
	for _, p := range platforms {
		dist[stem+p+".zip"] = &fstest.MapFile{Data: newZip(t,
			zipEntry{"LICENSE", "free", 0o644}, zipEntry{"terraform-provider-dns_v1.2.3", "binary for " + p, 0o755})}
	}
	return dist
}

// sign adds SHA256SUMS and its signature to a release.
func sign(t *testing.T, dist fstest.MapFS, k *signing.Key) {
	t.Helper()
	sums := signing.Sums{}
	for name, f := range dist {
		if strings.HasPrefix(name, stem) {
			sums[name] = sha256Hex(f.Data)
		}
	}
	signSums(t, dist, sums, k, time.Now())
}

func signSums(t *testing.T, dist fstest.MapFS, sums signing.Sums, k *signing.Key, now time.Time) {
	t.Helper()
	dist[stem+"SHA256SUMS"] = &fstest.MapFile{Data: sums.Bytes()}
	sig, err := k.Sign(sums.Bytes(), now)
	if err != nil {
		t.Fatal(err)
	}
	dist[stem+"SHA256SUMS.sig"] = &fstest.MapFile{Data: sig}
}
