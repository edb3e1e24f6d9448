// SPDX-License-Identifier: Apache-2.0

package signing_test

import (
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"testing"

	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/signing"
)

// sealCosign encrypts a key as cosign does (securesystemslib encrypted).
func sealCosign(t *testing.T, private []byte, passphrase string) []byte {
	t.Helper()
	block, _ := pem.Decode(private)
	salt, nonce := make([]byte, 32), [24]byte{}
	rand.Read(salt)
	rand.Read(nonce[:])
	key := must.Get(scrypt.Key([]byte(passphrase), salt, 1<<12, 8, 1, 32))(t)
	doc := must.Get(json.Marshal(map[string]any{
		"kdf":        map[string]any{"name": "scrypt", "params": map[string]int{"N": 1 << 12, "r": 8, "p": 1}, "salt": salt},
		"cipher":     map[string]any{"name": "nacl/secretbox", "nonce": nonce[:]},
		"ciphertext": secretbox.Seal(nil, block.Bytes, &nonce, (*[32]byte)(key)),
	}))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: doc})
}

func TestCosignKeys(t *testing.T) {
	private, public := must.GetBoth(signing.NewCosignKey())(t)
	pub := must.Get(signing.ParseCosignPublicKey(public))(t)
	sealed := sealCosign(t, private, "secret")
	for name, file := range map[string][]byte{"plain": private, "sealed": sealed} {
		key, err := signing.ParseCosignKey(file, []byte("secret"))
		if err != nil {
			t.Fatal(name, err)
		}
		sig := must.Get(signing.SignECDSA(key, []byte("payload")))(t)
		if err := signing.VerifyECDSA(pub, []byte("payload"), sig); err != nil {
			t.Error(name, err)
		}
		if err := signing.VerifyECDSA(pub, []byte("other"), sig); !errors.Is(err, signing.ErrBadSignature) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, file := range map[string][]byte{
		"text": []byte("hello"), "public": public, "wrong passphrase": sealCosign(t, private, "other"),
		"greedy": pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED COSIGN PRIVATE KEY",
			Bytes: []byte(`{"kdf":{"name":"scrypt","params":{"N":1073741824,"r":8,"p":1},"salt":"AA=="},"cipher":{"name":"nacl/secretbox","nonce":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}`)}),
	} {
		if _, err := signing.ParseCosignKey(file, []byte("secret")); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if _, err := signing.ParseCosignPublicKey(private); err == nil {
		t.Error("a private key was taken for a public one")
	}
}
