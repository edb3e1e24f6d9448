// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/seed-141914ff/okara/statebackend"
)

// The address of a leader is in its claim, in the field Path of the lock's
// information, as "ADDRESS MAC". Whoever may write to the registry can write a
// claim: the code proves that a replica wrote this one, under this tag.

// sign returns what the claim under a tag says of its owner's address; "" where
// the owner has none, or no key.
func (o *Options) sign(repository, tag string) string {
	if o.Address == "" || len(o.AddressKeys) == 0 {
		return ""
	}
	return o.Address + " " + base64.RawURLEncoding.EncodeToString(code(o.AddressKeys[0], repository, tag, o.Address))
}

// verify returns the address that the claim under a tag names; "" if none of the
// keys made it.
func (o *Options) verify(repository, tag string, held statebackend.LockInfo) string {
	address, mac, ok := strings.Cut(held.Path, " ")
	if !ok || tag == "" {
		return ""
	}
	got, err := base64.RawURLEncoding.DecodeString(mac)
	if err != nil {
		return ""
	}
	for _, key := range o.AddressKeys {
		if hmac.Equal(got, code(key, repository, tag, address)) {
			return address
		}
	}
	return ""
}

// code authenticates an address for one claim. No part contains the separator.
func code(key []byte, repository, tag, address string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(strings.Join([]string{"okara ledger address v1", repository, tag, address}, "\x00"))) // never fails
	return h.Sum(nil)
}
