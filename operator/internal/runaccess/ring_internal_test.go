// SPDX-License-Identifier: Apache-2.0

package runaccess

import (
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
)

func testTime() time.Time { return time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC) }

func FuzzRing(f *testing.F) {
	r := must.Get(ring(nil).rotate(testTime()))(f)
	b := must.Get(r.withPublished(testTime()).encodeRing())(f)
	f.Add(b)
	f.Add([]byte(`[{"jwk":{"kty":"EC","crv":"P-256","x":"","y":"","d":""}}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRing(b)
		if err != nil {
			return
		}
		if next, err := r.rotate(testTime()); err != nil || len(next.publicKeys().Keys) != len(next) {
			t.Errorf("%d keys: %v", len(next), err)
		}
	})
}
