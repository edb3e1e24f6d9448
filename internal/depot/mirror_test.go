// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Shows: opendepot 6 | providers from the public registries | from any registry by service
// discovery, network and filesystem mirrors, OCI; checksums and signatures verified and kept
// Shows: opendepot 8 | operating systems and architectures per provider | `platforms`; each
// platform has its own package and hash
func TestMirrorProvider(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	d, client := depottest.NewDepot(t, host, oci.Options{})
	v := depottest.MustVersion(t, "1.2.3")
	src := depottest.NewRelease(t, mustKey(t), "linux_amd64", "darwin_arm64", "windows_amd64")
	two := []addr.Platform{{OS: "linux", Arch: "amd64"}, {OS: "darwin", Arch: "arm64"}}
	published := must.Get(d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{Platforms: two}))(t)
	r := depottest.MustRepo(t, client, "p/mirror/registry.example.com/acme/dns")
	index := must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3")))(t)
	if len(index.Platforms) != 2 || index.Signature != artifact.SignatureVerified || fmt.Sprint(index.Protocols) != "[6.0]" {
		t.Errorf("index %+v", index)
	}
	md := must.Get(artifact.ReadProviderMetadata(t.Context(), r, index))(t)
	if diff := cmp.Diff(string(src.Dist[depottest.Stem+"SHA256SUMS"].Data), string(md.ShasumsBytes)); diff != "" || !bytes.Equal(md.SignatureBytes, src.Dist[depottest.Stem+"SHA256SUMS.sig"].Data) {
		t.Errorf("the proof changed: %s", diff)
	}
	opened := src.Opened.Load()
	again, err := d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{Platforms: two})
	if err != nil || !again.Existing || again.Digest != published.Digest || src.Opened.Load() != opened {
		t.Errorf("again %+v, %v, %d downloads", again, err, src.Opened.Load()-opened)
	}

	// The copy is itself an origin: a mirror can be mirrored.
	copied, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	from := upstream.NewRepository(func(addr.Provider) (*oci.Repo, error) { return r, nil })
	second, err := copied.MirrorProvider(t.Context(), from, depottest.UpstreamDNS(), v, depot.MirrorOptions{})
	if err != nil || second.Digest != published.Digest {
		t.Errorf("a mirror of the mirror: %+v, %v", second, err)
	}
}

// Shows: opendepot 6
func TestMirrorProviderRefuses(t *testing.T) {
	other := []artifact.SigningKey{{ASCIIArmor: depottest.MustPublic(t, depottest.NewKey(t, signing.KeyOptions{Name: "Other"})).Armor}}
	for name, test := range map[string]struct {
		change func(*upstream.Package)
		want   error
		opened int64 // downloads
	}{
		"other bytes": {func(p *upstream.Package) {
			p.Open = func(context.Context) (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader([]byte("evil"))), nil
			}
		}, oci.ErrCorrupt, 0},
		"other shasum":      {func(p *upstream.Package) { p.Zh = digest.FromBytes([]byte("evil")).Encoded() }, signing.ErrSums, 0},
		"changed sums":      {func(p *upstream.Package) { p.Shasums = append(bytes.Clone(p.Shasums), '\n') }, signing.ErrBadSignature, 0},
		"unknown key":       {func(p *upstream.Package) { p.Keys = other }, signing.ErrUnknownKey, 0},
		"garbage key":       {func(p *upstream.Package) { p.Keys = []artifact.SigningKey{{ASCIIArmor: "x"}} }, oci.ErrCorrupt, 0},
		"no signature":      {func(p *upstream.Package) { p.Signature = nil }, trust.ErrUnsigned, 0},
		"no keys":           {func(p *upstream.Package) { p.Keys = nil }, trust.ErrUnsigned, 0},
		"lying h1":          {func(p *upstream.Package) { p.H1 = "h1:" + digest.FromBytes(nil).Encoded() }, oci.ErrCorrupt, 2},
		"other file name":   {func(p *upstream.Package) { p.Filename = "../dns.zip" }, signing.ErrNoProvider, 0},
		"sums per platform": {func(p *upstream.Package) { p.Shasums = slices.Concat(p.Shasums, []byte(p.Platform.OS)) }, oci.ErrCorrupt, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sent := &ocitest.Count{}
			d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: sent})
			src := depottest.NewRelease(t, mustKey(t), "linux_amd64", "darwin_arm64")
			src.Change = test.change
			_, err := d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), depottest.MustVersion(t, "1.2.3"), depot.MirrorOptions{})
			if !errors.Is(err, test.want) || !depot.Refused(err) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			r := depottest.MustRepo(t, client, "p/mirror/registry.example.com/acme/dns")
			if _, err := r.Snapshot(t.Context()); !errors.Is(err, oci.ErrNotFound) {
				t.Errorf("something is visible: %v", err)
			}
			if n := src.Opened.Load(); n > test.opened {
				t.Errorf("%d packages were downloaded", n)
			}
			if n := sent.Take()["POST upload"]; n > 0 {
				t.Errorf("%d blobs were pushed", n)
			}
		})
	}
}

func TestMirrorProviderExpiredKey(t *testing.T) {
	past := time.Now().Add(-2 * time.Hour)
	k := depottest.NewKey(t, signing.KeyOptions{Name: "Old", Lifetime: time.Hour, Now: func() time.Time { return past }})
	src := &depottest.Release{Dist: depottest.NewDist(t, "linux_amd64"), Has: []string{"linux_amd64"}}
	src.Keys = []artifact.SigningKey{{ASCIIArmor: depottest.MustPublic(t, k).Armor}}
	name := depottest.Stem + "linux_amd64.zip"
	depottest.SignSums(t, src.Dist, signing.Sums{name: digest.FromBytes(src.Dist[name].Data).Encoded()}, k, past.Add(time.Minute))
	d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	v := depottest.MustVersion(t, "1.2.3")
	if _, err := d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{}); !errors.Is(err, signing.ErrExpiredKey) {
		t.Errorf("an expired key: %v", err)
	}
	if _, err := d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{AllowExpired: true}); err != nil {
		t.Errorf("an expired key that is allowed: %v", err)
	}
}

func TestMirrorProviderUnsigned(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	src := depottest.NewRelease(t, mustKey(t), "linux_amd64")
	src.Change = func(p *upstream.Package) { p.Shasums, p.Signature, p.Keys, p.Zh = nil, nil, nil, "" }
	must.Get(d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), depottest.MustVersion(t, "1.2.3"), depot.MirrorOptions{AllowUnsigned: true}))(t)
	r := depottest.MustRepo(t, client, "p/mirror/registry.example.com/acme/dns")
	index, err := artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3"))
	if err != nil || index.Signature != artifact.SignatureNone {
		t.Errorf("index %+v, %v", index, err)
	}
}

// sizedBody is the body of an answer with an announced size.
type sizedBody struct{ io.ReadCloser }

func (sizedBody) Length() int64 { return 1 << 10 }

// TestMirrorProgress repeats the first upload: the events add up to the sizes.
func TestMirrorProgress(t *testing.T) {
	cut := &ocitest.Fault{Match: ocitest.On("PUT", "upload"), Nth: 1, Do: ocitest.FailBefore}
	client := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{NoSinglePost: true}), oci.Options{Transport: cut, Retry: oci.Retry{InitialBackoff: time.Millisecond}}))(t)
	var mu sync.Mutex
	moved, total := map[string]int64{}, map[string]int64{}
	d := depot.New(depot.Options{Client: client, Layout: addr.Layout{Prefix: "p"}, Progress: func(e depot.Event) {
		mu.Lock()
		defer mu.Unlock()
		moved[e.Item] += e.Bytes
		total[e.Item] = e.Total
	}})
	src := depottest.NewRelease(t, mustKey(t), "linux_amd64", "darwin_arm64")
	src.Change = func(p *upstream.Package) {
		open := p.Open
		p.Open = func(ctx context.Context) (io.ReadCloser, error) {
			body, err := open(ctx)
			return sizedBody{body}, err
		}
	}
	must.Get(d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), depottest.MustVersion(t, "1.2.3"), depot.MirrorOptions{}))(t)
	for _, platform := range src.Has {
		name := depottest.Stem + platform + ".zip"
		size := int64(len(src.Dist[name].Data))
		if moved[name] != size || total[name] != size || moved[name+" (download)"] != size || total[name+" (download)"] != 1<<10 {
			t.Errorf("%s of %d bytes: moved %v of %v", name, size, moved, total)
		}
	}
}

func TestMirrorProviderResumes(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	cut := &ocitest.Fault{Match: ocitest.OnTag("PUT"), Nth: 2, Do: ocitest.FailBefore} // after the bid
	broken, client := depottest.NewDepot(t, host, oci.Options{Transport: cut})
	src := depottest.NewRelease(t, mustKey(t), "linux_amd64", "darwin_arm64")
	v := depottest.MustVersion(t, "1.2.3")
	if _, err := broken.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{}); err == nil {
		t.Fatal("the version tag was not written and nobody noticed")
	}
	r := depottest.MustRepo(t, client, "p/mirror/registry.example.com/acme/dns")
	if tags := depottest.MustTags(t, r); len(tags) != 0 {
		t.Fatalf("tags %v after a cut run", tags)
	}
	opened := src.Opened.Load()
	d, _ := depottest.NewDepot(t, host, oci.Options{})
	must.Get(d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{}))(t)
	if again := src.Opened.Load() - opened; again != 0 {
		t.Errorf("%d packages were downloaded again", again)
	}
}

func TestLockHashes(t *testing.T) {
	src := depottest.NewRelease(t, mustKey(t), "linux_amd64", "darwin_arm64")
	v := depottest.MustVersion(t, "1.2.3")
	locked := must.Get(lockfile.Hashes(t.Context(), src, depottest.UpstreamDNS(), v, false))(t)
	// two zips and the registry manifest; the origin announces no h1:
	if len(locked.Hashes) != 3 || len(locked.Missing) != 2 || !locked.Verified || src.Opened.Load() != 0 {
		t.Errorf("got %+v after %d downloads", locked, src.Opened.Load())
	}
	computed, err := lockfile.Hashes(t.Context(), src, depottest.UpstreamDNS(), v, true)
	if err != nil || len(computed.Hashes) != 5 || len(computed.Missing) != 0 {
		t.Errorf("computed %+v, %v", computed, err)
	}
	old := lockfile.Provider{Version: v, Hashes: []string{"zh:" + digest.FromBytes([]byte("gone")).Encoded(), "h1:other", locked.Hashes[0]}}
	merged, conflicts := lockfile.Merge(old, computed)
	if len(conflicts) != 1 || conflicts[0] != old.Hashes[0] || len(merged.Hashes) != 7 {
		t.Errorf("merged %v, conflicts %v", merged.Hashes, conflicts)
	}
}
