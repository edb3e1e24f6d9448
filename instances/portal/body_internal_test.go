// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/service"
)

// FuzzDecode reads bodies: every refusal is ErrInvalid, and nothing panics.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"template":"a/b","parameters":{"x":[1]},"ttl":"1h"}`, `{"ttl":-1}`, `{"x":1}`, `[]`, `{} {}`, `{"parameters":{"a":` + "\xff" + `}}`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var body api.Create
		if err := decodeBody(b, &body); err != nil && !errors.Is(err, template.ErrInvalid) {
			t.Errorf("%q: %v", b, err)
		}
		if _, err := parseCursor(string(b)); err != nil && !errors.Is(err, template.ErrInvalid) {
			t.Errorf("%q: %v", b, err)
		}
	})
}

// TestMissingWithoutLeader: another replica says 503.
func TestMissingWithoutLeader(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/instances/abc", nil)
	if status, _ := classifyError(r, missingIn(lifecycle.View{}, "abc")); status != http.StatusServiceUnavailable {
		t.Errorf("without a leader: %d", status)
	}
	if status, _, ok := service.Own(missingIn(lifecycle.View{Leading: true}, "abc")); !ok || status != http.StatusNotFound {
		t.Errorf("of a leader: %d", status)
	}
}
