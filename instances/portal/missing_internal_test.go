// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/service"
)

// TestMissingWithoutLeader: only a leader knows that an instance does not exist; another
// replica may not have it yet, and says 503.
func TestMissingWithoutLeader(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/instances/abc", nil)
	if status, _ := classify(r, missingIn(lifecycle.View{}, "abc")); status != http.StatusServiceUnavailable {
		t.Errorf("without a leader: %d", status)
	}
	if status, _, ok := service.Own(missingIn(lifecycle.View{Leading: true}, "abc")); !ok || status != http.StatusNotFound {
		t.Errorf("of a leader: %d", status)
	}
}
