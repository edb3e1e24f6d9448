// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
)

// BenchmarkList measures a page of a list of 1,000 instances on the leader, for the owner of
// one of them, and for an admin. Both are answered from memory.
//
// Shows: platform-figures 6 | a list of 1,000: a page of 500, and the caller's own instances
func BenchmarkList(b *testing.B) {
	s := portaltest.NewServer(b, nil)
	e, _ := s.Catalog.Current("lab/vpc")
	for n := range 1000 {
		now := time.Date(2026, 5, 1, 12, 0, n, 0, time.UTC)
		rec := lifecycle.Record{
			ID: instanceID(n), Template: e.Template.Name, Snapshot: e.Digest, Source: e.Source, Phase: lifecycle.Ready,
			Owner:     template.Owner{Kind: template.OwnerUser, Issuer: s.Issuer.URL, ID: fmt.Sprint("person ", n)},
			CreatedAt: now, ReadyAt: now, Since: now, TTL: e.Template.TTL.Default, ExpiresAt: now.Add(e.Template.TTL.Default),
		}
		c := lifecycle.Command{Event: lifecycle.Adopt{Record: rec, Template: e.Template}, Actor: lifecycle.Actor{Subject: "boss", Admin: true}, Seed: [32]byte{byte(n), byte(n >> 8)}}
		must.Get(s.Store.Do(b.Context(), c))(b)
	}
	for _, who := range []struct{ name, token, path string }{
		{"own", s.Issuer.Token(b, "person 7", "use"), "instances?owner=me"},
		{"admin", s.Issuer.Token(b, "boss", "admin"), "instances?limit=500"},
	} {
		b.Run(who.name, func(b *testing.B) {
			before := s.Store.Commits()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, "/api/v1/"+who.path, nil)
				r.Header.Set("Authorization", "Bearer "+who.token)
				w := httptest.NewRecorder()
				s.Config.Handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
			if n := s.Store.Commits() - before; n > 0 {
				b.Errorf("%d commits", n)
			}
		})
	}
}

// instanceID returns the n-th of many ids.
func instanceID(n int) string {
	id := []byte("aaaaaaaaaa")
	for i := len(id) - 1; n > 0; i-- {
		id[i] = addr.InstanceLetters[n%len(addr.InstanceLetters)]
		n /= len(addr.InstanceLetters)
	}
	return string(id)
}
