// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/bundle"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

func newBundleRepo(t *testing.T, host, name string) *oci.Repo {
	t.Helper()
	return must.Get(oci.OpenRepo(host+"/"+name, oci.Options{}))(t)
}

// pushTagged pushes an image manifest over one layer under a tag.
func pushTagged(t *testing.T, r *oci.Repo, tag string, layer []byte, subject *oci.Descriptor) oci.Descriptor {
	t.Helper()
	blob := oci.BytesBlob("application/octet-stream", layer)
	m, err := oci.NewManifest(ocispec.Manifest{
		ArtifactType: "application/x-test", Config: oci.EmptyBlob().Descriptor, Layers: []oci.Descriptor{blob.Descriptor}, Subject: subject,
	})
	if err != nil {
		t.Fatal(err)
	}
	must.Get(r.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{blob, oci.EmptyBlob()}, Root: m}))(t)
	switch {
	case subject != nil:
		err = r.PutReferrer(t.Context(), m, *subject)
	default:
		err = r.PutTag(t.Context(), tag, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Descriptor
}

func mustCreate(t *testing.T, file string, items []bundle.Item, since map[digest.Digest]bool) bundle.Report {
	t.Helper()
	return must.Get(bundle.Create(t.Context(), depot.New(depot.Options{}), file, items, bundle.CreateOptions{Since: since}))(t)
}

// newLoader returns a depot below a prefix.
func newLoader(t *testing.T, host, prefix string) *depot.Depot {
	t.Helper()
	client := must.Get(oci.New(host, oci.Options{}))(t)
	return depot.New(depot.Options{Client: client, Layout: addr.Layout{Prefix: prefix}})
}

func mustOpenBundle(t *testing.T, file string) *bundle.File {
	t.Helper()
	b := must.Get(bundle.Open(file))(t)
	t.Cleanup(func() { b.Close() })
	return b
}

func TestBundle(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		r := newBundleRepo(t, host, bundledModule)
		subject := pushTagged(t, r, "1.0.0", []byte("one"), nil)
		referrer := pushTagged(t, r, "", []byte("signature"), &subject)
		item := bundle.Item{Name: bundledModule, Repo: r, Tags: []string{"1.0.0"}}
		file := filepath.Join(t.TempDir(), "b.tar")
		mustCreate(t, file, []bundle.Item{item}, nil)
		again := filepath.Join(t.TempDir(), "b.tar")
		mustCreate(t, again, []bundle.Item{item}, nil)
		if !bytes.Equal(mustRead(t, file), mustRead(t, again)) {
			t.Error("the same content gave two bundles")
		}
		const written = "sha256:d8950e6c14353582cfa8385aecefd7a4567b2f8943257c4f829c35628e21d9da" // by 6129cd06
		if got := digest.FromBytes(mustRead(t, file)); got != written {
			t.Errorf("the bundle is %s, earlier releases wrote %s", got, written)
		}
		b := mustOpenBundle(t, file)
		must.Get(b.Verify(t.Context()))(t)

		target := ocitest.New(t, ocitest.Quirks{})
		d := newLoader(t, target, "elsewhere")
		report, err := bundle.Load(t.Context(), d, b, bundle.LoadOptions{})
		if err != nil || len(report.Conflict) > 0 || report.Pushed == 0 {
			t.Fatalf("load %+v, %v", report, err)
		}
		loaded := newBundleRepo(t, target, "elsewhere/"+bundledModule)
		if d, err := loaded.Resolve(t.Context(), "1.0.0"); err != nil || d.Digest != subject.Digest {
			t.Errorf("tag %v, %v", d, err)
		}
		refs, err := loaded.Referrers(t.Context(), subject, "")
		if err != nil || len(refs) != 1 || refs[0].Digest != referrer.Digest {
			t.Errorf("referrers %v, %v", refs, err)
		}
		if report, err := bundle.Load(t.Context(), d, b, bundle.LoadOptions{}); err != nil || report.Pushed != 0 {
			t.Errorf("a second load: %+v, %v", report, err)
		}
	})
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(file))(t)
}

func TestBundleResumesAndBuildsOnAnEarlierOne(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	r := newBundleRepo(t, host, bundledModule)
	for _, v := range []string{"1.0.0", "2.0.0", "3.0.0"} {
		pushTagged(t, r, v, bytes.Repeat([]byte(v), 1000), nil)
	}
	dir := t.TempDir()
	items := []bundle.Item{{Name: bundledModule, Repo: r, Tags: []string{"1.0.0", "2.0.0"}}}
	whole := filepath.Join(dir, "whole.tar")
	mustCreate(t, whole, items, nil)
	want := mustRead(t, whole)
	for _, cut := range []int{0, 100, len(want) / 2, len(want) - 600} {
		file := filepath.Join(dir, "cut.tar")
		must.Succeed(t, os.WriteFile(file+".part", want[:cut], 0o600))
		report := mustCreate(t, file, items, nil)
		if !bytes.Equal(mustRead(t, file), want) {
			t.Errorf("cut at %d: the continued file differs", cut)
		}
		if cut > len(want)/3 && report.Resumed == 0 {
			t.Errorf("cut at %d: nothing was kept", cut)
		}
	}

	old := mustOpenBundle(t, whole)
	next := filepath.Join(dir, "next.tar")
	report := mustCreate(t, next, []bundle.Item{{Name: bundledModule, Repo: r, Tags: []string{"1.0.0", "3.0.0"}}}, old.Digests())
	if report.Required == 0 || report.Blobs != 2 {
		t.Errorf("report %+v, want the layer and the manifest of 3.0.0 only", report)
	}
	b := mustOpenBundle(t, next)
	if _, err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	empty := ocitest.New(t, ocitest.Quirks{})
	d := newLoader(t, empty, "")
	if _, err := bundle.Load(t.Context(), d, b, bundle.LoadOptions{}); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("loaded without the bundle it builds on: %v", err)
	}
	for _, file := range []*bundle.File{old, b} {
		if _, err := bundle.Load(t.Context(), d, file, bundle.LoadOptions{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := newBundleRepo(t, empty, bundledModule).Resolve(t.Context(), "3.0.0"); err != nil {
		t.Error(err)
	}
}

func TestBundleReportsAnotherDigest(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	r, other := newBundleRepo(t, host, bundledModule), newBundleRepo(t, host, "other/"+bundledModule)
	pushTagged(t, r, "1.0.0", []byte("one"), nil)
	kept := pushTagged(t, other, "1.0.0", []byte("foreign"), nil)
	file := filepath.Join(t.TempDir(), "b.tar")
	mustCreate(t, file, []bundle.Item{{Name: bundledModule, Repo: r, Tags: []string{"1.0.0"}}}, nil)
	report, err := bundle.Load(t.Context(), newLoader(t, host, "other"), mustOpenBundle(t, file), bundle.LoadOptions{})
	if err != nil || len(report.Conflict) != 1 {
		t.Fatalf("report %+v, %v", report, err)
	}
	if d, err := other.Resolve(t.Context(), "1.0.0"); err != nil || d.Digest != kept.Digest {
		t.Errorf("the tag moved to %s, %v", d.Digest, err)
	}
}

func TestBundleRefusesDamage(t *testing.T) {
	r := newBundleRepo(t, ocitest.New(t, ocitest.Quirks{}), bundledModule)
	pushTagged(t, r, "1.0.0", bytes.Repeat([]byte("layer"), 1000), nil)
	file := filepath.Join(t.TempDir(), "b.tar")
	mustCreate(t, file, []bundle.Item{{Name: bundledModule, Repo: r, Tags: []string{"1.0.0"}}}, nil)
	whole := mustRead(t, file)
	verify := func(text []byte) error {
		damaged := filepath.Join(t.TempDir(), "d.tar")
		if err := os.WriteFile(damaged, text, 0o600); err != nil {
			return err
		}
		b, err := bundle.Open(damaged)
		if err != nil {
			return err
		}
		defer b.Close()
		_, err = b.Verify(context.WithoutCancel(t.Context()))
		return err
	}
	if err := verify(bytes.Replace(whole, []byte("layerlayer"), []byte("layerLayer"), 1)); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("a changed blob: %v", err)
	}
	if err := verify(whole[:len(whole)/2]); err == nil {
		t.Error("half a file was accepted")
	}
	if err := verify(bytes.Replace(whole, []byte("aws:1.0.0"), []byte("aws:-.0.0"), 1)); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("an illegal tag: %v", err)
	}
	index := whole[512*2 : 512*4] // oci-layout precedes it
	if !bytes.HasPrefix(index, []byte("index.json")) {
		t.Fatal("index.json is not second")
	}
	if err := verify(slices.Concat(whole[:512*2], index, whole[512*2:])); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("two indexes: %v", err)
	}
	if err := verify([]byte("no tar")); !errors.Is(err, bundle.ErrNone) {
		t.Errorf("no tar at all: %v", err)
	}
}

func TestLoadBundleRefusesDamageAndLists(t *testing.T) {
	source := newBundleRepo(t, ocitest.New(t, ocitest.Quirks{}), "modules/net/vpc/aws")
	pushTagged(t, source, "1.0.0", bytes.Repeat([]byte("layer"), 1000), nil)
	file := filepath.Join(t.TempDir(), "b.tar")
	mustCreate(t, file, []bundle.Item{{Name: "modules/net/vpc/aws", Repo: source, Tags: []string{"1.0.0"}}}, nil)
	damaged := filepath.Join(t.TempDir(), "d.tar")
	must.Succeed(t, os.WriteFile(damaged, bytes.Replace(mustRead(t, file), []byte("layerlayer"), []byte("layerLayer"), 1), 0o600))
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	if _, err := bundle.Load(t.Context(), d, mustOpenBundle(t, damaged), bundle.LoadOptions{}); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("a changed blob: %v", err)
	}
	r := depottest.MustRepo(t, client, "p/modules/net/vpc/aws")
	if _, err := r.Resolve(t.Context(), "1.0.0"); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("the version of the damaged bundle: %v", err)
	}
	if report, err := bundle.Load(t.Context(), d, mustOpenBundle(t, file), bundle.LoadOptions{}); err != nil || len(report.Warnings) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	entries, err := d.Catalog(t.Context())
	want := []artifact.CatalogEntry{{Kind: addr.KindModule, Address: "net/vpc/aws", Repository: "p/modules/net/vpc/aws"}}
	if diff := cmp.Diff(want, entries); err != nil || diff != "" {
		t.Errorf("catalog: %v\n%s", err, diff)
	}
}

func TestBundleSignature(t *testing.T) {
	r := newBundleRepo(t, ocitest.New(t, ocitest.Quirks{}), bundledModule)
	pushTagged(t, r, "1.0.0", []byte("one"), nil)
	pushTagged(t, r, "2.0.0", []byte("two"), nil)
	file := filepath.Join(t.TempDir(), "b.tar")
	written := func(tag string) *bundle.File {
		mustCreate(t, file, []bundle.Item{{Name: bundledModule, Repo: r, Tags: []string{tag}}}, nil)
		return mustOpenBundle(t, file)
	}
	key, other := depottest.NewKey(t, signing.KeyOptions{Name: "Test"}), depottest.NewKey(t, signing.KeyOptions{Name: "Test"})
	trusted := []signing.PublicKey{depottest.MustPublic(t, key)}
	b := written("1.0.0")
	if _, err := b.VerifySignature(trusted); !errors.Is(err, trust.ErrUntrusted) || !strings.Contains(err.Error(), "no signature") {
		t.Errorf("not signed: %v", err)
	}
	must.Get(b.Sign(key, time.Now()))(t)
	if got, err := b.VerifySignature(trusted); err != nil || got.ID != key.ID() {
		t.Errorf("signed by %q, %v", got.ID, err)
	}
	if _, err := b.VerifySignature([]signing.PublicKey{depottest.MustPublic(t, other)}); !errors.Is(err, trust.ErrUntrusted) || !errors.Is(err, signing.ErrUnknownKey) {
		t.Errorf("another key: %v", err)
	}
	if _, err := written("2.0.0").VerifySignature(trusted); !errors.Is(err, signing.ErrBadSignature) {
		t.Errorf("another bundle: %v", err)
	}
	must.Succeed(t, os.WriteFile(file+".sig", bytes.Repeat([]byte("x"), 1<<20), 0o600))
	if _, err := b.VerifySignature(trusted); !errors.Is(err, trust.ErrUntrusted) {
		t.Errorf("garbage: %v", err)
	}
}

// publishVersions publishes versions 1.0.0 to 1.N.0 of net/vpc/aws.
func publishVersions(t *testing.T, d *depot.Depot, n int) {
	t.Helper()
	for i := range n {
		tree := depottest.NewModule(fmt.Sprintf("# version %d\n", i))
		o := depot.ModuleOptions{Annotations: map[string]string{artifact.AnnTitle: []string{"Net/VPC/aws", "net/Vpc/aws"}[min(i, 1)]}}
		must.Get(d.PublishModule(t.Context(), tree, depottest.MustModule(t, "net/vpc/aws", fmt.Sprintf("1.%d.0", i)), o))(t)
	}
}
