// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// keyIDRE is an OpenPGP key ID or a version 4 fingerprint, which ends with it.
var keyIDRE = regexp.MustCompile(`^([0-9A-F]{24})?[0-9A-F]{16}$`)

// RevokedKeys are the IDs of keys that nobody may trust any more, whatever the
// keys stored beside a version say of themselves. The zero value is none.
type RevokedKeys struct{ ids []string }

// ParseRevokedKeys reads key IDs of 16 and fingerprints of 40 hexadecimal
// digits, in either case and with spaces as gpg prints them.
func ParseRevokedKeys(texts []string) (RevokedKeys, error) {
	var r RevokedKeys
	for _, text := range texts {
		id := strings.ToUpper(strings.ReplaceAll(text, " ", ""))
		if !keyIDRE.MatchString(id) {
			return RevokedKeys{}, fmt.Errorf("revoked key %q is not an ID of 16 or a fingerprint of 40 hexadecimal digits", text)
		}
		r.ids = append(r.ids, id[len(id)-16:])
	}
	return r, nil
}

// Withdraw takes the revoked keys out of md. If none of the rest made the
// signature it takes all of them out, and says so: without keys the version is
// like an unsigned one until somebody signs it again.
func (r RevokedKeys) Withdraw(md *artifact.ProviderMetadata) error {
	if !slices.ContainsFunc(md.Keys, r.has) {
		return nil
	}
	stored := md.Keys
	md.Keys = nil
	var rest []signing.PublicKey
	left := slices.DeleteFunc(slices.Clone(stored), r.has)
	for _, k := range left {
		parsed, err := signing.ParsePublicKeys([]byte(k.ASCIIArmor))
		if err != nil {
			return fmt.Errorf("key %s: %w", k.KeyID, err)
		}
		rest = append(rest, parsed...)
	}
	// The clients accept what a key signed before it expired.
	_, err := signing.Verify(md.ShasumsBytes, md.SignatureBytes, rest, signing.VerifyOptions{AllowExpired: true})
	if err != nil {
		return fmt.Errorf("this server has revoked its key: %w", err)
	}
	md.Keys = left
	return nil
}

func (r RevokedKeys) has(k artifact.SigningKey) bool {
	return slices.Contains(r.ids, strings.ToUpper(k.KeyID))
}
