// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"
)

// ParseCosignKey parses an ECDSA P-256 key: PKCS#8 PEM, or cosign's encrypted one.
func ParseCosignKey(text, passphrase []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("read cosign key: not PEM")
	}
	der := block.Bytes
	switch block.Type {
	case "PRIVATE KEY":
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		var err error
		if der, err = openCosign(der, passphrase); err != nil {
			return nil, fmt.Errorf("read cosign key: %w", err)
		}
	case "PUBLIC KEY":
		return nil, fmt.Errorf("read cosign key: %w", ErrPublic)
	default:
		return nil, fmt.Errorf("read cosign key: unexpected PEM type %q", block.Type)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("read cosign key: not PKCS#8")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("read cosign key: not ECDSA P-256")
	}
	return key, nil
}

// cosignBox is the document in cosign's encrypted PEM.
type cosignBox struct {
	KDF struct {
		Name   string `json:"name"`
		Params struct {
			N int `json:"N"`
			R int `json:"r"`
			P int `json:"p"`
		} `json:"params"`
		Salt []byte `json:"salt"`
	} `json:"kdf"`
	Cipher struct {
		Name  string `json:"name"`
		Nonce []byte `json:"nonce"`
	} `json:"cipher"`
	Ciphertext []byte `json:"ciphertext"`
}

// maxScrypt bounds the memory that a key file can request: 128·N·r bytes.
const maxScrypt = 256 << 20

func openCosign(b, passphrase []byte) ([]byte, error) {
	var box cosignBox
	if err := json.Unmarshal(b, &box); err != nil {
		return nil, errors.New("damaged encrypted key")
	}
	p := box.KDF.Params
	knownKind := box.KDF.Name == "scrypt" && box.Cipher.Name == "nacl/secretbox" && len(box.Cipher.Nonce) == 24
	possible := p.N >= 2 && p.R >= 1 && p.P >= 1
	affordable := possible && p.P <= 16 && p.N <= maxScrypt/128/p.R
	if !knownKind || !affordable {
		return nil, errors.New("unknown kind of encrypted key")
	}
	derived, err := scrypt.Key(passphrase, box.KDF.Salt, p.N, p.R, p.P, 32)
	if err != nil {
		return nil, errors.New("unknown kind of encrypted key")
	}
	plain, ok := secretbox.Open(nil, box.Ciphertext, (*[24]byte)(box.Cipher.Nonce), (*[32]byte)(derived))
	if !ok {
		return nil, ErrPassphrase
	}
	return plain, nil
}

// NewCosignKey makes a key pair, both halves as PEM, unencrypted.
func NewCosignKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	pub, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub}), nil
}

// ParseCosignPublicKey parses an ECDSA public key from PEM.
func ParseCosignPublicKey(text []byte) (*ecdsa.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block != nil && strings.HasSuffix(block.Type, "PRIVATE KEY") {
		return nil, fmt.Errorf("read cosign public key: %w", ErrPrivate)
	}
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, errors.New("read cosign public key: not a PEM public key")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read cosign public key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok {
		return nil, errors.New("read cosign public key: not ECDSA")
	}
	return key, nil
}

// SignECDSA signs the SHA-256 of payload, as cosign does.
func SignECDSA(key *ecdsa.PrivateKey, payload []byte) ([]byte, error) {
	sum := sha256.Sum256(payload)
	return ecdsa.SignASN1(rand.Reader, key, sum[:])
}

// VerifyECDSA verifies a signature made by SignECDSA or cosign.
func VerifyECDSA(key *ecdsa.PublicKey, payload, signature []byte) error {
	if sum := sha256.Sum256(payload); !ecdsa.VerifyASN1(key, sum[:], signature) {
		return ErrBadSignature
	}
	return nil
}
