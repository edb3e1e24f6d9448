// SPDX-License-Identifier: Apache-2.0

package service

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
)

// TestBodyRoom reads at most as many bodies at the same time as the limiter has slots,
// and each frees its slot.
//
// Shows: mistakes 1
func TestBodyRoom(t *testing.T) {
	k := New(Options{Guard: &access.Guard{}})
	k.bodies = NewClientLimiter(4) // of which one client gets two
	var done []func()
	for i := range 3 {
		r, end := closeBodyOf(httptest.NewRequest(http.MethodPut, "/", strings.NewReader("x")))
		done = append(done, end)
		if _, err := r.Body.Read(make([]byte, 1)); err == nil {
			t.Error("a shut body was read")
		}
		err := k.OpenBody(r)
		if (err == nil) != (i < 2) {
			t.Fatalf("body %d: %v", i, err)
		}
		if b, rerr := io.ReadAll(r.Body); err == nil && (rerr != nil || string(b) != "x") || err != nil && rerr == nil {
			t.Errorf("body %d: %q, %v", i, b, rerr)
		}
		if again := k.OpenBody(r); err == nil && again != nil {
			t.Error("opened twice:", again)
		}
	}
	for _, end := range done {
		end()
	}
	wantIdle(t, k.bodies)
}
