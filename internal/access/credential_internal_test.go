// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	"github.com/seed-141914ff/okara/oci"
)

// FuzzCredential reads pass-through tokens: each is refused, or one kind of credential.
func FuzzCredential(f *testing.F) {
	for _, token := range []string{"basic.YTpi", "basic.YQ", "identity.YQ==", "identity.", "raw", "basic."} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		c, err := parseCredential(token)
		if err != nil {
			if c != (oci.Credential{}) {
				t.Errorf("%q: an error and %+v", token, c)
			}
			return
		}
		kinds := 0
		for _, set := range []bool{c.Username != "" || c.Password != "", c.IdentityToken != "", c.RegistryToken != ""} {
			if set {
				kinds++
			}
		}
		if kinds > 1 {
			t.Errorf("%q is %+v", token, c)
		}
	})
}
