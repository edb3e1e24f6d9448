// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestNewestSignatures has more bundles than are read, and lists the oldest first.
func TestNewestSignatures(t *testing.T) {
	referrers := []oci.Descriptor{{ArtifactType: artifactBundle, Digest: "sha256:undated"}}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 2 * maxCosignReferrers {
		referrers = append(referrers, oci.Descriptor{ArtifactType: artifactBundle, Digest: digest.Digest(fmt.Sprint(i)),
			Annotations: map[string]string{artifact.AnnCreated: start.Add(time.Duration(i/2) * time.Hour).Format(time.RFC3339)}})
	}
	got := likelySignatures(referrers, []string{artifactBundle})
	if len(got) != maxCosignReferrers || got[0].Digest != "38" || got[1].Digest != "39" || got[2].Digest != "36" {
		t.Errorf("got %v", got)
	}
	if got := likelySignatures(referrers[:3], []string{artifactBundle}); got[2].Digest != "sha256:undated" {
		t.Errorf("got %v, want the one without a time last", got)
	}
}

// TestSubjectsAreClipped checks the bounds: the signer controls the number and length of subjects.
func TestSubjectsAreClipped(t *testing.T) {
	subject := `{"digest":{"sha256":"` + strings.Repeat("a", 1000) + `"}}`
	payload := `{"_type":"https://in-toto.io/Statement/v1","predicateType":"` + predicateSign + `","subject":[` + subject + strings.Repeat(","+subject, 50) + `]}`
	if err := statementNames([]byte(payload), digest.FromString("x")); err == nil || len(err.Error()) > 1000 {
		t.Errorf("got %d bytes: %v", len(err.Error()), err)
	}
}

// FuzzBundle checks that a parsed bundle contains the payload that its signature covers.
func FuzzBundle(f *testing.F) {
	const statement = `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"00"}}],"predicateType":"https://sigstore.dev/cosign/sign/v1"}`
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{}},"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"AA=="}]}}`))
	f.Add([]byte(statement))
	f.Add([]byte(`{"dsseEnvelope":` + strings.Repeat("[", 20_000)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseBundle(b)
		if err == nil && !strings.HasSuffix(string(s.Signed()), string(s.Payload)) {
			t.Errorf("%q is not signed: %q", s.Payload, s.Signed())
		}
		_, _ = parseStatement(b)
	})
}
