// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/instance"
	"github.com/seed-141914ff/okara/internal/ledger"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// leading is a leader over a registry on loopback, with that many members of a pool.
func leading(b *testing.B, members int) (*replica, *instance.Template) {
	b.Helper()
	r := start(b, toHost{ocitest.New(b, ocitest.Quirks{})}, ledger.Options{Limits: ledger.Limits{Roll: 1 << 30}})
	b.Cleanup(r.end)
	leads(b, r)
	tpl := pooled(members)
	fill(b, r, tpl)
	return r, tpl
}

// toHost sends to a registry that listens there.
type toHost struct{ at string }

func (h toHost) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.URL.Host, in.Host = h.at, h.at
	return http.DefaultTransport.RoundTrip(in)
}

// BenchmarkCommit is one commit of a ledger with that many records.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, _ := leading(b, n)
			for i := 0; b.Loop(); i++ {
				serve(b, r, instance.Pause{Template: fmt.Sprint("sandbox/t", i%9), Reason: fmt.Sprint(i)})
			}
		})
	}
}

// BenchmarkClaims is twenty claims a second for five seconds, of a ledger with
// 1,000 records: the time of an answer that 99 of 100 have.
func BenchmarkClaims(b *testing.B) {
	r, tpl := leading(b, 1000)
	for b.Loop() {
		took := make([]time.Duration, 100)
		var wg sync.WaitGroup
		every := time.NewTicker(50 * time.Millisecond)
		for i := range took {
			<-every.C
			wg.Go(func() {
				at := time.Now()
				owner := fmt.Sprint(at.UnixNano(), "-", i)
				if _, err := r.Do(b.Context(), launch(tpl, owner, "", owner)); err != nil {
					b.Error(err)
				}
				took[i] = time.Since(at)
			})
		}
		every.Stop()
		wg.Wait()
		slices.Sort(took)
		b.ReportMetric(float64(took[50].Milliseconds()), "ms-p50")
		b.ReportMetric(float64(took[98].Milliseconds()), "ms-p99")
	}
}
