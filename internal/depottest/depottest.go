// SPDX-License-Identifier: Apache-2.0

package depottest

import (
	"archive/zip"
	"bytes"
	"crypto/ecdsa"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
)

// Repositories of the provider of [DNS] and of net/vpc/aws in the depots of [NewDepot].
const (
	ProviderRepo = "p/providers/acme/dns"
	ModuleRepo   = "p/modules/net/vpc/aws"
)

// DNS returns the address of the own provider acme/dns.
func DNS() addr.Provider { return addr.Provider{Namespace: "acme", Type: "dns"} }

// UpstreamDNS returns the address of a provider of that name in another registry.
func UpstreamDNS() addr.Provider {
	return addr.Provider{Hostname: "registry.example.com", Namespace: "acme", Type: "dns"}
}

// VPC returns the address of the module net/vpc/aws.
func VPC() addr.Module { return addr.Module{Namespace: "net", Name: "vpc", System: "aws"} }

// MustModule parses an address and a version.
func MustModule(t testing.TB, address, version string) addr.ModuleVersion {
	t.Helper()
	m := must.Get(addr.ParseModule(address))(t)
	return addr.ModuleVersion{Module: m, Version: MustVersion(t, version)}
}

// MustVersion parses a version.
func MustVersion(t testing.TB, s string) addr.Version {
	t.Helper()
	return must.Get(addr.ParseVersion(s))(t)
}

// NewDepot returns a depot on host and the client behind it.
func NewDepot(t *testing.T, host string, o oci.Options) (*depot.Depot, *oci.Client) {
	t.Helper()
	client := must.Get(oci.New(host, o))(t)
	return depot.New(depot.Options{Client: client, Layout: addr.Layout{Prefix: "p"}, TempDir: t.TempDir()}), client
}

// MustSubject reads a version to verify or sign.
func MustSubject(t *testing.T, d *depot.Depot, it addr.Item, v addr.Version) trust.Subject {
	t.Helper()
	return must.Get(d.Subject(t.Context(), it, v))(t)
}

// MustRepo opens a repository.
func MustRepo(t *testing.T, c *oci.Client, name string) *oci.Repo {
	t.Helper()
	return must.Get(c.Repo(name))(t)
}

// MustTags returns the sorted tags of a repository, without those of publishers' bids,
// which stay where nothing can be deleted, and of publication times. It returns none if
// the repository does not exist.
func MustTags(t *testing.T, r *oci.Repo) []string {
	t.Helper()
	var tags []string
	for tag, err := range r.Tags(t.Context()) {
		if errors.Is(err, oci.ErrNotFound) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(tag, "okara-publish-") && !strings.HasPrefix(tag, "okara-time-") {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return tags
}

// MustFetch fetches a manifest.
func MustFetch(t *testing.T, r *oci.Repo, ref string) oci.Manifest {
	t.Helper()
	return must.Get(r.Fetch(t.Context(), ref))(t)
}

// NewModule returns a module with text in main.tf, a readme, and a file that is never published.
func NewModule(text string) fstest.MapFS {
	return fstest.MapFS{"main.tf": {Data: []byte(text)}, "README.md": {Data: []byte("# VPC\n")}, "notes.tfstate": {Data: []byte("secret")}}
}

// NewKey generates a key.
func NewKey(t testing.TB, o signing.KeyOptions) *signing.Key {
	t.Helper()
	o.ECC = true
	return must.Get(signing.NewKey(o))(t)
}

// MustPublic returns the public part of a key.
func MustPublic(t *testing.T, k *signing.Key) signing.PublicKey {
	t.Helper()
	return must.Get(k.Public())(t)
}

// ZipEntry is a file in a zip.
type ZipEntry struct {
	name, text string
	mode       fs.FileMode
}

// File returns an entry of a zip.
func File(name, text string, mode fs.FileMode) ZipEntry { return ZipEntry{name, text, mode} }

// NewZip returns a zip of the entries.
func NewZip(t testing.TB, entries ...ZipEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		f := must.Get(w.CreateHeader(h))(t)
		must.Get(f.Write([]byte(e.text)))(t)
	}
	must.Succeed(t, w.Close())
	return b.Bytes()
}

// ZipOf returns a zip of executable files, in the order of their names.
func ZipOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var entries []ZipEntry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entries = append(entries, File(name, files[name], 0o755))
	}
	return NewZip(t, entries...)
}

// Stem is the common prefix of the file names of [NewDist].
const Stem = "terraform-provider-dns_1.2.3_"

// NewDist returns a release of acme/DNS 1.2.3 for the platforms, without SHA256SUMS.
func NewDist(t testing.TB, platforms ...string) fstest.MapFS {
	t.Helper()
	dist := fstest.MapFS{
		Stem + "manifest.json": {Data: []byte(`{"version":1,"metadata":{"protocol_versions":["5.0","6.0"]}}`)},
		"artifacts.json":       {Data: []byte("[]")},
	}
	for _, p := range platforms {
		dist[Stem+p+".zip"] = &fstest.MapFile{Data: NewZip(t,
			File("LICENSE", "free", 0o644), File("terraform-provider-dns_v1.2.3", "binary for "+p, 0o755))}
	}
	return dist
}

// Sign adds SHA256SUMS and its signature to a release.
func Sign(t *testing.T, dist fstest.MapFS, k *signing.Key) {
	t.Helper()
	sums := signing.Sums{}
	for name, f := range dist {
		if strings.HasPrefix(name, Stem) {
			sums[name] = digest.FromBytes(f.Data).Encoded()
		}
	}
	SignSums(t, dist, sums, k, time.Now())
}

// SignSums adds a SHA256SUMS with these sums and its signature with the given time.
func SignSums(t *testing.T, dist fstest.MapFS, sums signing.Sums, k *signing.Key, now time.Time) {
	t.Helper()
	dist[Stem+"SHA256SUMS"] = &fstest.MapFile{Data: sums.Bytes()}
	sig := must.Get(k.Sign(sums.Bytes(), now))(t)
	dist[Stem+"SHA256SUMS.sig"] = &fstest.MapFile{Data: sig}
}

// NewCosignKey generates a key pair in cosign's format.
func NewCosignKey(t *testing.T) (*ecdsa.PrivateKey, *ecdsa.PublicKey) {
	t.Helper()
	private, public := must.GetBoth(signing.NewCosignKey())(t)
	key := must.Get(signing.ParseCosignKey(private, nil))(t)
	pub := must.Get(signing.ParseCosignPublicKey(public))(t)
	return key, pub
}

// Result returns the outcome of a check, "-" if it did not run.
func Result(checks []trust.Check, name string) string {
	i := slices.IndexFunc(checks, func(c trust.Check) bool { return c.Name == name })
	if i < 0 {
		return "-"
	}
	return checks[i].Result
}
