// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

const (
	// stallTimeout ends a request that waited for the next minBody; a whole body has no limit.
	stallTimeout = time.Minute
	minBody      = 32 << 10
	// leftTimeout is for an unread body, which net/http reads to the end if it is short.
	leftTimeout = 5 * time.Second
)

// limitBodies ends requests whose body does not arrive, which would live for ever.
func limitBodies(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			h.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		// A writer without deadlines, as in tests, has no connection to stall.
		b := &body{ReadCloser: r.Body, stalled: time.AfterFunc(stallTimeout, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })}
		b.stalled.Stop()
		// The request of net/http keeps its own body: by the type of that body net/http
		// sees that the handler left it unread, answers at once, and reads neither a long
		// body nor one that was announced by Expect.
		in := *r
		in.Body = b
		h.ServeHTTP(w, &in)
		r.Pattern = in.Pattern // for the log
		if !b.ended {
			_ = control.SetReadDeadline(time.Now().Add(leftTimeout))
		}
	})
}

// body ends reads that take too long, with respect for a handler's own deadline.
type body struct {
	io.ReadCloser
	stalled *time.Timer
	ended   bool
	got     int           // of the next minBody
	waited  time.Duration // for that
}

func (b *body) Read(p []byte) (int, error) {
	start := time.Now()
	b.stalled.Reset(stallTimeout - b.waited)
	n, err := b.ReadCloser.Read(p)
	b.stalled.Stop()
	b.waited += time.Since(start)
	if b.got += n; b.got >= minBody {
		b.got, b.waited = 0, 0
	}
	b.ended = b.ended || err != nil
	return n, err
}

// ReadBody reads a body of at most limit bytes, else [*http.MaxBytesError]: of one declared longer
// it reads nothing. A body of known length is held in memory once.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	var b bytes.Buffer
	if r.ContentLength > 0 {
		b.Grow(int(r.ContentLength) + bytes.MinRead) // ReadFrom then never copies
	}
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	return b.Bytes(), err
}
