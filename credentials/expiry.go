// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/oci"
)

// readExpiry reads the expiry time in a secret, a JWT (ACR, GitLab) or ECR's password, base64 of
// JSON; zero if there is none. It only decides when to ask again, so nothing is verified.
func readExpiry(c oci.Credential) time.Time {
	for _, secret := range []string{c.RegistryToken, c.IdentityToken, c.Password} {
		if t := secretExpiry(secret); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

func secretExpiry(secret string) time.Time {
	var doc struct {
		Exp        int64 `json:"exp"`        // JWT
		Expiration int64 `json:"expiration"` // ECR
	}
	var b []byte
	var err error
	if parts := strings.Split(secret, "."); len(parts) == 3 {
		b, err = decodeBase64URL(parts[1])
	} else {
		b, err = base64.StdEncoding.DecodeString(secret)
	}
	if err != nil || json.Unmarshal(b, &doc) != nil {
		return time.Time{}
	}
	switch {
	case doc.Exp > 0:
		return time.Unix(doc.Exp, 0)
	case doc.Expiration > 0:
		return time.Unix(doc.Expiration, 0)
	}
	return time.Time{}
}
