// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"errors"
	"testing"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/template"
)

// FuzzDecode reads bodies: every refusal is ErrInvalid, and nothing panics.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"template":"a/b","parameters":{"x":[1]},"ttl":"1h"}`, `{"ttl":-1}`, `{"x":1}`, `[]`, `{} {}`, `{"parameters":{"a":` + "\xff" + `}}`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var body api.Create
		if err := decode(b, &body); err != nil && !errors.Is(err, template.ErrInvalid) {
			t.Errorf("%q: %v", b, err)
		}
		if _, err := parseCursor(string(b)); err != nil && !errors.Is(err, template.ErrInvalid) {
			t.Errorf("%q: %v", b, err)
		}
	})
}
