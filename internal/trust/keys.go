// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// ErrUnsigned means that SHA256SUMS has no signature.
var ErrUnsigned = errors.New("SHA256SUMS is not signed")

// PublicKeys parses keys as the provider protocol serves them.
func PublicKeys(keys []artifact.SigningKey) ([]signing.PublicKey, error) {
	var out []signing.PublicKey
	for _, k := range keys {
		parsed, err := signing.ParsePublicKeys([]byte(k.ASCIIArmor))
		if err != nil {
			return nil, fmt.Errorf("signing key %s: %w: %w", k.KeyID, oci.ErrCorrupt, err)
		}
		out = append(out, parsed...)
	}
	return out, nil
}

// warnBefore is how long before its expiry a key causes a warning.
const warnBefore = 60 * 24 * time.Hour

func ExpiryWarning(k signing.PublicKey, now time.Time) []string {
	if k.Expires.IsZero() || k.Expires.Sub(now) > warnBefore {
		return nil
	}
	return []string{fmt.Sprintf("signing key %s expires on %s", k.ID, k.Expires.Format(time.DateOnly))}
}

// ServedKeys returns the keys in the form of the provider protocol, without duplicates.
func ServedKeys(keys []signing.PublicKey, now time.Time) []artifact.SigningKey {
	signing.SortKeys(keys, now)
	seen := map[string]bool{}
	var out []artifact.SigningKey
	for _, k := range keys {
		if seen[k.Fingerprint] {
			continue
		}
		seen[k.Fingerprint] = true
		served := artifact.SigningKey{KeyID: k.ID, ASCIIArmor: k.Armor, Source: k.UserID}
		if !k.Expires.IsZero() {
			served.Expires = k.Expires.Format(time.RFC3339)
		}
		out = append(out, served)
	}
	return out
}
