// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCostOfAModule bounds the requests to the registry, and the writes to the API server, from a
// Module's creation until it is Ready with three versions. Bounds may only fall.
func TestCostOfAModule(t *testing.T) {
	s := newSite(t, map[string]string{v1alpha1.AnnotationAddresses: "module:net/**"})
	s.publish("1.0.0", "1.1.0", "1.2.0")
	var objects, events atomic.Int64
	s.account.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/namespaces/"+s.ns+"/"):
			case strings.HasSuffix(r.URL.Path, "/events"):
				events.Add(1)
			default:
				objects.Add(1)
			}
			return base.RoundTrip(r)
		})
	})
	s.start()
	s.says(s.module(s.ns, "m", nil), true, v1alpha1.ReasonSynced)
	s.stop()
	for _, c := range []struct {
		what      string
		got, most int64
	}{
		{"requests to the registry", s.in.asked.Load(), 49},
		{"requests to the origin", s.out.asked.Load(), 10},
		{"writes of objects", objects.Load(), 7},
		{"events", events.Load(), 1},
	} {
		if c.got > c.most {
			t.Errorf("%s: %d, at most %d", c.what, c.got, c.most)
		}
	}
}
