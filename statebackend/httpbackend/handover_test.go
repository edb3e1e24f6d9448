// SPDX-License-Identifier: Apache-2.0

package httpbackend_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// TestLateLock: a LOCK that a proxy repeats after its UNLOCK does not, for an hour, make a
// lock that is never released; other clients do not have to wait for it.
//
// Shows: servers 6 | a `LOCK` that is repeated after its `UNLOCK`
func TestLateLock(t *testing.T) {
	const id = "7a1c9e02-4a55-4d0e-9c55-2f6d8a0b1c3d"
	r := must.Get(oci.OpenRepo(ocitest.New(t, ocitest.Quirks{})+"/infra/state", oci.Options{PlainHTTP: true}))(t)
	now := time.Now()
	store := statebackend.New(r, statebackend.Options{Now: func() time.Time { return now }})
	c := client{t, serve(t, httpbackend.Options{Open: func(context.Context, string) (*statebackend.Store, error) { return store, nil }}), "default"}
	c.want(http.StatusOK, "LOCK", "", lockBody(id))
	c.want(http.StatusOK, http.MethodPost, "ID="+id, stateOf("a", 1))
	c.want(http.StatusOK, "UNLOCK", "", lockBody(id))
	c.want(http.StatusConflict, "LOCK", "", lockBody(id))
	if held, err := store.Held(t.Context(), "default"); held != nil || err != nil {
		t.Errorf("held: %+v, %v", held, err)
	}
	c.want(http.StatusOK, "LOCK", "", lockBody("another"))
	c.want(http.StatusOK, "UNLOCK", "", lockBody("another"))
	now = now.Add(61 * time.Minute)
	c.want(http.StatusOK, "LOCK", "", lockBody(id))
}
