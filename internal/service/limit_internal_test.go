// SPDX-License-Identifier: Apache-2.0

package service

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestStalledMetadata: clients that stall lose their place; a slow reader gets its answer.
//
// Shows: mistakes 12
// Shows: mistakes 20
func TestStalledMetadata(t *testing.T) {
	const answer = 1 << 20
	for _, test := range []struct {
		name, send string
		take       int64 // each second
		want       time.Duration
	}{
		{"takes nothing", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 0, Timeout},
		{"takes too little", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1 << 10, Timeout},
		{"is slow", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 16 << 10, 64 * time.Second},
		{"sends half a small body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nfour", answer, bodyTimeout},
		{"sends half a large body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\nfour", answer, Timeout},
		{"sends half a chunk", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nfour", answer, Timeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := New(Options{Guard: &access.Guard{}})
				left := make(chan time.Duration, 1)
				start := time.Now()
				limited := k.Limit(func(w http.ResponseWriter, r *http.Request) error {
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						return err
					}
					_, err := w.Write(make([]byte, answer))
					return err
				})
				here := ocitest.OneConn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_ = limited(w, r) // the error is not checked here
					left <- time.Since(start)
				}))
				must.Get(io.WriteString(here, test.send))(t)
				var client sync.WaitGroup
				client.Go(func() {
					for err := error(nil); err == nil && test.take > 0; time.Sleep(time.Second) {
						_, err = io.CopyN(io.Discard, here, test.take)
					}
				})
				if got := (<-left).Truncate(2 * time.Second); got != test.want || k.Requests.used != 0 {
					t.Errorf("the place was held for %s, want %s; %d are taken", got, test.want, k.Requests.used)
				}
				here.Close()
				client.Wait()
			})
		})
	}
}
