// SPDX-License-Identifier: Apache-2.0

package artifact_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

func layer(mediaType, content string) oci.Descriptor {
	return oci.Descriptor{MediaType: mediaType, Digest: digest.FromString(content), Size: int64(len(content))}
}

func mustManifest(t *testing.T, m ocispec.Manifest) oci.Manifest {
	t.Helper()
	return must.Get(oci.NewManifest(m))(t)
}

func mustIndex(t *testing.T, x ocispec.Index) oci.Manifest {
	t.Helper()
	return must.Get(oci.NewIndex(x))(t)
}

func mustVersion(t *testing.T, s string) addr.Version {
	t.Helper()
	return must.Get(addr.ParseVersion(s))(t)
}

// TestNewModule pins the stored form: a change of it needs a reader for the old form.
func TestNewModule(t *testing.T) {
	tarball, zip, description := layer("", "tar"), layer("", "zip"), layer("", "json")
	m := must.Get(artifact.NewModule(artifact.ModuleManifest{
		Address: addr.Module{Namespace: "net", Name: "vpc", System: "aws"}, Version: mustVersion(t, "1.4.0+b"), ContentDigest: "sha256:77aa",
		Tar: &tarball, Zip: &zip, Description: &description, Annotations: map[string]string{artifact.AnnRevision: "3f0c2d"},
	}))(t)
	want := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"application/vnd.opentofu.modulepkg",` +
		`"config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},` +
		`"layers":[{"mediaType":"application/vnd.cncf.flux.content.v1.tar+gzip","digest":"` + tarball.Digest.String() + `","size":3},` +
		`{"mediaType":"archive/zip","digest":"` + zip.Digest.String() + `","size":3},` +
		`{"mediaType":"application/vnd.okara.module.v1+json","digest":"` + description.Digest.String() + `","size":4}],` +
		`"annotations":{"org.opencontainers.image.revision":"3f0c2d","org.opencontainers.image.title":"net/vpc/aws","org.opencontainers.image.version":"1.4.0+b",` +
		`"vnd.okara.address":"net/vpc/aws","vnd.okara.content-digest":"sha256:77aa","vnd.okara.kind":"module","vnd.okara.version":"1.4.0+b"}}`
	must.Match(t, "value", string(m.Bytes), want)
	back, err := artifact.ParseModule(m)
	if err != nil || back.Version != mustVersion(t, "1.4.0+b") || back.Address.Name != "vpc" || back.Tar.Digest != tarball.Digest || back.ContentDigest != "sha256:77aa" {
		t.Errorf("read back %+v, %v", back, err)
	}
}

func TestParseModule(t *testing.T) {
	zip := layer(artifact.MediaZip, "zip")
	sha512 := oci.Descriptor{MediaType: artifact.MediaZip, Digest: digest.SHA512.FromString("x"), Size: 1}
	config := oci.EmptyBlob().Descriptor
	tests := []struct {
		name string
		m    oci.Manifest
		ok   bool
	}{
		{"zip of another tool", mustManifest(t, ocispec.Manifest{ArtifactType: artifact.ArtifactModule, Config: config, Layers: []oci.Descriptor{zip, layer("text/plain", "x")}}), true},
		{"other artifact", mustManifest(t, ocispec.Manifest{ArtifactType: artifact.ArtifactProviderTarget, Config: config, Layers: []oci.Descriptor{zip}}), false},
		{"no zip", mustManifest(t, ocispec.Manifest{ArtifactType: artifact.ArtifactModule, Config: config, Layers: []oci.Descriptor{layer(artifact.MediaModuleTar, "x")}}), false},
		{"two zips", mustManifest(t, ocispec.Manifest{ArtifactType: artifact.ArtifactModule, Config: config, Layers: []oci.Descriptor{zip, layer(artifact.MediaZip, "y")}}), false},
		{"other digest", mustManifest(t, ocispec.Manifest{ArtifactType: artifact.ArtifactModule, Config: config, Layers: []oci.Descriptor{sha512}}), false},
		{"index", mustIndex(t, ocispec.Index{ArtifactType: artifact.ArtifactModule}), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := artifact.ParseModule(tt.m)
			if tt.ok && (err != nil || got.Zip.Digest != zip.Digest || got.Tar != nil || got.Version != (addr.Version{})) {
				t.Errorf("got %+v, %v", got, err)
			}
			if !tt.ok && !errors.Is(err, oci.ErrCorrupt) {
				t.Errorf("got %v, want ErrCorrupt", err)
			}
		})
	}
}

func platform(os, arch string) oci.Descriptor {
	d := layer(ocispec.MediaTypeImageManifest, os+arch)
	d.ArtifactType, d.Platform = artifact.ArtifactProviderTarget, &ocispec.Platform{OS: os, Architecture: arch}
	return d
}

func TestParseProviderIndex(t *testing.T) {
	change := func(f func(d *oci.Descriptor)) oci.Descriptor {
		d := platform("linux", "amd64")
		d.Annotations = map[string]string{}
		f(&d)
		return d
	}
	tests := []struct {
		name     string
		typ      string
		children []oci.Descriptor
		err      string // empty: accepted
	}{
		{"of another tool", artifact.ArtifactProvider, []oci.Descriptor{platform("linux", "amd64"), platform("linux", "arm64")}, ""},
		{"other children are ignored", artifact.ArtifactProvider, []oci.Descriptor{platform("linux", "amd64"), layer(ocispec.MediaTypeImageManifest, "x")}, ""},
		{"other artifact", artifact.ArtifactModule, nil, "artifact type"},
		{"copied by skopeo 1.9", "", []oci.Descriptor{platform("linux", "amd64")}, "copy it again with `regctl image copy`"},
		{"platform twice", artifact.ArtifactProvider, []oci.Descriptor{platform("linux", "amd64"), platform("linux", "amd64")}, "duplicate platform linux_amd64"},
		{"no platform", artifact.ArtifactProvider, []oci.Descriptor{change(func(d *oci.Descriptor) { d.Platform = nil })}, "has no platform"},
		{"os.version", artifact.ArtifactProvider, []oci.Descriptor{change(func(d *oci.Descriptor) { d.Platform.OSVersion = "1" })}, "os.version"},
		{"nested index", artifact.ArtifactProvider, []oci.Descriptor{change(func(d *oci.Descriptor) { d.MediaType = ocispec.MediaTypeImageIndex })}, "media type"},
		{"negative size", artifact.ArtifactProvider, []oci.Descriptor{change(func(d *oci.Descriptor) { d.Annotations["vnd.okara.provider.size"] = "-1" })}, "size"},
		{"hash", artifact.ArtifactProvider, []oci.Descriptor{change(func(d *oci.Descriptor) { d.Annotations["vnd.okara.provider.zh"] = "../x" })}, "zh"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x, err := artifact.ParseProviderIndex(mustIndex(t, ocispec.Index{ArtifactType: tt.typ, Manifests: tt.children, Annotations: map[string]string{artifact.AnnKind: "provider"}}))
			if tt.err == "" {
				if err != nil || len(x.Protocols) != 1 || x.Protocols[0] != artifact.DefaultProtocol || x.Metadata != nil {
					t.Errorf("got %+v, %v", x, err)
				}
				return
			}
			if !errors.Is(err, oci.ErrCorrupt) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want ErrCorrupt with %q", err, tt.err)
			}
		})
	}
}

// TestLargeMetadataIsNotInline checks the size of the index: registries accept at most 4 MiB.
func TestLargeMetadataIsNotInline(t *testing.T) {
	for _, size := range []int{100, 9 << 10, 40 << 10} {
		m, blobs := must.GetBoth(artifact.NewProviderMetadata(artifact.ProviderMetadata{ShasumsName: "SHA256SUMS", ShasumsBytes: make([]byte, size)}))(t)
		image, err := m.Image()
		if err != nil || len(blobs) != 2 {
			t.Fatal(err, len(blobs))
		}
		if inline := image.Layers[0].Data != nil; inline != (size <= 8<<10) {
			t.Errorf("%d bytes: inline %v", size, inline)
		}
		index := must.Get(artifact.NewProviderIndex(addr.KindProvider, addr.Provider{Namespace: "a", Type: "b"}, artifact.ProviderIndex{Version: mustVersion(t, "1.0.0")}, m))(t)
		x, err := artifact.ParseProviderIndex(index)
		if err != nil || x.Metadata == nil || (x.Metadata.Data != nil) != (m.Size <= 32<<10) {
			t.Errorf("%d bytes: %+v, %v", size, x.Metadata, err)
		}
	}
}

// TestTooLargeIndex checks that a manifest over 4 MiB is refused at once: some
// registries refuse it only after they have accepted the blobs.
func TestTooLargeIndex(t *testing.T) {
	x := artifact.ProviderIndex{Version: mustVersion(t, "1.0.0"), Annotations: map[string]string{"x": strings.Repeat("x", oci.MaxManifest)}}
	if _, err := artifact.NewProviderIndex(addr.KindProvider, addr.Provider{Namespace: "a", Type: "b"}, x, oci.Manifest{}); !errors.Is(err, oci.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

// TestDamagedInlineDataIsNotUsed checks that the blob is used if the inline data is damaged.
func TestDamagedInlineDataIsNotUsed(t *testing.T) {
	r := must.Get(oci.OpenRepo(ocitest.New(t, ocitest.Quirks{})+"/providers/a/b", oci.Options{}))(t)
	m, blobs := must.GetBoth(artifact.NewProviderMetadata(artifact.ProviderMetadata{ShasumsName: "SHA256SUMS", ShasumsBytes: []byte("good")}))(t)
	must.Get(r.Push(t.Context(), oci.Artifact{Blobs: blobs, Root: m}))(t)
	d := m.Descriptor
	d.Data = []byte(strings.Replace(string(m.Bytes), "SHA256SUMS", "SHA256SUMZ", 1))
	md, err := artifact.ReadProviderMetadata(t.Context(), r, artifact.ProviderIndex{Metadata: &d})
	if err != nil || md.ShasumsName != "SHA256SUMS" || string(md.ShasumsBytes) != "good" {
		t.Errorf("got %+v, %v", md, err)
	}
}

func TestCosignPayloadNames(t *testing.T) {
	d := digest.FromString("m")
	payload := must.Get(evidence.CosignPayload("host:5000/a/b", d))(t)
	want := `{"critical":{"identity":{"docker-reference":"host:5000/a/b"},"image":{"docker-manifest-digest":"` + d.String() + `"},"type":"cosign container image signature"},"optional":null}`
	must.Match(t, "value", string(payload), want)
	s := evidence.CosignSignature{Payload: payload}
	for _, name := range []string{"a/b", "b"} { // with the prefix and below it
		if err := s.Names(name, d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"repository": s.Names("a/c", d), "part of a segment": evidence.CosignSignature{Payload: bytes.Replace(payload, []byte("a/b"), []byte("a/bb"), 1)}.Names("b", d), "digest": s.Names("a/b", digest.FromString("x")),
		"type": evidence.CosignSignature{Payload: []byte(`{}`)}.Names("a/b", d), "json": evidence.CosignSignature{}.Names("a/b", d),
	} {
		if other := name != "type" && name != "json"; errors.Is(err, oci.ErrCorrupt) == other || errors.Is(err, artifact.ErrSignsOther) != other {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestCatalogTag(t *testing.T) {
	tag := artifact.CatalogTag("p/modules/net/vpc/aws")
	if !artifact.IsCatalogTag(tag) || artifact.IsCatalogTag("r-xyz") || artifact.IsCatalogTag("1.0.0") {
		t.Errorf("tag %q", tag)
	}
}

// FuzzParseArtifact checks that no answer of a registry crashes the front-end.
func FuzzParseArtifact(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"artifactType":"application/vnd.opentofu.modulepkg","config":{},"layers":[{"mediaType":"archive/zip"}]}`))
	f.Add([]byte(`{"schemaVersion":2,"artifactType":"application/vnd.opentofu.provider","manifests":[{"artifactType":"application/vnd.opentofu.provider-target","platform":null}]}`))
	f.Add([]byte(`{"schemaVersion":2,"artifactType":"application/vnd.okara.status.v1","config":{},"layers":[],"annotations":{"vnd.okara.status.action":"yank"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := oci.Descriptor{Digest: digest.FromBytes(b), Size: int64(len(b))}
		for _, mediaType := range []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex} {
			d.MediaType = mediaType
			m := oci.Manifest{Descriptor: d, Bytes: b}
			if x, err := artifact.ParseModule(m); err == nil && x.Zip == nil {
				t.Error("a module without a zip")
			}
			if x, err := artifact.ParseProviderIndex(m); err == nil {
				for _, p := range x.Platforms {
					if p.Platform.OS == "" || p.Size < 0 {
						t.Errorf("platform %+v", p)
					}
				}
			}
			if e, err := evidence.ParseStatusEvent("x", m); err == nil && e.Action == "" {
				t.Error("an event without an action")
			}
		}
	})
}

// TestBelow: pages and snippets name the first submodule of a package that has nothing else.
func TestBelow(t *testing.T) {
	subs := []artifact.DescribedModule{{Path: "modules/a"}, {Path: "modules/b"}}
	for want, root := range map[string]artifact.DescribedModule{"modules/a": {}, "": {Outputs: make([]artifact.DescribedOutput, 1)}} {
		if got := (artifact.ModuleDescription{Root: root, Submodules: subs}).Below(); got != want {
			t.Errorf("with %+v in the root: %q, want %q", root, got, want)
		}
	}
}
