// SPDX-License-Identifier: Apache-2.0

package httpbackend_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// Each LOCK is answered at once; what the server saw of a claim that cannot be
// read lasts from one to the next, whoever sends them.
func TestGhostAcrossRequests(t *testing.T) {
	g := &ocitest.Ghosts{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	synctest.Test(t, func(t *testing.T) {
		r, err := oci.OpenRepo("registry.test/state/app", oci.Options{Transport: ocitest.Direct{Handler: g}, PlainHTTP: true})
		if err != nil {
			t.Fatal(err)
		}
		store := statebackend.New(r, statebackend.Options{})
		h := httpbackend.New(httpbackend.Options{Open: func(context.Context, string) (*statebackend.Store, error) { return store, nil }})
		g.Add("state/app", "locked-prod-000000000001-0123456789abcdef")
		var answers []int
		for _, id := range []string{"a", "a", "a", "b"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("LOCK", "/state/app/prod", strings.NewReader(`{"ID":"`+id+`","Who":"me"}`)))
			answers = append(answers, w.Code)
			if w.Code == http.StatusLocked && !strings.Contains(w.Body.String(), `"ID":"0123456789abcdef"`) {
				t.Errorf("holder: %s", w.Body)
			}
			time.Sleep(25 * time.Second)
		}
		for i, want := range []int{423, 423, 423, 200} {
			if answers[i] != want {
				t.Fatalf("answers %v, want 423 until a minute has passed", answers)
			}
		}
	})
}
