// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// forged is a bundle as an attacker may write it.
type forged struct {
	index ocispec.Index
	blobs map[string][]byte // by hex digest
}

func (f *forged) blob(b oci.Blob, bytes []byte) oci.Descriptor {
	if f.blobs == nil {
		f.blobs = map[string][]byte{}
	}
	f.blobs[b.Digest.Encoded()] = bytes
	return b.Descriptor
}

func (f *forged) manifest(m oci.Manifest) oci.Descriptor {
	return f.blob(oci.Blob{Descriptor: m.Descriptor}, m.Bytes)
}

// image adds an image manifest with the empty config.
func (f *forged) image(t *testing.T, m ocispec.Manifest) oci.Descriptor {
	t.Helper()
	m.Config = f.blob(oci.EmptyBlob(), []byte("{}"))
	if m.Layers == nil {
		m.Layers = []oci.Descriptor{m.Config}
	}
	out := must.Get(oci.NewManifest(m))(t)
	return f.manifest(out)
}

// list adds an entry to index.json.
func (f *forged) list(name string, d oci.Descriptor) {
	d.Annotations = map[string]string{ocispec.AnnotationRefName: name}
	f.index.Manifests = append(f.index.Manifests, d)
}

func (f *forged) open(t *testing.T) *bundle.File {
	t.Helper()
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "forged.tar")))(t)
	index := must.Get(json.Marshal(f.index))(t)
	w := tar.NewWriter(file)
	write := func(name string, b []byte) {
		must.Succeed(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(b)), Mode: 0o644}))
		must.Get(w.Write(b))(t)
	}
	write("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	write("index.json", index)
	for hex, b := range f.blobs {
		write("blobs/sha256/"+hex, b)
	}
	must.Succeed(t, errors.Join(w.Close(), file.Close()))
	return mustOpenBundle(t, file.Name())
}

// counted returns a depot below the prefix p and the counter of its requests.
func counted(t *testing.T) (*depot.Depot, *oci.Client, *ocitest.Count) {
	t.Helper()
	count := &ocitest.Count{}
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: count})
	return d, client, count
}

// TestLoadBundleStaysInItsPlace lists what a bundle must not write: other
// repositories, and tags that are neither versions nor belong to one.
//
// Shows: mistakes 5 | `bundle load` left its prefix by `../` and wrote any tag: states, locks,
// jobs, yanks | names must be those of a module, provider or mirror, tags those of a version; the
// policy is applied to the bytes that are stored; without a key a bundle makes statements only
// about versions that it contains
func TestLoadBundleStaysInItsPlace(t *testing.T) {
	const claim = "-default-000001-0a1b2c3d"
	for _, name := range []string{
		"../state/shop:state" + claim,
		"../../elsewhere/modules/net/vpc/aws:1.0.0",
		"../p/modules/net/vpc/aws:1.0.0",
		"modules/net/vpc/../../../state/shop:1.0.0",
		"./modules/net/vpc/aws:1.0.0",
		"modules//net/vpc/aws:1.0.0",
		"/modules/net/vpc/aws:1.0.0",
		"modules/net/vpc:1.0.0",
		"modules/net/vpc/AWS:1.0.0",
		"state/shop:state" + claim,
		"state/shop:1.0.0",
		"state/shop:locked" + claim,
		"queue:job-0123456789abcdef0123456789abcdef",
		"queue:r-0123456789abcdef0123456789abcdef",
		"catalog:okara-depot",
		"catalog:depot-0123456789abcdef0123456789abcdef",
		"catalog:okara-index",
		"catalog:1.0.0",
		bundledModule + ":latest",
		bundledModule + ":1.0",
		bundledModule + ":state" + claim,
		bundledModule + ":locked" + claim,
		bundledModule + ":unlocked" + claim,
		bundledModule + ":okara-candidate-0123456789ab",
		bundledModule + ":okara-status-1-2",
		bundledModule + ":r-0123456789abcdef0123456789abcdef",
		bundledModule + ":sha256-0123",
	} {
		t.Run(name, func(t *testing.T) {
			var f forged
			f.list(bundledModule+":9.9.9", f.image(t, ocispec.Manifest{ArtifactType: "application/x-good"}))
			f.list(name, f.image(t, ocispec.Manifest{ArtifactType: "application/x-test"}))
			d, _, count := counted(t)
			if report, err := bundle.Load(t.Context(), d, f.open(t), bundle.LoadOptions{Trusted: true}); !errors.Is(err, oci.ErrCorrupt) {
				t.Errorf("loaded %+v, %v", report, err)
			}
			if n := count.Total(); n > 0 {
				t.Errorf("%d requests, want none before all names are known to be right: %v", n, count.Take())
			}
		})
	}
}

// TestLoadBundlePassesOverCatalog checks that catalog entries are skipped: a
// foreign entry could contain anything.
//
// Shows: mistakes 5
func TestLoadBundlePassesOverCatalog(t *testing.T) {
	var f forged
	f.list("catalog:"+artifact.CatalogTag("p/"+bundledModule), f.image(t, ocispec.Manifest{
		ArtifactType: "application/vnd.okara.catalog.v1", Annotations: map[string]string{artifact.AnnKind: addr.KindModule, "vnd.okara.address": "e/v/il"},
	}))
	d, _, _ := counted(t)
	must.Get(bundle.Load(t.Context(), d, f.open(t), bundle.LoadOptions{}))(t)
	if entries, err := d.Catalog(t.Context()); err != nil || len(entries) > 0 {
		t.Errorf("catalog %v, %v", entries, err)
	}
}

func statusEvent(action, version string) ocispec.Manifest {
	return ocispec.Manifest{ArtifactType: evidence.ArtifactStatus, Annotations: map[string]string{
		"vnd.okara.status.action": action, "vnd.okara.status.version": version, "vnd.okara.status.time": time.Now().Format(time.RFC3339),
	}}
}

const statusTag = ":okara-status-1700000000000-0123456789abcdef"

// TestLoadBundleSpeaksOfWhatItBrings has a bundle that yanks, scans and signs a
// version that the registry has, in every possible place.
//
// Shows: mistakes 5
func TestLoadBundleSpeaksOfWhatItBrings(t *testing.T) {
	for _, tt := range []struct {
		name    string
		forge   func(t *testing.T, f *forged, have oci.Descriptor)
		trusted int // entries refused of a trusted bundle
	}{
		{"yank", func(t *testing.T, f *forged, _ oci.Descriptor) {
			f.list(bundledModule+statusTag, f.image(t, statusEvent(evidence.ActionYank, "1.0.0")))
		}, 0},
		{"yank all", func(t *testing.T, f *forged, _ oci.Descriptor) {
			f.list(bundledModule+statusTag, f.image(t, statusEvent(evidence.ActionYank, evidence.AllVersions)))
		}, 0},
		{"yank of what it brings as the registry has it", func(t *testing.T, f *forged, have oci.Descriptor) {
			f.list(bundledModule+":1.0.0", have)
			f.index.Annotations = map[string]string{"vnd.okara.bundle.requires": have.Digest.String()}
			f.list(bundledModule+statusTag, f.image(t, statusEvent(evidence.ActionYank, "1.0.0")))
		}, 0},
		{"an event of the future", func(t *testing.T, f *forged, _ oci.Descriptor) {
			f.list(bundledModule+":okara-status-9999999999999-0123456789abcdef", f.image(t, statusEvent(evidence.ActionDeprecate, "1.0.0")))
		}, 1},
		{"a name of another edition", func(t *testing.T, f *forged, _ oci.Descriptor) {
			f.list(bundledModule+":1.0.0-eaaaaaaaaaaaa", f.image(t, ocispec.Manifest{ArtifactType: artifact.ArtifactModule}))
		}, 1},
		{"report", func(t *testing.T, f *forged, have oci.Descriptor) {
			d := f.image(t, ocispec.Manifest{ArtifactType: evidence.ReportSARIF, Subject: &have})
			f.list(bundledModule+"@"+d.Digest.String(), d)
		}, 0},
		{"report in a list", func(t *testing.T, f *forged, have oci.Descriptor) {
			d := f.image(t, ocispec.Manifest{ArtifactType: evidence.ReportSARIF, Subject: &have})
			list := must.Get(oci.NewIndex(ocispec.Index{Manifests: []oci.Descriptor{d}}))(t)
			f.list(bundledModule+":sha256-"+have.Digest.Encoded(), f.manifest(list))
		}, 0},
		{"report as signature", func(t *testing.T, f *forged, have oci.Descriptor) {
			d := f.image(t, ocispec.Manifest{ArtifactType: evidence.ReportSARIF, Subject: &have})
			f.list(bundledModule+":sha256-"+have.Digest.Encoded()+".sig", d)
		}, 1},
		{"report as version", func(t *testing.T, f *forged, have oci.Descriptor) {
			f.list(bundledModule+":2.0.0", f.image(t, ocispec.Manifest{ArtifactType: evidence.ReportSARIF, Subject: &have}))
		}, 1},
		{"report within a version", func(t *testing.T, f *forged, have oci.Descriptor) {
			d := f.image(t, ocispec.Manifest{ArtifactType: evidence.ReportSARIF, Subject: &have})
			list := must.Get(oci.NewIndex(ocispec.Index{Manifests: []oci.Descriptor{d}}))(t)
			f.list(bundledModule+":2.0.0", f.manifest(list))
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, client, _ := counted(t)
			publishVersions(t, d, 1)
			r := depottest.MustRepo(t, client, depottest.ModuleRepo)
			have := depottest.MustFetch(t, r, "1.0.0").Descriptor
			before := depottest.MustTags(t, r)
			var f forged
			tt.forge(t, &f, have)
			b := f.open(t)
			report, err := bundle.Load(t.Context(), d, b, bundle.LoadOptions{})
			if err != nil || len(report.Refused) != 1 {
				t.Errorf("loaded %+v, %v", report, err)
			}
			if after := depottest.MustTags(t, r); !slices.Equal(before, after) {
				t.Errorf("tags %v, before %v", after, before)
			}
			if refs, err := r.Referrers(t.Context(), have, ""); err != nil || len(refs) > 0 {
				t.Errorf("referrers %v, %v", refs, err)
			}
			if report, err = bundle.Load(t.Context(), d, b, bundle.LoadOptions{Trusted: true}); err != nil || len(report.Refused) != tt.trusted {
				t.Errorf("of a trusted bundle: %+v, %v", report, err)
			}
		})
	}
}

// TestLoadBundleProvesContent loads a used number with another version's files.
func TestLoadBundleProvesContent(t *testing.T) {
	publish := func(d *depot.Depot, text string) oci.Manifest {
		out := must.Get(d.PublishModule(t.Context(), depottest.NewModule(text), depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{}))(t)
		return must.Get(must.Get(d.Repo("p/"+bundledModule))(t).Fetch(t.Context(), out.Digest))(t)
	}
	d, client, _ := counted(t)
	source, outside, _ := counted(t)
	forged := must.Get(artifact.ParseModule(publish(source, "# b")))(t)
	forged.Annotations = nil
	forged.ContentDigest = must.Get(artifact.ParseModule(publish(d, "# a")))(t).ContentDigest
	must.Succeed(t, depottest.MustRepo(t, outside, depottest.ModuleRepo).PutTag(t.Context(), "1.0.0", must.Get(artifact.NewModule(forged))(t)))
	r := depottest.MustRepo(t, client, depottest.ModuleRepo)
	must.Succeed(t, r.Untag(t.Context(), "1.0.0"))
	report := must.Get(bundle.Load(t.Context(), d, bundleOf(t, source, depottest.VPC()), bundle.LoadOptions{Trusted: true}))(t)
	if len(report.Conflict) != 1 || !strings.Contains(report.Conflict[0], "cannot be verified to be its content") || slices.Contains(depottest.MustTags(t, r), "1.0.0") {
		t.Errorf("%+v, %v", report, depottest.MustTags(t, r))
	}
}

// TestLoadBundlePolicyOnWhatLands loads a version whose index.json contradicts
// its bytes.
//
// Shows: mistakes 5
func TestLoadBundlePolicyOnWhatLands(t *testing.T) {
	var f forged
	x := f.image(t, ocispec.Manifest{ArtifactType: "application/x-evil"})
	x.ArtifactType, x.Data = artifact.ArtifactModule, []byte(`{"artifactType":"`+artifact.ArtifactModule+`"}`)
	f.list(bundledModule+":1.0.0", x)
	d, client, _ := counted(t)
	report, err := bundle.Load(t.Context(), d, f.open(t), bundle.LoadOptions{Policy: &trust.Policy{}})
	if err != nil || len(report.Refused) != 1 || !strings.Contains(report.Refused[0], "x-evil") {
		t.Errorf("loaded %+v, %v", report, err)
	}
	if _, err := depottest.MustRepo(t, client, depottest.ModuleRepo).Resolve(t.Context(), "1.0.0"); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("the version: %v", err)
	}
}

// ladder adds indexes that each list the previous one often: rungs to the power of depth paths.
func (f *forged) ladder(t *testing.T, depth, rungs int) oci.Descriptor {
	t.Helper()
	d := f.image(t, ocispec.Manifest{ArtifactType: "application/x-test"})
	for i := range depth {
		index := ocispec.Index{Annotations: map[string]string{"level": fmt.Sprint(i)}}
		for range rungs {
			index.Manifests = append(index.Manifests, d)
		}
		m := must.Get(oci.NewIndex(index))(t)
		d = f.manifest(m)
	}
	return d
}

// TestBundleLadder has a graph of nine manifests with 10^16 paths to its end.
//
// Shows: mistakes 14 | a bundle whose indexes list each other was processed for ever, even after a
// signal | each manifest is visited once, depth and sizes are bounded, and a signal stops it
func TestBundleLadder(t *testing.T) {
	var f forged
	top := f.ladder(t, 8, 100)
	f.list(bundledModule+":1.0.0", top)
	f.list(bundledModule+":2.0.0", top)
	b := f.open(t)
	if report, err := b.Verify(t.Context()); err != nil || report.Blobs != 10 {
		t.Errorf("verify %+v, %v", report, err)
	}
	d, _, count := counted(t)
	must.Get(bundle.Load(t.Context(), d, b, bundle.LoadOptions{}))(t)
	if n := count.Take()["PUT manifest"]; n > 2*(9+3)+2 {
		t.Errorf("%d manifests written, want each once for a version, two tags with a bid and a time each, latest, and the catalog", n)
	}
	item := must.Get(bundle.Select(t.Context(), d, addr.Selection{Item: depottest.VPC().Item()}))(t)
	if report := mustCreate(t, filepath.Join(t.TempDir(), "again.tar"), []bundle.Item{item}, nil); report.Blobs != 10 {
		t.Errorf("written again: %+v", report)
	}
}

// TestBundleDepth refuses unrealistically deep nesting, and ends on
// cancellation.
//
// Shows: mistakes 14
func TestBundleDepth(t *testing.T) {
	var f forged
	f.list(bundledModule+":1.0.0", f.ladder(t, 100, 2))
	b := f.open(t)
	if _, err := b.Verify(t.Context()); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("verify: %v", err)
	}
	d, _, _ := counted(t)
	if _, err := bundle.Load(t.Context(), d, b, bundle.LoadOptions{}); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("load: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("verify after the end: %v", err)
	}
}

// TestBundleWritesThroughNoLink has links at the paths that okara writes beside
// a bundle.
//
// Shows: mistakes 19
func TestBundleWritesThroughNoLink(t *testing.T) {
	d, client, _ := counted(t)
	publishVersions(t, d, 1)
	item := bundle.Item{Name: bundledModule, Repo: depottest.MustRepo(t, client, depottest.ModuleRepo), Tags: []string{"1.0.0"}}
	dir := t.TempDir()
	victim, file := filepath.Join(dir, "victim"), filepath.Join(dir, "b.tar")
	for _, name := range []string{file + ".part", file + ".sig"} {
		if err := os.Symlink(victim, name); err != nil {
			t.Skipf("this system makes no symbolic links: %v", err)
		}
	}
	if _, err := bundle.Create(t.Context(), d, file, []bundle.Item{item}, bundle.CreateOptions{}); err == nil {
		t.Error("a bundle was written through a link")
	}
	must.Succeed(t, os.Remove(file+".part"))
	mustCreate(t, file, []bundle.Item{item}, nil)
	if _, err := mustOpenBundle(t, file).Sign(depottest.NewKey(t, signing.KeyOptions{Name: "Test"}), time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(victim); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file behind the links: %v", err)
	}
}
