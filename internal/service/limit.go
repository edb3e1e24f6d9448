// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/seed-141914ff/okara/internal/httpserve"
)

const (
	// Timeout bounds a request under [Kit.Limit]: clients give up after 10 s.
	Timeout = 8 * time.Second
	// maxRequests bounds the requests in [Kit.Limit], nearly all of which wait for a registry.
	maxRequests = 4096
	// SmallBody bounds nearly every body, which must arrive within bodyTimeout, its sender unknown.
	SmallBody   = 64 << 10
	bodyTimeout = 2 * time.Second
)

// Limit refuses beyond a number of requests, ends work before the client gives up, and requires
// progress of body and answer.
func (k *Kit) Limit(h Handler) Handler {
	h = InTime(h)
	return func(w http.ResponseWriter, r *http.Request) error {
		release, ok := k.Requests.Acquire(k.Client(r), 1)
		if !ok {
			return TooMany("requests")
		}
		defer release()
		out := NewPaced(w, Timeout)
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = hurryBody(r.Body, http.NewResponseController(w), r.ContentLength)
		}
		return h(out, r)
	}
}

// InTime ends the work for an answer before the client gives up.
func InTime(h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx := &deadline{Context: r.Context(), at: time.Now().Add(Timeout)}
		defer ctx.end()
		return h(w, r.WithContext(ctx))
	}
}

// hurryBody bounds a body's time: bodyTimeout if small, else the answer's.
func hurryBody(body io.ReadCloser, control *http.ResponseController, length int64) io.ReadCloser {
	within := Timeout
	if Small(length) {
		within = bodyTimeout
	}
	return &hurried{body, control, time.Now().Add(within)}
}

// Small reports whether a body is small; false if its length is unknown.
func Small(length int64) bool { return length >= 0 && length <= SmallBody }

type hurried struct {
	io.ReadCloser
	control *http.ResponseController
	until   time.Time
}

func (b *hurried) Read(p []byte) (int, error) {
	// A writer without deadlines, as in tests, has no connection to stall.
	_ = b.control.SetReadDeadline(b.until)
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		// From here on the connection is read to see whether the client is there.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// PieceSize is how much of an answer passes through a buffer at once.
const PieceSize = 64 << 10

// Response is the wrapper of an answer, for packages that do not import httpserve.
type Response = httpserve.Response

// NewPaced returns an answer that ends when nothing of it was taken for the time stall, piece by
// piece: downloads may be slow.
func NewPaced(w http.ResponseWriter, stall time.Duration) *Response {
	out := httpserve.NewResponse(w)
	out.Within(stall)
	return out
}
