// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"io"
	"net/http"
	"time"

	"github.com/felixge/httpsnoop"
)

// pieceSize is how much of an answer is sent under one deadline. A client that
// does not take it within stallTimeout has stalled.
const pieceSize = 64 << 10

// taken ends answers that nobody takes. Without it such a request lives for
// ever, with whatever its handler holds meanwhile. A deadline that a handler
// sets itself must come after what is sent before it.
func taken(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		// A writer without deadlines, as in tests, has no connection to stall.
		limit := func() { _ = control.SetWriteDeadline(time.Now().Add(stallTimeout)) }
		defer limit() // for what net/http still has in its buffer
		h.ServeHTTP(httpsnoop.Wrap(w, httpsnoop.Hooks{
			Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
				return func(p []byte) (int, error) { return inPieces(p, limit, next) }
			},
			WriteString: func(next httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
				return func(s string) (int, error) { return inPieces(s, limit, next) }
			},
			ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
				return func(r io.Reader) (int64, error) { return fromInPieces(r, limit, next) }
			},
			Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
				return func() { limit(); next() }
			},
			FlushError: func(next httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
				return func() error { limit(); return next() }
			},
		}), r)
	})
}

func inPieces[T []byte | string, F ~func(T) (int, error)](p T, limit func(), next F) (total int, err error) {
	for {
		limit()
		n, err := next(p[:min(len(p), pieceSize)])
		total += n
		if p = p[n:]; err != nil || len(p) == 0 {
			return total, err
		}
	}
}

// fromInPieces leaves it to next how to send the pieces: those of a file go
// there from the kernel, if nothing but one limit is around it.
func fromInPieces(r io.Reader, limit func(), next httpsnoop.ReadFromFunc) (total int64, err error) {
	whole, ok := r.(*io.LimitedReader)
	if !ok {
		whole = &io.LimitedReader{R: r, N: 1<<63 - 1}
	}
	for whole.N > 0 {
		piece := min(whole.N, pieceSize)
		limit()
		n, err := next(&io.LimitedReader{R: whole.R, N: piece})
		whole.N -= n
		total += n
		if err != nil || n < piece {
			return total, err
		}
	}
	return total, nil
}
