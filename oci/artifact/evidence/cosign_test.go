// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"encoding/base64"
	"strconv"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestSignatureAmongStrangers has a signature without its tag among many
// unrelated referrers: it is found with few requests.
func TestSignatureAmongStrangers(t *testing.T) {
	count := &ocitest.Count{}
	client, err := oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{PlainHTTP: true, Transport: count})
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.Repo("modules/net/vpc/aws")
	if err != nil {
		t.Fatal(err)
	}
	empty := oci.EmptyBlob()
	if err := r.PushBlob(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	push := func(annotation string, subject *oci.Descriptor) oci.Descriptor {
		t.Helper()
		config := empty.Descriptor
		m := mustManifest(t, ocispec.Manifest{Config: config, Layers: []oci.Descriptor{config}, Subject: subject, Annotations: map[string]string{"n": annotation}})
		if subject == nil {
			err = r.PutManifest(t.Context(), m)
		} else {
			err = r.PutReferrer(t.Context(), m, *subject)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m.Descriptor
	}
	subject := push("subject", nil)
	for i := range 60 {
		push(strconv.Itoa(i), &subject)
	}
	payload, err := evidence.CosignPayload(r.String(), subject.Digest)
	if err != nil {
		t.Fatal(err)
	}
	blob := oci.BytesBlob("application/vnd.dev.cosign.simplesigning.v1+json", payload)
	if err := r.PushBlob(t.Context(), blob); err != nil {
		t.Fatal(err)
	}
	signed := blob.Descriptor
	signed.Annotations = map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString([]byte("signature"))}
	m := mustManifest(t, ocispec.Manifest{ArtifactType: "application/vnd.dev.cosign.artifact.sig.v1+json", Config: empty.Descriptor, Layers: []oci.Descriptor{signed}, Subject: &subject})
	if err := r.PutReferrer(t.Context(), m, subject); err != nil {
		t.Fatal(err)
	}
	count.Take()
	got, err := evidence.ReadCosignSignatures(t.Context(), r, subject.Digest)
	if err != nil || len(got) != 1 || string(got[0].Signature) != "signature" {
		t.Errorf("%+v, %v", got, err)
	}
	if n := count.Total(); n > 25 {
		t.Errorf("%d requests", n)
	}
}

func mustManifest(t *testing.T, m ocispec.Manifest) oci.Manifest {
	t.Helper()
	out, err := oci.NewManifest(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
