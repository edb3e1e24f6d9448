// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// leading returns a leader over a registry on loopback, with this many pool members.
func leading(b *testing.B, members int) (*replica, *template.Template) {
	b.Helper()
	r := start(b, toHost{ocitest.New(b, ocitest.Quirks{})}, ledger.Options{Limits: ledger.Limits{Roll: 1 << 30}})
	b.Cleanup(r.end)
	leads(b, r)
	tpl := pooled(members)
	fill(b, r, tpl)
	return r, tpl
}

// toHost sends requests to a registry listening at an address.
type toHost struct{ at string }

func (h toHost) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.URL.Host, in.Host = h.at, h.at
	return http.DefaultTransport.RoundTrip(in)
}

// BenchmarkCommit commits to a ledger with this many records.
//
// Shows: platform-figures 4 | a commit with 1,000 and 5,000 records; the move to another repository
// at 5,000 versions
func BenchmarkCommit(b *testing.B) {
	sizes := []int{1000, 5000}
	if testing.Short() {
		sizes = []int{100}
	}
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, _ := leading(b, n)
			for i := 0; b.Loop(); i++ {
				serve(b, r, lifecycle.PauseTemplate{Template: fmt.Sprint("sandbox/t", i%9), Reason: fmt.Sprint(i)})
			}
		})
	}
}

// BenchmarkClaims makes twenty claims a second for five seconds, with 1,000 records: it
// reports the 99th percentile of the response time.
//
// Shows: platform-figures 3
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

// BenchmarkRollOver fills a repository from which nothing can be removed with 5,000
// versions, at which the ledger moves to another one, and prints the time of a commit at
// the beginning, at the end, and afterwards.
//
// Shows: platform-figures 4
func BenchmarkRollOver(b *testing.B) {
	if testing.Short() {
		b.Skip("it fills a repository")
	}
	const versions = 5000
	for b.Loop() {
		r := start(b, toHost{ocitest.New(b, ocitest.Quirks{NoDelete: true})}, ledger.Options{})
		leads(b, r)
		commits := func(n int) (each time.Duration) {
			at := time.Now()
			for range n {
				serve(b, r, lifecycle.PauseTemplate{Template: "sandbox/vpc", Reason: at.String() + fmt.Sprint(r.Status().Version)})
			}
			return time.Since(at) / time.Duration(n)
		}
		first := commits(100)
		commits(versions - 200 - int(r.Status().Version))
		last := commits(100)
		if s := r.Status(); s.Number != 1 || s.Version < versions-200 {
			b.Fatalf("version %d of repository %d before the way into another one", s.Version, s.Number)
		}
		for end := time.Now().Add(10 * time.Minute); r.Status().Number == 1 && time.Now().Before(end); {
			commits(20)
		}
		after := commits(100)
		if s := r.Status(); s.Number != 2 {
			b.Fatalf("it is in repository %d at version %d", s.Number, s.Version)
		}
		reason := serve(b, r, lifecycle.PauseTemplate{Template: "sandbox/vpc", Reason: "the last"}).Pools["sandbox/vpc"].Paused
		r.end()
		must.Equal(b, "the document says", reason, "the last")
		b.ReportMetric(float64(first.Microseconds())/1000, "ms-first")
		b.ReportMetric(float64(last.Microseconds())/1000, "ms-last")
		b.ReportMetric(float64(after.Microseconds())/1000, "ms-after")
	}
}
