// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// TestStoresAreBounded: names that nobody has do not add up, and a store with a lock stays.
func TestStoresAreBounded(t *testing.T) {
	client := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{PlainHTTP: true}))(t)
	s := newStateStores(backend{client: client}, statebackend.Options{}, slog.New(slog.DiscardHandler))
	held := must.Get(s.storeNamed(t.Context(), "held"))(t)
	must.Get(held.Lock(t.Context(), "default", statebackend.LockInfo{ID: "a"}))(t)
	for i := range 3 * maxStores {
		must.Get(s.storeNamed(t.Context(), fmt.Sprint("nobody-", i)))(t)
	}
	if len(s.byName) > maxStores {
		t.Errorf("%d stores", len(s.byName))
	}
	if must.Get(s.storeNamed(t.Context(), "held"))(t) != held {
		t.Error("the store with a lock was forgotten")
	}
}
