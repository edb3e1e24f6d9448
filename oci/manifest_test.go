// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/format"
)

func manifestOf(mediaType, body string) oci.Manifest {
	return oci.Manifest{
		Descriptor: oci.Descriptor{MediaType: mediaType, Digest: digest.FromString(body), Size: int64(len(body))},
		Bytes:      []byte(body),
	}
}

func TestManifestKinds(t *testing.T) {
	const image, index = ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex
	const empty = `{"mediaType":"application/vnd.oci.empty.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2}`
	for _, test := range []struct {
		name, mediaType, body string
		image, index          bool
	}{
		{"image", image, `{"schemaVersion":2,"mediaType":"` + image + `","config":` + empty + `,"layers":[` + empty + `]}`, true, false},
		{"image without media type", image, `{"schemaVersion":2,"config":` + empty + `,"layers":[]}`, true, false},
		{"docker image", "application/vnd.docker.distribution.manifest.v2+json", `{"schemaVersion":2,"config":` + empty + `,"layers":[]}`, true, false},
		{"index", index, `{"schemaVersion":2,"mediaType":"` + index + `","manifests":[` + empty + `]}`, false, true},
		{"served as another kind", image, `{"schemaVersion":2,"mediaType":"` + index + `","manifests":[]}`, false, false},
		{"both kinds, image", image, `{"schemaVersion":2,"config":` + empty + `,"layers":[],"manifests":[]}`, false, false},
		{"both kinds, index", index, `{"schemaVersion":2,"layers":[],"manifests":[]}`, false, false},
		{"schema 1", image, `{"schemaVersion":1,"config":` + empty + `}`, false, false},
		{"bad digest", image, `{"schemaVersion":2,"config":{"digest":"sha256:zz","size":2},"layers":[]}`, false, false},
		{"negative size", index, `{"schemaVersion":2,"manifests":[{"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":-1}]}`, false, false},
		{"no JSON", image, `hello`, false, false},
		{"other type", "text/html", `{"schemaVersion":2}`, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := manifestOf(test.mediaType, test.body)
			if _, err := m.Image(); (err == nil) != test.image || err != nil && !errors.Is(err, oci.ErrCorrupt) {
				t.Errorf("image: %v, want ok %v", err, test.image)
			}
			if _, err := m.Index(); (err == nil) != test.index || err != nil && !errors.Is(err, oci.ErrCorrupt) {
				t.Errorf("index: %v, want ok %v", err, test.index)
			}
		})
	}
}

// FuzzManifest checks that parsing never panics, and that a parsed manifest can
// be encoded and parsed again with the same result.
func FuzzManifest(f *testing.F) {
	m := must.Get(oci.NewManifest(ocispec.Manifest{ArtifactType: "a/b", Config: oci.EmptyBlob().Descriptor, Layers: []oci.Descriptor{oci.EmptyBlob().Descriptor}}))(f)
	i := must.Get(oci.NewIndex(ocispec.Index{ArtifactType: "a/b", Manifests: []oci.Descriptor{m.Descriptor}}))(f)
	f.Add(m.Bytes)
	f.Add(i.Bytes)
	f.Add([]byte(`{"schemaVersion":2,"config":null,"layers":[null]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if image, err := manifestOf(ocispec.MediaTypeImageManifest, string(body)).Image(); err == nil {
			again, err := oci.NewManifest(image)
			if errors.Is(err, oci.ErrTooLarge) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := must.Get(again.Image())(t)
			image.MediaType = ocispec.MediaTypeImageManifest
			if image.Layers == nil {
				image.Layers = []oci.Descriptor{}
			}
			must.Match(t, "image changed", got, image, cmpEmpty)
		}
		_, _ = manifestOf(ocispec.MediaTypeImageIndex, string(body)).Index()
		_, _ = artifact.ParseModule(manifestOf(ocispec.MediaTypeImageManifest, string(body)))
		_, _ = artifact.ParseProviderIndex(manifestOf(ocispec.MediaTypeImageIndex, string(body)))
		_, _ = format.ParseLock(manifestOf(ocispec.MediaTypeImageManifest, string(body)))
	})
}

// cmpEmpty ignores the difference between an absent and an empty list, which
// JSON does not preserve.
var cmpEmpty = cmp.FilterValues(func(a, b any) bool { return isEmpty(a) && isEmpty(b) }, cmp.Ignore())

func isEmpty(v any) bool {
	switch v := v.(type) {
	case []byte:
		return len(v) == 0
	case []string:
		return len(v) == 0
	case []oci.Descriptor:
		return len(v) == 0
	case map[string]string:
		return len(v) == 0
	}
	return false
}
