// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"strings"
	"testing"
)

// FuzzBundle wants a bundle that is read to hold what its signature is over.
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
