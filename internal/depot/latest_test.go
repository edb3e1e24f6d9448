// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestLatestOfTwo holds a publisher at each of its requests while another publishes another number,
// held as it moves latest: whoever writes last, latest is the higher one.
func TestLatestOfTwo(t *testing.T) {
	for _, held := range []time.Duration{time.Second, 8 * time.Second} {
		for _, other := range []time.Duration{0, 3 * time.Second} {
			for _, numbers := range [][2]string{{"1.1.0", "1.2.0"}, {"1.2.0", "1.1.0"}} {
				for n, done := 1, false; !done; n++ {
					withoutWaits(t, ocitest.Handler(t, ocitest.Quirks{NoDelete: other > 0}), func(t *testing.T, registry http.RoundTripper) {
						done = publishTwo(t, registry, numbers, n, held, other)
					})
					if t.Failed() {
						t.Fatalf("%v: held at request %d for %s, and the other for %s", numbers, n, held, other)
					}
				}
			}
		}
	}
}

// publishTwo reports whether the first has no nth request.
func publishTwo(t *testing.T, registry http.RoundTripper, numbers [2]string, n int, held, other time.Duration) (done bool) {
	publish := func(transport http.RoundTripper, number string) {
		d, _ := newDepot(t, oci.Options{Transport: transport})
		out, err := d.PublishModule(t.Context(), depottest.NewModule("# "+number), depottest.MustModule(t, "net/vpc/aws", number), depot.ModuleOptions{})
		if err != nil || len(out.Warnings) > 0 {
			t.Errorf("%s: %v, %q", number, err, out.Warnings)
		}
	}
	publish(registry, "1.0.0")
	var second sync.WaitGroup
	first := &ocitest.Fault{Base: registry, Nth: n, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		second.Go(func() {
			publish(&ocitest.Fault{Base: registry, Do: ocitest.Slow(other), Match: func(r *http.Request) bool {
				return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/latest")
			}}, numbers[1])
		})
		return ocitest.Slow(held)(r, next)
	}}
	publish(first, numbers[0])
	second.Wait()
	if first.Seen() < n {
		return true
	}
	_, client := newDepot(t, oci.Options{Transport: registry})
	r := depottest.MustRepo(t, client, depottest.ModuleRepo)
	if latest, want := depottest.MustFetch(t, r, "latest").Digest, depottest.MustFetch(t, r, "1.2.0").Digest; latest != want {
		t.Errorf("latest is %s, want %s", latest, want)
	}
	return false
}
