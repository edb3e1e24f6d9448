// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"crypto"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestWeakSignature: one of today by SHA-1 is told, and not enough where required (RFC 9580, 9.5).
func TestWeakSignature(t *testing.T) {
	entity := must.Get(openpgp.NewEntity("Test", "", "", &packet.Config{Time: func() time.Time { return time.Unix(1e9, 0) }}))(t)
	var public bytes.Buffer
	w := must.Get(armor.Encode(&public, openpgp.PublicKeyType, nil))(t)
	must.Succeed(t, entity.Serialize(w))
	must.Succeed(t, w.Close())
	keys := must.Get(signing.ParsePublicKeys(public.Bytes()))(t)
	for _, tt := range []struct {
		name     string
		hash     crypto.Hash
		made     time.Time
		required bool
		result   string
		warns    bool
	}{
		{"today", crypto.SHA1, time.Now(), false, "trusted", true},
		{"today, required", crypto.SHA1, time.Now(), true, "failed", true},
		{"of 2018, required", crypto.SHA1, time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC), true, "trusted", false},
		{"SHA-256, required", crypto.SHA256, time.Now(), true, "trusted", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sig := &packet.Signature{
				Version: 4, SigType: packet.SigTypeBinary, PubKeyAlgo: entity.PrimaryKey.PubKeyAlgo, Hash: tt.hash, CreationTime: tt.made, IssuerKeyId: &entity.PrimaryKey.KeyId,
			}
			h := tt.hash.New()
			_, _ = io.WriteString(h, "sums")
			must.Succeed(t, sig.Sign(h, entity.PrivateKey, &packet.Config{NonDeterministicSignaturesViaNotation: new(false)}))
			var signature bytes.Buffer
			must.Succeed(t, sig.Serialize(&signature))
			x := &verifier{o: Policy{OpenPGP: keys}}
			if tt.required {
				x.o.Require = []string{RequireOpenPGP}
			}
			err := x.checkOpenPGP(artifact.ProviderMetadata{ShasumsBytes: []byte("sums"), SignatureBytes: signature.Bytes()})
			got := x.checks[0]
			if failed := err != nil; got.Result != tt.result || failed != (tt.result == "failed") || strings.Contains(got.Detail, "uses SHA-1") != tt.warns {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
