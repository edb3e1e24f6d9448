// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"encoding/base64"
	"strconv"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestSignatureAmongStrangers has a signature without its tag among many
// unrelated referrers: it is found with few requests.
func TestSignatureAmongStrangers(t *testing.T) {
	count := &ocitest.Count{}
	client := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{PlainHTTP: true, Transport: count}))(t)
	r := must.Get(client.Repo("modules/net/vpc/aws"))(t)
	empty := oci.EmptyBlob()
	must.Succeed(t, r.PushBlob(t.Context(), empty))
	push := func(annotation string, subject *oci.Descriptor) oci.Descriptor {
		t.Helper()
		config := empty.Descriptor
		m := mustManifest(t, ocispec.Manifest{Config: config, Layers: []oci.Descriptor{config}, Subject: subject, Annotations: map[string]string{"n": annotation}})
		if subject == nil {
			must.Succeed(t, r.PutManifest(t.Context(), m))
		} else {
			must.Succeed(t, r.PutReferrer(t.Context(), m, *subject))
		}
		return m.Descriptor
	}
	subject := push("subject", nil)
	for i := range 60 {
		push(strconv.Itoa(i), &subject)
	}
	payload := must.Get(evidence.CosignPayload(r.String(), subject.Digest))(t)
	blob := oci.BytesBlob("application/vnd.dev.cosign.simplesigning.v1+json", payload)
	must.Succeed(t, r.PushBlob(t.Context(), blob))
	signed := blob.Descriptor
	signed.Annotations = map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString([]byte("signature"))}
	m := mustManifest(t, ocispec.Manifest{ArtifactType: "application/vnd.dev.cosign.artifact.sig.v1+json", Config: empty.Descriptor, Layers: []oci.Descriptor{signed}, Subject: &subject})
	must.Succeed(t, r.PutReferrer(t.Context(), m, subject))
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
	return must.Get(oci.NewManifest(m))(t)
}
