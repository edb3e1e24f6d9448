// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
)

// discard is a ResponseWriter that drops the answer.
type discard struct {
	h      http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// warmAllocations is the most of a warm answer; it may only fall.
const warmAllocations = 48

// TestWarmAllocations checks that a warm answer is copied, not created: its
// cost does not grow with the number of versions and rights.
//
// Shows: opendepot-defects 5
func TestWarmAllocations(t *testing.T) {
	cost := func(versions, scopes int) map[string]float64 {
		f := newFront(t, func(o *server.Options) {
			o.Access.Tokens = append(o.Access.Tokens, newToken(t, readerToken))
			for range scopes {
				o.Access.Tokens[0].Scopes = append(o.Access.Tokens[0].Scopes, must.Fixed(rights.ParseScope("read:*:none/**")))
			}
			o.Access.Tokens[0].Scopes = append(o.Access.Tokens[0].Scopes, must.Fixed(rights.ParseScope("read:*:**")))
		})
		for i := range versions {
			v := fmt.Sprintf("1.%d.0", i)
			f.module(t, "net/vpc/aws", v, map[string]string{"main.tf": ""})
			f.provider(t, release{address: "acme/dns", version: v, platforms: []string{"linux_amd64"}})
		}
		got := map[string]float64{}
		for path, status := range map[string]int{
			"/v1/modules/net/vpc/aws/versions": 200, "/v1/modules/net/vpc/aws/1.0.0/download": 204, "/v1/providers/acme/dns/versions": 200,
			"/v1/providers/acme/dns/1.0.0/download/linux/amd64": 200, "/mirror/registry.example.com/acme/none/index.json": 404,
		} {
			r := must.Fixed(http.NewRequest(http.MethodGet, "http://example.com"+path, nil))
			r.Header.Set("Authorization", "Bearer "+readerToken)
			got[path] = testing.AllocsPerRun(100, func() {
				w := &discard{h: http.Header{}}
				if f.handler.ServeHTTP(w, r); w.status != status {
					t.Fatalf("%s: %d, want %d", path, w.status, status)
				}
			})
		}
		return got
	}
	few, many := cost(1, 0), cost(30, 100)
	for path, n := range many {
		if n > warmAllocations {
			t.Errorf("%s: %.0f allocations, at most %d", path, n, warmAllocations)
		}
		if n > few[path]+10 { // pools are occasionally emptied
			t.Errorf("%s: %.0f allocations with 30 versions and 100 rights, %.0f with one", path, n, few[path])
		}
	}
}
