// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// makeArgs makes the arguments of one command.
type makeArgs = func(t *testing.T) []string

// with adds flags to the arguments.
func with(args makeArgs, flags ...string) makeArgs {
	return func(t *testing.T) []string { return append(args(t), flags...) }
}

func badModule(spoil func(t *testing.T, dir string), flags ...string) makeArgs {
	return func(t *testing.T) []string {
		dir := newModuleDir(t)
		spoil(t, dir)
		return append([]string{"publish", "module", dir, "net/vpc/aws", "1.0.0"}, flags...)
	}
}

func badModuleVersion(version string) makeArgs {
	return func(t *testing.T) []string {
		return []string{"publish", "module", newModuleDir(t), "net/vpc/aws", version}
	}
}

// badArchive publishes an archive through the registry of another tool.
func badArchive(archive []byte) makeArgs {
	return func(t *testing.T) []string {
		r := newBadRepo(t, "foreign")
		blob := oci.BytesBlob(artifact.MediaZip, archive)
		m, err := oci.NewManifest(ocispec.Manifest{
			ArtifactType: artifact.ArtifactModule, Config: oci.EmptyBlob().Descriptor, Layers: []oci.Descriptor{blob.Descriptor},
		})
		if err != nil {
			t.Fatal(err)
		}
		mustPushTag(t, r, oci.Artifact{Blobs: []oci.Blob{blob, oci.EmptyBlob()}, Root: m})
		return []string{"publish", "package", r.String() + ":1.0.0", "net/vpc/aws", "1.0.0"}
	}
}

func badProvider(dist map[string][]byte, flags ...string) makeArgs {
	return badProviderVersion("1.0.0", dist, flags...)
}

func badProviderVersion(version string, dist map[string][]byte, flags ...string) makeArgs {
	return func(t *testing.T) []string {
		dir := t.TempDir()
		for name, b := range dist {
			mustWrite(t, filepath.Join(dir, name), b)
		}
		return append([]string{"publish", "provider", dir, "acme/dns", version}, flags...)
	}
}

// badMirror mirrors from a filesystem mirror with one file.
func badMirror(name string, zip []byte) makeArgs {
	return func(t *testing.T) []string {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, badOrigin), 0o700); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, filepath.Join(dir, badOrigin, name), zip)
		return []string{"mirror", badOrigin, "--from", dir, "--allow-unsigned"}
	}
}

// badOriginOf mirrors a zip from a registry that reports these sums and key for it.
func badOriginOf(zip []byte, s sums, key badKey) makeArgs {
	return func(t *testing.T) []string {
		r := newBadRepo(t, "mirror/"+badOrigin)
		p, err := addr.ParseProvider(badOrigin)
		if err != nil {
			t.Fatal(err)
		}
		v, err := addr.ParseVersion("1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		blob := oci.BytesBlob(artifact.MediaZip, zip)
		target, err := artifact.NewProviderTarget(blob.Descriptor, "x.zip")
		if err != nil {
			t.Fatal(err)
		}
		md, blobs, err := artifact.NewProviderMetadata(artifact.ProviderMetadata{
			ShasumsName: badStem + "SHA256SUMS", ShasumsBytes: s.text, SignatureBytes: s.signature, Keys: []artifact.SigningKey{key.served},
		})
		if err != nil {
			t.Fatal(err)
		}
		root, err := artifact.NewProviderIndex(addr.KindMirror, p, artifact.ProviderIndex{
			Version: v, Protocols: []string{"5.0"}, Platforms: []artifact.ProviderPlatform{{
				Platform: addr.Platform{OS: "linux", Arch: "amd64"}, Filename: badZip, Zh: sha256Of(zip), Size: int64(len(zip)), Manifest: target.Descriptor,
			}},
		}, md)
		if err != nil {
			t.Fatal(err)
		}
		mustPushTag(t, r, oci.Artifact{Blobs: append(blobs, blob), Children: []oci.Manifest{target, md}, Root: root})
		return []string{"mirror", badOrigin, "--from", "oci://" + r.Host()}
	}
}

// largeIndex mirrors from a registry that has no limits.
func largeIndex(t *testing.T) []string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/tags/list"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"name":"x","tags":["1.0.0"]}`) // a truncated answer fails the test
		case strings.HasSuffix(r.URL.Path, "/manifests/1.0.0"):
			w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
			_, _ = io.WriteString(w, `{"schemaVersion":2,"manifests":[]`+strings.Repeat(" ", oci.MaxManifest)+`}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	return []string{"mirror", badOrigin, "--from", "oci://" + strings.TrimPrefix(server.URL, "http://")}
}

// tarFile is one entry of a bundle.
type tarFile struct{ name, text, link string }

// badBundle loads a bundle with one version, whose manifest needs a blob.
func badBundle(files ...tarFile) makeArgs { return badBundleOf("modules/net/vpc/aws:1.0.0", files...) }

func badBundleOf(reference string, files ...tarFile) makeArgs {
	return func(t *testing.T) []string {
		blob := oci.Descriptor{MediaType: artifact.MediaZip, Digest: digest.NewDigestFromEncoded(digest.SHA256, strings.Repeat("0", 64)), Size: 1}
		m, err := oci.NewManifest(ocispec.Manifest{ArtifactType: artifact.ArtifactModule, Config: blob, Layers: []oci.Descriptor{blob}})
		if err != nil {
			t.Fatal(err)
		}
		root := m.Descriptor
		root.Annotations = map[string]string{ocispec.AnnotationRefName: reference}
		index, err := json.Marshal(ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []oci.Descriptor{root}})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, f := range append([]tarFile{
			{name: "oci-layout", text: `{"imageLayoutVersion":"1.0.0"}`}, {name: "index.json", text: string(index)},
			{name: "blobs/sha256/" + m.Digest.Encoded(), text: string(m.Bytes)},
		}, files...) {
			h := &tar.Header{Name: f.name, Size: int64(len(f.text)), Mode: 0o644, Linkname: f.link, Typeflag: tar.TypeReg}
			if f.link != "" {
				h.Typeflag = tar.TypeSymlink
			}
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(f.text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "b.tar")
		mustWrite(t, file, b.Bytes())
		return []string{"bundle", "load", file}
	}
}

func newBadRepo(t *testing.T, name string) *oci.Repo {
	t.Helper()
	r, err := oci.OpenRepo(ocitest.New(t, ocitest.Quirks{})+"/"+name, oci.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustPushTag(t *testing.T, r *oci.Repo, a oci.Artifact) {
	t.Helper()
	if _, err := r.Push(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := r.PutTag(t.Context(), "1.0.0", a.Root); err != nil {
		t.Fatal(err)
	}
}
