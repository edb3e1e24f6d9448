// SPDX-License-Identifier: Apache-2.0

package signing_test

import (
	"maps"
	"testing"

	"github.com/seed-141914ff/okara/internal/signing"
)

// FuzzSums: accepted SHA256SUMS are stable.
func FuzzSums(f *testing.F) {
	f.Add([]byte("0000000000000000000000000000000000000000000000000000000000000000  terraform-provider-dns_1.0.0_linux_amd64.zip\n"))
	f.Add([]byte("0000000000000000000000000000000000000000000000000000000000000000 *x\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		sums, err := signing.ParseSums(text)
		if err != nil {
			return
		}
		if again, err := signing.ParseSums(sums.Bytes()); err != nil || !maps.Equal(sums, again) {
			t.Errorf("%q is read as %v and then as %v, %v", text, sums, again, err)
		}
	})
}

// FuzzSignature: nothing makes an unsigned message valid.
func FuzzSignature(f *testing.F) {
	key, public := newKey(f, signing.KeyOptions{Name: "fuzz", ECC: true, Now: nil})
	_, foreign := newKey(f, signing.KeyOptions{Name: "foreign", ECC: true})
	f.Add([]byte(public.Armor), mustSign(f, key, "another message", public.Created))
	f.Add([]byte(foreign.Armor), []byte("x"))
	f.Fuzz(func(t *testing.T, armor, signature []byte) {
		keys, err := signing.ParsePublicKeys(armor)
		if err == nil && len(keys) == 0 {
			t.Error("no keys and no error")
		}
		if used, err := signing.Verify([]byte("the message"), signature, []signing.PublicKey{public}, signing.VerifyOptions{AllowExpired: true}); err == nil {
			t.Errorf("the message is said to be signed by %s", used.ID)
		}
		_, _ = signing.Verify([]byte("the message"), signature, keys, signing.VerifyOptions{})
	})
}

// FuzzKeys parses arbitrary text as keys.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ==\n-----END PGP PUBLIC KEY BLOCK-----\n"))
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = signing.ParsePublicKeys(b)
		_, _ = signing.ParseCosignPublicKey(b)
	})
}
