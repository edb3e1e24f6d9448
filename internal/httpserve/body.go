// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"io"
	"net/http"
	"time"
)

const (
	// stallTimeout ends a request of whose body nothing arrives for so long.
	// There is no limit for the whole: a provider is uploaded over slow lines.
	stallTimeout = time.Minute
	// leftTimeout is for a body that the handler did not want, which net/http
	// reads to the end if it is short.
	leftTimeout = 5 * time.Second
)

// patient ends requests whose body does not arrive. Without it such a request
// lives for ever, and a shutdown waits for it.
func patient(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			h.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		// A writer without deadlines, as in tests, has no connection to stall.
		b := &body{ReadCloser: r.Body, stalled: time.AfterFunc(stallTimeout, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })}
		b.stalled.Stop()
		// The request of net/http keeps its own body: by that it sees that nobody wanted
		// it, answers at once and reads none of a long one, nor of one that was
		// announced by Expect.
		in := *r
		in.Body = b
		h.ServeHTTP(w, &in)
		r.Pattern = in.Pattern // for who logs it
		if !b.ended {
			_ = control.SetReadDeadline(time.Now().Add(leftTimeout))
		}
	})
}

// body ends the reads that take too long. A deadline that a handler has set
// itself stays.
type body struct {
	io.ReadCloser
	stalled *time.Timer
	ended   bool
}

func (b *body) Read(p []byte) (int, error) {
	b.stalled.Reset(stallTimeout)
	n, err := b.ReadCloser.Read(p)
	b.stalled.Stop()
	b.ended = b.ended || err != nil
	return n, err
}
