// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"archive/zip"
	"bytes"
	"crypto/ecdsa"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
)

const providerRepo = "p/providers/acme/dns"
const moduleRepo = "p/modules/net/vpc/aws"

func dns() addr.Provider { return addr.Provider{Namespace: "acme", Type: "dns"} }

func upstreamDNS() addr.Provider {
	return addr.Provider{Hostname: "registry.example.com", Namespace: "acme", Type: "dns"}
}

func mustModule(t *testing.T, address, version string) addr.ModuleVersion {
	t.Helper()
	m, err := addr.ParseModule(address)
	if err != nil {
		t.Fatal(err)
	}
	return addr.ModuleVersion{Module: m, Version: mustVersion(t, version)}
}

func mustVersion(t *testing.T, s string) addr.Version {
	t.Helper()
	v, err := addr.ParseVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// newDepot returns a depot on host and the client behind it.
func newDepot(t *testing.T, host string, o oci.Options) (*depot.Depot, *oci.Client) {
	t.Helper()
	client, err := oci.New(host, o)
	if err != nil {
		t.Fatal(err)
	}
	return depot.New(depot.Options{Client: client, Layout: addr.Layout{Prefix: "p"}, TempDir: t.TempDir()}), client
}

func mustRepoOf(t *testing.T, c *oci.Client, name string) *oci.Repo {
	t.Helper()
	r, err := c.Repo(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustTags(t *testing.T, r *oci.Repo) []string {
	t.Helper()
	var tags []string
	for tag, err := range r.Tags(t.Context()) {
		if errors.Is(err, oci.ErrNotFound) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	return tags
}

func mustFetch(t *testing.T, r *oci.Repo, ref string) oci.Manifest {
	t.Helper()
	m, err := r.Fetch(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newModule(text string) fstest.MapFS {
	return fstest.MapFS{"main.tf": {Data: []byte(text)}, "README.md": {Data: []byte("# VPC\n")}, "notes.tfstate": {Data: []byte("secret")}}
}

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
			sums[name] = digest.FromBytes(f.Data).Encoded()
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

func newCosignKey(t *testing.T) (*ecdsa.PrivateKey, *ecdsa.PublicKey) {
	t.Helper()
	private, public, err := signing.NewCosignKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.ParseCosignKey(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := signing.ParseCosignPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key, pub
}
