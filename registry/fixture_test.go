// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/registry"
)

// front is a front-end over a registry, both used only by one test.
type front struct {
	*httptest.Server
	handler *server.Front
	client  *oci.Client // to publish with; not counted
	count   *ocitest.Count
	layout  addr.Layout
}

// newFront starts a front-end in memory; change modifies options.
func newFront(t testing.TB, change func(*server.Options)) *front {
	t.Helper()
	return newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), nil, change)
}

// newFrontAt is newFront on a running registry, by a transport.
func newFrontAt(t testing.TB, host string, transport http.RoundTripper, change func(*server.Options)) *front {
	t.Helper()
	count := &ocitest.Count{Base: transport}
	retry := oci.Retry{MaxAttempts: 4, InitialBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond}
	layout := addr.Layout{Prefix: "acme"}
	o := server.Options{
		Options: registry.Options{Client: newClient(t, host, oci.Options{Transport: count, PlainHTTP: true, Retry: retry}), Layout: layout, Hostname: "example.com"}, // the host of httptest.NewRequest
		Access:  access.Policy{Anonymous: rights.AnonymousAll()}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}},
	}
	if change != nil {
		change(&o)
	}
	h := must.Fixed(server.New(o))
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return &front{Server: web, handler: h, count: count, layout: o.Layout, client: newClient(t, host, oci.Options{PlainHTTP: true})}
}

func newClient(t testing.TB, host string, o oci.Options) *oci.Client {
	t.Helper()
	return must.Fixed(oci.New(host, o))
}

func (f *front) repo(t testing.TB, name string) *oci.Repo {
	t.Helper()
	return must.Fixed(f.client.Repo(name))
}

// module pushes a version of a module with these files and returns its zip.
func (f *front) module(t testing.TB, address, version string, files map[string]string) []byte {
	t.Helper()
	archive := depottest.ZipOf(t, files)
	f.moduleOf(t, address, version, oci.BytesBlob(artifact.MediaZip, archive))
	return archive
}

// moduleOf pushes a version of a module with this archive.
func (f *front) moduleOf(t testing.TB, address, version string, archive oci.Blob) {
	t.Helper()
	m := must.Fixed(addr.ParseModule(address))
	v := must.Fixed(addr.ParseVersion(version))
	tar := oci.BytesBlob(artifact.MediaModuleTar, []byte("tar of "+address))
	description := oci.BytesBlob(artifact.MediaModuleDescription, []byte("{}"))
	root := must.Get(artifact.NewModule(artifact.ModuleManifest{
		Address: m, Version: v, Tar: &tar.Descriptor, Zip: &archive.Descriptor, Description: &description.Descriptor,
		ContentDigest: tar.Digest.String(),
	}))(t)
	f.push(t, f.layout.Module(m), v.Tag(), oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob(), tar, archive, description}, Root: root})
}

// push stores an artifact, then its tag.
func (f *front) push(t testing.TB, repository, tag string, a oci.Artifact) {
	t.Helper()
	r := f.repo(t, repository)
	must.Fixed(r.Push(t.Context(), a))
	must.Succeed(t, r.PutTag(t.Context(), tag, a.Root))
}

// release is a version of a provider to push.
type release struct {
	address   string // "acme/dns", or with a preceding host for a mirrored one
	version   string
	protocols []string
	platforms []string
	zips      map[string][]byte        // filled in by provider
	keys      []artifact.SigningKey    // nil: the test key
	sign      func(sums []byte) []byte // nil: with the test key
	unsigned  bool
	bare      bool // no hashes in the index, as made by other tools
}

// provider pushes a release, each platform's zip different.
func (f *front) provider(t testing.TB, rel release) release {
	t.Helper()
	p := must.Fixed(addr.ParseProvider(rel.address))
	v := must.Fixed(addr.ParseVersion(rel.version))
	repository := f.layout.Provider(p)
	kind := addr.KindProvider
	if p.Hostname != "" {
		repository, kind = f.layout.MirrorOf(p), addr.KindMirror
	}
	if rel.protocols == nil {
		rel.protocols = []string{"5.0"}
	}
	if rel.platforms == nil {
		rel.platforms = []string{"linux_amd64"}
	}
	index := artifact.ProviderIndex{Version: v, Protocols: rel.protocols, Signature: "verified"}
	a := oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob()}}
	sums := signing.Sums{}
	rel.zips = map[string][]byte{}
	for _, name := range rel.platforms {
		platform := must.Fixed(addr.ParsePlatform(name))
		file := fmt.Sprintf("terraform-provider-%s_%s_%s.zip", p.Type, v, platform)
		archive := depottest.ZipOf(t, map[string]string{"terraform-provider-" + p.Type + "_v" + v.String(): "binary for " + name})
		rel.zips[name] = archive
		blob := oci.BytesBlob(artifact.MediaZip, archive)
		target := must.Fixed(artifact.NewProviderTarget(blob.Descriptor, file))
		a.Blobs, a.Children = append(a.Blobs, blob), append(a.Children, target)
		sums[file] = blob.Digest.Encoded()
		entry := artifact.ProviderPlatform{Platform: platform, Manifest: target.Descriptor}
		if !rel.bare {
			entry.Filename, entry.Zh, entry.Size = file, blob.Digest.Encoded(), blob.Size
			entry.H1 = "h1:" + strings.Repeat("A", 43) + "="
		}
		index.Platforms = append(index.Platforms, entry)
	}
	meta := artifact.ProviderMetadata{ShasumsName: fmt.Sprintf("terraform-provider-%s_%s_SHA256SUMS", p.Type, v), ShasumsBytes: sums.Bytes()}
	if rel.unsigned {
		index.Signature = "none"
	} else {
		meta.Keys = rel.keys
		if rel.sign == nil {
			rel.sign = func(sums []byte) []byte { return must.Fixed(testSigner().Sign(sums, time.Now())) }
		}
		meta.SignatureBytes = rel.sign(meta.ShasumsBytes)
		if meta.Keys == nil {
			meta.Keys = []artifact.SigningKey{servedKey(must.Fixed(testSigner().Public()))}
		}
	}
	metadata, blobs, err := artifact.NewProviderMetadata(meta)
	if err != nil {
		t.Fatal(err)
	}
	a.Blobs, a.Children = append(a.Blobs, blobs...), append(a.Children, metadata)
	a.Root = must.Fixed(artifact.NewProviderIndex(kind, p, index, metadata))
	f.push(t, repository, v.Tag(), a)
	return rel
}

// clock advances only when a test does so.
type clock struct {
	start  time.Time
	passed atomic.Int64
}

func newClock() *clock {
	testSigner() // otherwise, on a busy machine, its key would be newer than this clock
	return &clock{start: time.Now()}
}

func (c *clock) now() time.Time { return c.start.Add(time.Duration(c.passed.Load())) }

func (c *clock) add(d time.Duration) { c.passed.Add(int64(d)) }

func servedKey(k signing.PublicKey) artifact.SigningKey {
	return artifact.SigningKey{KeyID: k.ID, ASCIIArmor: k.Armor}
}

// testSigner is one key for all tests.
var testSigner = sync.OnceValue(func() *signing.Key {
	return must.Fixed(signing.NewKey(signing.KeyOptions{Name: "okara test", Email: "test@example.com", ECC: true}))
})

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func decode[T any](t testing.TB, body []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return v
}
