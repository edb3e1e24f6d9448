// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Annotations that Seal returns and Open reads.
const (
	AnnotationFormat = "vnd.okara.state.envelope"
	AnnotationWraps  = "vnd.okara.state.envelope.wraps"
)

// ErrKey means that none of the configured keys opens a sealed text.
var ErrKey = errors.New("no configured key can decrypt it")

// ErrSealed means a sealed text that is truncated, modified, or from a different place.
var ErrSealed = errors.New("encrypted data is damaged")

const (
	format      = "1"
	magic       = "okara-e1"
	prefixSize  = len(magic) + 8 // the part of the header that is associated data
	nonceSize   = 12
	tagSize     = 16
	overhead    = prefixSize + nonceSize + tagSize
	dataKeySize = 32
	maxWraps    = 64 << 10 // bytes of the annotation; only a faulty manifest exceeds them
)

// Options configures the keys of an Envelope.
type Options struct {
	// Keys, in the forms of the package comment, all wrap each data key; those that can also open it.
	Keys []string
	// Identities are paths of age identity files that are only used to open.
	Identities []string
}

// Envelope seals and opens with one set of keys. It is stateless, and safe for concurrent use.
type Envelope struct {
	seal []key
	open []key
}

// New parses references and reads key files; it contacts no service.
func New(o Options) (*Envelope, error) {
	e := &Envelope{}
	for _, reference := range o.Keys {
		keys, err := parseKey(reference)
		if err != nil {
			return nil, err
		}
		e.seal = append(e.seal, keys...)
	}
	e.open = append(e.open, e.seal...)
	for _, path := range o.Identities {
		keys, err := readKeyFile(path)
		if err != nil {
			return nil, err
		}
		e.open = append(e.open, keys...)
	}
	return e, nil
}

// wrap is one entry of AnnotationWraps.
type wrap struct {
	Key     string `json:"key"`
	Wrapped []byte `json:"wrapped"`
}

// Seal encrypts plain, bound to aad, and returns annotations for Open. All keys must wrap.
func (e *Envelope) Seal(ctx context.Context, plain, aad []byte) ([]byte, map[string]string, error) {
	if len(e.seal) == 0 {
		return nil, nil, errors.New("encrypt: no key is configured")
	}
	dataKey := make([]byte, dataKeySize)
	rand.Read(dataKey) // never fails, see crypto/rand
	wraps := make([]wrap, 0, len(e.seal))
	for _, k := range e.seal {
		wrapped, err := k.wrap(ctx, dataKey)
		if err != nil {
			return nil, nil, fmt.Errorf("encrypt: wrap the data key with %s: %w", k.id, err)
		}
		wraps = append(wraps, wrap{Key: k.id, Wrapped: wrapped})
	}
	list, err := json.Marshal(wraps)
	if err != nil {
		return nil, nil, fmt.Errorf("encrypt: %w", err)
	}
	aead, err := newGCM(dataKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encrypt: %w", err)
	}
	sealed := make([]byte, prefixSize+nonceSize, len(plain)+overhead)
	copy(sealed, magic)
	binary.BigEndian.PutUint64(sealed[len(magic):], uint64(len(plain)))
	rand.Read(sealed[prefixSize:])
	sealed = aead.Seal(sealed, sealed[prefixSize:], plain, boundData(sealed, aad))
	return sealed, map[string]string{AnnotationFormat: format, AnnotationWraps: string(list)}, nil
}

// Open decrypts what Seal made. The error is ErrKey, ErrSealed, or a key service's.
func (e *Envelope) Open(ctx context.Context, sealed []byte, annotations map[string]string, aad []byte) ([]byte, error) {
	if f := annotations[AnnotationFormat]; f != format {
		return nil, fmt.Errorf("decrypt: unknown envelope format %q: %w", f, ErrSealed)
	}
	if err := checkLength(sealed); err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	dataKey, err := e.unwrap(ctx, annotations[AnnotationWraps])
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	aead, err := newGCM(dataKey)
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w: %w", err, ErrSealed)
	}
	nonce := sealed[prefixSize : prefixSize+nonceSize]
	text := sealed[prefixSize+nonceSize:]
	plain, err := aead.Open(nil, nonce, text, boundData(sealed, aad))
	if err != nil {
		return nil, fmt.Errorf("decrypt: the data was modified, or belongs to another repository, workspace or version: %w", ErrSealed)
	}
	return plain, nil
}

func checkLength(sealed []byte) error {
	if len(sealed) < overhead || !bytes.HasPrefix(sealed, []byte(magic)) {
		return fmt.Errorf("%d bytes without the header of an encrypted text: %w", len(sealed), ErrSealed)
	}
	want := binary.BigEndian.Uint64(sealed[len(magic):])
	if have := uint64(len(sealed) - overhead); have != want {
		return fmt.Errorf("%d bytes, the header announces %d: truncated or extended: %w", have, want, ErrSealed)
	}
	return nil
}

// boundData returns the associated data: the fixed part of the header, then aad.
func boundData(sealed, aad []byte) []byte {
	b := make([]byte, 0, prefixSize+len(aad))
	return append(append(b, sealed[:prefixSize]...), aad...)
}

// unwrap returns the data key of the first wrap that a key opens.
func (e *Envelope) unwrap(ctx context.Context, list string) ([]byte, error) {
	if len(list) > maxWraps {
		return nil, fmt.Errorf("list of wrapped keys has %d bytes: %w", len(list), ErrSealed)
	}
	var wraps []wrap
	if err := json.Unmarshal([]byte(list), &wraps); err != nil {
		return nil, fmt.Errorf("list of wrapped keys: %w: %w", err, ErrSealed)
	}
	var tried []error
	for _, k := range e.open {
		for _, w := range wraps {
			if !k.mayOpen(w.Key) {
				continue
			}
			dataKey, err := k.unwrap(ctx, w.Wrapped)
			if err == nil {
				return dataKey, nil
			}
			tried = append(tried, fmt.Errorf("%s: %w", k.id, err))
		}
	}
	return nil, fmt.Errorf("%w: %w", e.mismatchError(wraps), errors.Join(append(tried, ErrKey)...))
}

// SealsFor returns the ids of the keys that open what Seal returns.
func (e *Envelope) SealsFor() []string {
	var ids []string
	for _, k := range e.seal {
		ids = append(ids, k.id)
	}
	return ids
}

// KeyIDs returns the ids in an envelope's annotations, or nil.
func KeyIDs(annotations map[string]string) []string {
	list := annotations[AnnotationWraps]
	var wraps []wrap
	if len(list) > maxWraps || json.Unmarshal([]byte(list), &wraps) != nil {
		return nil
	}
	var ids []string
	for _, w := range wraps {
		ids = append(ids, w.Key)
	}
	return ids
}

// mismatchError names the keys of both sides, to help the user find the right one.
func (e *Envelope) mismatchError(wraps []wrap) error {
	var sealed, ours []string
	for _, w := range wraps {
		sealed = append(sealed, w.Key)
	}
	for _, k := range e.open {
		ours = append(ours, k.id)
	}
	if len(ours) == 0 {
		return fmt.Errorf("encrypted with %s, and no key is configured", strings.Join(sealed, ", "))
	}
	return fmt.Errorf("encrypted with %s; configured keys: %s", strings.Join(sealed, ", "), strings.Join(ours, ", "))
}

func newGCM(key []byte) (cipher.AEAD, error) {
	if len(key) != dataKeySize {
		return nil, fmt.Errorf("key has %d bytes, expected %d", len(key), dataKeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
