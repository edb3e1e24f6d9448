// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/statebackend"
)

// The address of a leader is in its claim, in the field Path of the lock's information,
// as "ADDRESS MAC [MAC…]". Any writer to the registry can write a claim: a MAC proves
// that a replica wrote this one, under this tag. There is one MAC for each key of the
// readers, and a reader trusts only those of its keys.

// maxCodes bounds how many MACs of a claim are checked.
const maxCodes = 64

// sign returns the signed address for the claim under a tag; "" if the replica has no
// address or no key.
func (o *Options) sign(repository, tag string) string {
	keys := slices.Concat(o.AddressKeys, o.PortalKeys)
	if o.Address == "" || len(keys) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString(o.Address)
	for _, key := range keys[:min(len(keys), maxCodes)] {
		text.WriteString(" " + base64.RawURLEncoding.EncodeToString(code(key, repository, tag, o.Address)))
	}
	return text.String()
}

// verify returns the address in the claim under a tag; "" if none of the reader's keys
// verifies it.
func (o *Options) verify(repository, tag string, held statebackend.LockInfo) string {
	address, codes, ok := strings.Cut(held.Path, " ")
	if !ok || tag == "" {
		return ""
	}
	all := strings.SplitN(codes, " ", maxCodes+1)
	for _, text := range all[:min(len(all), maxCodes)] {
		got, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			continue
		}
		for _, key := range o.AddressKeys {
			if hmac.Equal(got, code(key, repository, tag, address)) {
				return address
			}
		}
	}
	return ""
}

// code returns the MAC of an address for one claim. No part contains the separator.
func code(key []byte, repository, tag, address string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(strings.Join([]string{"okara ledger address v1", repository, tag, address}, "\x00"))) // never fails
	return h.Sum(nil)
}
