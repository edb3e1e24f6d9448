// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// testKey is created once: it signs everything here.
var testKey = sync.OnceValues(func() (*signing.Key, error) {
	return signing.NewKey(signing.KeyOptions{Name: "Test", ECC: true})
})

// mustKey returns the key that signs by default.
func mustKey(t *testing.T) *signing.Key {
	t.Helper()
	return must.Get(testKey())(t)
}

// Shows: opendepot 10 | GPG-signed providers | SHA256SUMS signed at publish; no key on the server;
// a policy of trusted keys for every command that reads versions; signatures that cosign accepts;
// verified with gpg, and with cosign in `make interop`
func TestPublishProvider(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, client := depottest.NewDepot(t, host, oci.Options{})
		dist := depottest.NewDist(t, "linux_amd64", "darwin_arm64")
		v := depottest.MustVersion(t, "1.2.3")
		first := must.Get(d.PublishProvider(t.Context(), dist, depottest.DNS(), v, depot.ProviderOptions{SignKey: mustKey(t)}))(t)
		if want := host + "/p/providers/acme/dns:1.2.3@sha256:"; !strings.HasPrefix(first.String(), want) || first.Existing {
			t.Errorf("got %+v, want %s…", first, want)
		}
		r := depottest.MustRepo(t, client, "p/providers/acme/dns")
		index := must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3")))(t)
		if diff := cmp.Diff(index.Protocols, []string{"5.0", "6.0"}); diff != "" || index.Version != v || index.Signature != artifact.SignatureVerified {
			t.Errorf("index %+v", index)
		}
		checkPackages(t, r, index, dist)
		checkMetadata(t, r, index)

		again := must.Get(d.PublishProvider(t.Context(), dist, depottest.DNS(), v, depot.ProviderOptions{SignKey: mustKey(t)}))(t)
		first.Existing = true
		if diff := cmp.Diff(again, first, cmpopts.IgnoreUnexported(depot.Published{})); diff != "" {
			t.Errorf("second publish (-got +want)\n%s", diff)
		}
		if diff := cmp.Diff(depottest.MustTags(t, r), []string{"1.2.3"}); diff != "" {
			t.Errorf("tags (-got +want)\n%s", diff)
		}
	})
}

func checkPackages(t *testing.T, r *oci.Repo, index artifact.ProviderIndex, dist fstest.MapFS) {
	t.Helper()
	if len(index.Platforms) != 2 {
		t.Fatalf("%d platforms", len(index.Platforms))
	}
	for _, p := range index.Platforms {
		want := dist[p.Filename].Data
		zip := must.Get(artifact.ResolveProviderZip(t.Context(), r, p))(t)
		got, err := r.ReadBlob(t.Context(), zip, 1<<20)
		if err != nil || string(got) != string(want) || p.Zh != digest.FromBytes(want).Encoded() || p.Size != int64(len(want)) {
			t.Errorf("%s: %v, %+v", p.Platform, err, p)
		}
		file := filepath.Join(t.TempDir(), "p.zip")
		must.Succeed(t, os.WriteFile(file, want, 0o600))
		h1, err := dirhash.HashZip(file, dirhash.Hash1)
		if err != nil || p.H1 != h1 {
			t.Errorf("%s: h1 %s, want %s, %v", p.Platform, p.H1, h1, err)
		}
		// Without annotations, as in an index of another tool.
		bare, err := artifact.ResolveProviderZip(t.Context(), r, artifact.ProviderPlatform{Platform: p.Platform, Manifest: p.Manifest})
		if err != nil || bare.Digest != zip.Digest {
			t.Errorf("%s by its manifest: %s, %v", p.Platform, bare.Digest, err)
		}
	}
}

func checkMetadata(t *testing.T, r *oci.Repo, index artifact.ProviderIndex) {
	t.Helper()
	for _, inline := range []bool{true, false} {
		x := index
		if !inline { // as in an index whose metadata is too large to be repeated
			d := *index.Metadata
			d.Data = nil
			x.Metadata = &d
		}
		md := must.Get(artifact.ReadProviderMetadata(t.Context(), r, x))(t)
		if md.ShasumsName != depottest.Stem+"SHA256SUMS" || !strings.Contains(string(md.RegistryManifest), "protocol_versions") || len(md.Keys) != 1 {
			t.Errorf("metadata %+v", md)
		}
		keys := must.Get(signing.ParsePublicKeys([]byte(md.Keys[0].ASCIIArmor)))(t)
		if _, err := signing.Verify(md.ShasumsBytes, md.SignatureBytes, keys, signing.VerifyOptions{}); err != nil || keys[0].ID != md.Keys[0].KeyID {
			t.Errorf("signature by %s: %v", md.Keys[0].KeyID, err)
		}
	}
}

func TestProviderAnswersFromTheIndexAlone(t *testing.T) {
	count := &ocitest.Count{}
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: count})
	must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: mustKey(t)}))(t)
	r := depottest.MustRepo(t, client, "p/providers/acme/dns")
	index := must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3")))(t)
	count.Take()
	must.Get(artifact.ReadProviderMetadata(t.Context(), r, index))(t)
	must.Get(artifact.ResolveProviderZip(t.Context(), r, index.Platforms[0]))(t)
	if got := count.Take(); len(got) > 0 {
		t.Errorf("requests %v, want none", got)
	}
	must.Succeed(t, r.Delete(t.Context(), *index.Metadata))
	if _, err := d.Verify(t.Context(), depottest.DNS().Item(), depottest.MustVersion(t, "1.2.3"), trust.Policy{Deep: true}); !errors.Is(err, trust.ErrUntrusted) || !strings.Contains(err.Error(), "metadata") {
		t.Errorf("without the metadata that the index repeats: %v", err)
	}
}

func TestPublishProviderKeepsASignature(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	dist := depottest.NewDist(t, "linux_amd64")
	depottest.Sign(t, dist, mustKey(t))
	must.Get(d.PublishProvider(t.Context(), dist, depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{Keys: []signing.PublicKey{depottest.MustPublic(t, mustKey(t))}}))(t)
	r := depottest.MustRepo(t, client, "p/providers/acme/dns")
	index := must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3")))(t)
	md := must.Get(artifact.ReadProviderMetadata(t.Context(), r, index))(t)
	if string(md.ShasumsBytes) != string(dist[depottest.Stem+"SHA256SUMS"].Data) || string(md.SignatureBytes) != string(dist[depottest.Stem+"SHA256SUMS.sig"].Data) {
		t.Error("SHA256SUMS or its signature changed")
	}
}

func TestPublishProviderWithTwoKeys(t *testing.T) {
	d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	v, next := depottest.MustVersion(t, "1.2.3"), depottest.NewKey(t, signing.KeyOptions{})
	o := depot.ProviderOptions{SignKey: mustKey(t), AlsoSign: []*signing.Key{next}}
	must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), v, o))(t)
	for _, extend := range []bool{false, true} { // again, with a key that did not sign it
		third := depot.ProviderOptions{SignKey: next, AlsoSign: []*signing.Key{depottest.NewKey(t, signing.KeyOptions{})}, Extend: extend}
		out := must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), v, third))(t)
		if id := depottest.MustPublic(t, third.AlsoSign[0]).ID; !out.Existing || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "not by key "+id) {
			t.Errorf("again: %+v", out)
		}
	}
	for name, k := range map[string]*signing.Key{"old": mustKey(t), "new": next} {
		if _, err := d.Verify(t.Context(), depottest.DNS().Item(), v, trust.Policy{OpenPGP: []signing.PublicKey{depottest.MustPublic(t, k)}}); err != nil {
			t.Errorf("%s key: %v", name, err)
		}
	}
}

// Shows: opendepot-defects 10 | modules are immutable, but not providers
func TestPublishProviderConflict(t *testing.T) {
	d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	v, o := depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: mustKey(t)}
	must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), v, o))(t)
	_, err := d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64", "darwin_arm64"), depottest.DNS(), v, o)
	conflict, ok := errors.AsType[*depot.ConflictError](err)
	if !ok || !errors.Is(err, oci.ErrExists) || conflict.Next.String() != "1.2.4" {
		t.Errorf("got %v, want a conflict with next version 1.2.4", err)
	}
}

// Shows: registries 8 | a wrongly named or built package | PacoVK/tapir#287, outsideris/citizen#58
func TestPublishProviderRefuses(t *testing.T) {
	key := mustKey(t)
	trusted := []signing.PublicKey{depottest.MustPublic(t, key)}
	long := time.Now().Add(-100 * 24 * time.Hour)
	expired := depottest.NewKey(t, signing.KeyOptions{Lifetime: 24 * time.Hour, Now: func() time.Time { return long }})
	revoked := depottest.NewKey(t, signing.KeyOptions{})
	const plugin = "terraform-provider-dns_v1.2.3"
	one := func(t *testing.T, entries ...depottest.ZipEntry) fstest.MapFS {
		return fstest.MapFS{depottest.Stem + "linux_amd64.zip": {Data: depottest.NewZip(t, entries...)}}
	}
	tests := []struct {
		name string
		dist func(t *testing.T) fstest.MapFS
		o    depot.ProviderOptions
		want error
		text string
	}{
		{"empty folder", func(*testing.T) fstest.MapFS { return fstest.MapFS{"a": {}} }, depot.ProviderOptions{}, signing.ErrNoProvider, depottest.Stem + "OS_ARCH.zip"},
		{"another version", func(t *testing.T) fstest.MapFS {
			return fstest.MapFS{"terraform-provider-dns_1.2.4_linux_amd64.zip": {}}
		}, depot.ProviderOptions{}, signing.ErrNoProvider, "the name must be"},
		{"no platform", func(t *testing.T) fstest.MapFS { return fstest.MapFS{depottest.Stem + "linux.zip": {}} }, depot.ProviderOptions{}, signing.ErrNoProvider, "the name must be"},
		{"not a zip", func(t *testing.T) fstest.MapFS {
			return fstest.MapFS{depottest.Stem + "linux_amd64.zip": {Data: []byte("hello")}}
		}, depot.ProviderOptions{}, signing.ErrNoProvider, "not a zip"},
		{"no plugin", func(t *testing.T) fstest.MapFS { return one(t, depottest.File("README", "", 0o644)) }, depot.ProviderOptions{}, signing.ErrNoProvider, "0 files named"},
		{"another plugin", func(t *testing.T) fstest.MapFS {
			return one(t, depottest.File("terraform-provider-dnsmasq", "", 0o755))
		}, depot.ProviderOptions{}, signing.ErrNoProvider, "0 files named"},
		{"two plugins", func(t *testing.T) fstest.MapFS {
			return one(t, depottest.File(plugin, "", 0o755), depottest.File("terraform-provider-dns", "", 0o755))
		}, depot.ProviderOptions{}, signing.ErrNoProvider, "2 files named"},
		{"in a folder", func(t *testing.T) fstest.MapFS { return one(t, depottest.File("bin/"+plugin, "", 0o755)) }, depot.ProviderOptions{}, signing.ErrNoProvider, "0 files named"},
		{"not executable", func(t *testing.T) fstest.MapFS { return one(t, depottest.File(plugin, "", 0o644)) }, depot.ProviderOptions{}, signing.ErrNoProvider, "not executable"},
		{"escape", func(t *testing.T) fstest.MapFS {
			return one(t, depottest.File(plugin, "", 0o755), depottest.File("../x", "", 0o644))
		}, depot.ProviderOptions{}, signing.ErrNoProvider, "unsafe path"},
		{"unsigned", func(t *testing.T) fstest.MapFS { return depottest.NewDist(t, "linux_amd64") }, depot.ProviderOptions{}, trust.ErrUnsigned, "SHA256SUMS"},
		{"sums lie", func(t *testing.T) fstest.MapFS {
			dist := depottest.NewDist(t, "linux_amd64")
			depottest.SignSums(t, dist, signing.Sums{depottest.Stem + "linux_amd64.zip": digest.FromBytes(nil).Encoded()}, key, time.Now())
			return dist
		}, depot.ProviderOptions{Keys: trusted}, signing.ErrSums, "linux_amd64.zip has"},
		{"zip not in sums", func(t *testing.T) fstest.MapFS {
			dist := depottest.NewDist(t, "linux_amd64")
			depottest.SignSums(t, dist, signing.Sums{}, key, time.Now())
			return dist
		}, depot.ProviderOptions{Keys: trusted}, signing.ErrSums, "not listed"},
		{"listed zip missing", func(t *testing.T) fstest.MapFS {
			dist := depottest.NewDist(t, "linux_amd64", "darwin_arm64")
			depottest.Sign(t, dist, key)
			delete(dist, depottest.Stem+"darwin_arm64.zip")
			return dist
		}, depot.ProviderOptions{Keys: trusted}, signing.ErrSums, "not in the folder"},
		{"unknown key", func(t *testing.T) fstest.MapFS {
			dist := depottest.NewDist(t, "linux_amd64")
			depottest.Sign(t, dist, depottest.NewKey(t, signing.KeyOptions{}))
			return dist
		}, depot.ProviderOptions{Keys: trusted}, signing.ErrUnknownKey, ""},
		{"signature without a key", func(t *testing.T) fstest.MapFS {
			dist := depottest.NewDist(t, "linux_amd64")
			depottest.Sign(t, dist, key)
			return dist
		}, depot.ProviderOptions{}, signing.ErrUnknownKey, ""},
		{"expired key", func(t *testing.T) fstest.MapFS {
			dist := depottest.NewDist(t, "linux_amd64")
			depottest.SignSums(t, dist, signing.Sums{depottest.Stem + "linux_amd64.zip": digest.FromBytes(dist[depottest.Stem+"linux_amd64.zip"].Data).Encoded()}, expired, long)
			return dist
		}, depot.ProviderOptions{Keys: []signing.PublicKey{depottest.MustPublic(t, expired)}}, signing.ErrExpiredKey, ""},
		{"expired signing key", func(t *testing.T) fstest.MapFS { return depottest.NewDist(t, "linux_amd64") }, depot.ProviderOptions{SignKey: expired}, signing.ErrExpiredKey, ""},
		{"revoked key", func(t *testing.T) fstest.MapFS {
			dist := depottest.NewDist(t, "linux_amd64")
			depottest.Sign(t, dist, revoked)
			return dist
		}, depot.ProviderOptions{}, signing.ErrRevokedKey, ""},
		{"signature over something else", func(t *testing.T) fstest.MapFS {
			dist := depottest.NewDist(t, "linux_amd64")
			depottest.Sign(t, dist, key)
			dist[depottest.Stem+"SHA256SUMS"].Data = append(dist[depottest.Stem+"SHA256SUMS"].Data, '\n')
			return dist
		}, depot.ProviderOptions{Keys: trusted}, signing.ErrBadSignature, ""},
		{"bad registry manifest", func(t *testing.T) fstest.MapFS {
			dist := depottest.NewDist(t, "linux_amd64")
			dist[depottest.Stem+"manifest.json"].Data = []byte(`{"version":1,"metadata":{"protocol_versions":["5"]}}`)
			return dist
		}, depot.ProviderOptions{SignKey: key}, nil, `invalid protocol version "5"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
			dist, o := tt.dist(t), tt.o
			if tt.want == signing.ErrRevokedKey {
				must.Succeed(t, revoked.Revoke(time.Now(), "lost"))
				o.Keys = []signing.PublicKey{depottest.MustPublic(t, revoked)}
			}
			_, err := d.PublishProvider(t.Context(), dist, depottest.DNS(), depottest.MustVersion(t, "1.2.3"), o)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.text)
			}
			if tags := depottest.MustTags(t, depottest.MustRepo(t, client, "p/providers/acme/dns")); len(tags) > 0 {
				t.Errorf("left behind %v", tags)
			}
		})
	}
}
