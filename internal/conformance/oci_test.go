// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// TestArtifact pushes an artifact by digest, tags it, reads it back, lists all
// tags over several pages and finds a referrer.
//
// Shows: opendepot 15 | storage on S3, Azure, GCS or a volume | any OCI registry, or the built-in
// one on a directory
func TestArtifact(t *testing.T) {
	each(t, func(t *testing.T, c *oci.Client) {
		ctx := t.Context()
		r := mustRepo(t, c, "conformance/artifact")
		if _, err := r.Resolve(ctx, "1.0.0"); !errors.Is(err, oci.ErrNotFound) {
			t.Fatalf("an unknown repository: %v, want ErrNotFound", err)
		}
		blob := oci.BytesBlob("application/octet-stream", []byte("some bytes"))
		m := mustManifest(t, blob.Descriptor, nil)
		root := must.Get(r.Push(ctx, oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob(), blob}, Root: m}))(t)
		var want []string
		for i := range 25 {
			tag := fmt.Sprintf("1.0.%d", i)
			must.Succeed(t, r.PutTag(ctx, tag, m))
			want = append(want, tag)
		}
		got, err := r.Resolve(ctx, "1.0.7")
		if err != nil || got.Digest != root.Digest {
			t.Errorf("Resolve: %v, %v, want %s", got.Digest, err, root.Digest)
		}
		bytes, err := r.ReadBlob(ctx, blob.Descriptor, 100)
		if err != nil || string(bytes) != "some bytes" {
			t.Errorf("ReadBlob: %q, %v", bytes, err)
		}
		var tags []string
		for tag, err := range r.Tags(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			tags = append(tags, tag)
		}
		slices.Sort(tags)
		slices.Sort(want)
		must.Match(t, "tags", tags, want)
		referrer(t, r, root)
	})
}

func referrer(t *testing.T, r *oci.Repo, subject oci.Descriptor) {
	t.Helper()
	note := oci.BytesBlob("text/plain", []byte("about it"))
	m := mustManifest(t, note.Descriptor, &subject)
	must.Succeed(t, r.PushBlob(t.Context(), note))
	must.Succeed(t, r.PutReferrer(t.Context(), m, subject))
	// No type filter: ggcr returns the media type of the config as the artifact type.
	list := must.Get(r.Referrers(t.Context(), subject, ""))(t)
	if len(list) != 1 || list[0].Digest != m.Digest {
		t.Errorf("Referrers: %v, want only %s", list, m.Digest)
	}
}

func mustRepo(t *testing.T, c *oci.Client, name string) *oci.Repo {
	t.Helper()
	return must.Get(c.Repo(name))(t)
}

func mustManifest(t *testing.T, layer oci.Descriptor, subject *oci.Descriptor) oci.Manifest {
	t.Helper()
	return must.Get(oci.NewManifest(ocispec.Manifest{
		ArtifactType: "application/vnd.example.note",
		Config:       oci.EmptyBlob().Descriptor,
		Layers:       []oci.Descriptor{layer},
		Subject:      subject,
	}))(t)
}
