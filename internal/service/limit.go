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
	// Timeout is how long a request under [Kit.Limit] may take: clients give up after
	// 10 s, body included.
	Timeout = 8 * time.Second
	// maxRequests bounds the requests under [Kit.Limit] that are being answered. A cached
	// answer takes microseconds, so nearly all of these wait for a registry.
	maxRequests = 4096
	// SmallBody bounds nearly every body under [Kit.Limit]: a push of a tag has some
	// 10 KiB. It must arrive within bodyTimeout, since its sender is unknown until then.
	SmallBody   = 64 << 10
	bodyTimeout = 2 * time.Second
)

// Limit refuses a request while too many are being answered, and ends the work for it
// before the client gives up. The body and the answer must make progress too, so that no
// client holds a place for ever.
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

// hurryBody returns a body that must arrive in time: a small one within bodyTimeout, any
// other within the time of the whole answer.
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

// NewPaced returns an answer that ends when the client took none of it for the time
// stall. The limit applies to each piece; one limit for the whole answer would cut a slow
// download.
func NewPaced(w http.ResponseWriter, stall time.Duration) *Response {
	out := httpserve.NewResponse(w)
	out.Within(stall)
	return out
}
