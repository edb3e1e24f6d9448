// SPDX-License-Identifier: Apache-2.0

package site

import (
	"errors"
	"net/http"
	"strconv"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/service"
)

// TestRenderLimiter takes places until there are none: two per caller, eight in total.
func TestRenderLimiter(t *testing.T) {
	c := NewRenderLimiter()
	var nest func(callers []access.Caller) error
	nest = func(callers []access.Caller) error { // each runs while all before it run
		if len(callers) == 0 {
			return nil
		}
		return c.Do(callers[0], func() error { return nest(callers[1:]) })
	}
	many := func(n int) (all []access.Caller) {
		for i := range n {
			all = append(all, access.Caller{Mode: "static", Subject: strconv.Itoa(i / maxCallerRenders)})
		}
		return all
	}
	anonymous := access.Caller{Mode: "anonymous"}
	for _, tt := range []struct {
		name    string
		callers []access.Caller
		ok      bool
	}{
		{"all places", many(maxRenders), true},
		{"one more", many(maxRenders + 1), false},
		{"two of one", []access.Caller{anonymous, anonymous}, true},
		{"three of one", []access.Caller{anonymous, anonymous, anonymous}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := nest(tt.callers)
			if e, _ := errors.AsType[*service.Error](err); (err == nil) != tt.ok || err != nil && e.Status != http.StatusServiceUnavailable {
				t.Error(err)
			}
			if err := nest(many(maxRenders)); err != nil {
				t.Errorf("not all places are free at the end: %v", err)
			}
		})
	}
}
