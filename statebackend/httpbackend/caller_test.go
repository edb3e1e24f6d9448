// SPDX-License-Identifier: Apache-2.0

package httpbackend_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// as is a server of the store in a process of its own, for one caller.
func as(t *testing.T, store *statebackend.Store, caller string) client {
	t.Helper()
	s := httpbackend.New(httpbackend.Options{Open: func(context.Context, string) (*statebackend.Store, error) { return store, nil }})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(statebackend.WithCaller(r.Context(), caller, "")))
	}))
	t.Cleanup(server.Close)
	return client{t, server.URL, "app"}
}

// TestAnotherCaller: who sends the id of another's lock, shown in 423, holds nothing, at any
// server. The same caller does.
func TestAnotherCaller(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		one, two, three := newStore(t, host, nil), newStore(t, host, nil), newStore(t, host, nil)
		const id = "lock-1"
		sum := sha256.Sum256([]byte(id))
		others := []client{as(t, one, "mallory"), as(t, two, "mallory"), as(t, three, "mallory")}
		refused := func() {
			t.Helper()
			for i, c := range others {
				for _, id := range []string{id, hex.EncodeToString(sum[:4]) + strings.Repeat("0", 56)} {
					for request, want := range map[string]struct{ method, query, body string }{
						"lock": {"LOCK", "", lockBody(id)}, "unlock": {"UNLOCK", "", lockBody(id)},
						"write": {http.MethodPost, "ID=" + id, stateOf("a", 9)}, "delete": {http.MethodDelete, "ID=" + id, ""},
					} {
						status := http.StatusForbidden
						if request == "lock" {
							status = http.StatusLocked
						}
						if a := c.do(want.method, want.query, want.body); a.status != status || !strings.Contains(a.body, "lock-1") {
							t.Errorf("server %d: %s with %s: %d %s, want %d", i, request, id, a.status, a.body, status)
						}
					}
				}
			}
		}
		as(t, one, "alice").want(http.StatusOK, "LOCK", "", lockBody(id))
		refused()
		as(t, two, "alice").want(http.StatusOK, http.MethodPost, "ID="+id, stateOf("a", 1))
		refused()
		as(t, one, "alice").want(http.StatusOK, http.MethodPost, "ID="+id, stateOf("a", 2))
		as(t, three, "alice").want(http.StatusOK, "LOCK", "", lockBody(id))
		refused()
		as(t, three, "alice").want(http.StatusOK, "UNLOCK", "", lockBody(id))

		as(t, two, "").want(http.StatusOK, "LOCK", "", lockBody("lock-2")) // as an older server
		as(t, three, "alice").want(http.StatusOK, http.MethodPost, "ID=lock-2", stateOf("a", 3))
		as(t, one, "alice").want(http.StatusOK, "UNLOCK", "", lockBody("lock-2"))

		as(t, one, "alice").want(http.StatusOK, "LOCK", "", lockBody("lock-3"))
		others[1].want(http.StatusOK, "UNLOCK", "", `{"ID":"lock-3"}`)
		as(t, two, "alice").want(http.StatusConflict, http.MethodPost, "ID=lock-3", stateOf("a", 4))
		others[2].wantState(stateOf("a", 3))
	})
}
