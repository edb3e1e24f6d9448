// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
	"github.com/seed-141914ff/okara/statebackend"
)

// TestStateEntry lists a state when it is first stored, not when it is read, locked or
// refused; and stores it even if it cannot be listed.
//
// Shows: mistakes 34
func TestStateEntry(t *testing.T) {
	layout := addr.Layout{Prefix: "acme"}
	h := ocitest.Handler(t, ocitest.Quirks{})
	for _, refused := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			entries := &ocitest.Fault{
				Base: ocitest.Direct{Handler: h}, Nth: 1 << 30, Do: ocitest.Status(http.StatusForbidden, 0),
				Match: func(r *http.Request) bool {
					return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/"+layout.QueueRepo()+"/manifests/")
				},
			}
			if refused {
				entries.Nth, entries.Times = 1, -1
			}
			client := must.Get(oci.New("registry.test", oci.Options{PlainHTTP: true, Transport: entries, Retry: oci.Retry{MaxAttempts: 1}}))(t)
			states := must.Get(states.New(states.Options{Client: client, Layout: layout}))(t)
			front := must.Get(New(Options{
				Options: registry.Options{Client: client, Layout: layout}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("s"), 32)}},
				Access: access.Policy{Anonymous: rights.AnonymousAll()}, States: states,
				Stores: newStateStores(backend{client: client, layout: layout}, statebackend.Options{}, slog.New(slog.DiscardHandler)).storeNamed,
			}))(t)
			name := fmt.Sprintf("shop-%v", refused)
			for _, c := range []struct {
				method, query, body  string
				status, tried, again int // tried: number of attempts to write an entry; again: the same if the registry refuses
			}{
				{"GET", "", "", 204, 0, 0},
				{"LOCK", "", `{"ID":"a"}`, 200, 0, 0},
				{"POST", "?ID=b", `{"version":4,"serial":1,"lineage":"a"}`, 409, 0, 0},
				{"POST", "?ID=a", `{"version":4,"serial":1,"lineage":"a"}`, 200, 1, 1},
				{"POST", "?ID=a", `{"version":4,"serial":2,"lineage":"a"}`, 200, 1, 2},
				{"PUT", "?ID=a", `{"version":4,"serial":3,"lineage":"a"}`, 200, 1, 3},
				{"UNLOCK", "", `{"ID":"a"}`, 200, 1, 3},
				{"GET", "", "", 200, 1, 3},
			} {
				r := httptest.NewRequestWithContext(t.Context(), c.method, "http://localhost/state/"+name+"/default"+c.query, strings.NewReader(c.body))
				w := httptest.NewRecorder()
				front.ServeHTTP(w, r)
				synctest.Wait()
				want := c.tried
				if refused {
					want = c.again
				}
				if w.Code != c.status || entries.Seen() != want {
					t.Errorf("refused %v: %s%s is %d, want %d; %d entries, want %d: %s", refused, c.method, c.query, w.Code, c.status, entries.Seen(), want, w.Body)
				}
			}
		})
	}
}
