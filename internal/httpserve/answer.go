// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"io"
	"net/http"
	"time"
)

// pieceSize is how much of an answer is sent under one deadline. A client that
// does not take it in time has stalled.
const pieceSize = 64 << 10

// Response is the one wrapper that a [Server] puts around each answer, so that those
// above need none of their own. It remembers what was answered, and ends answers that
// nobody takes: without that such a request lives for ever, with whatever its handler
// holds meanwhile. A deadline that a handler sets itself must come after what is sent
// before it.
type Response struct {
	http.ResponseWriter
	control http.ResponseController
	stall   time.Duration
	until   time.Time // the deadline that was set last
	status  int
	written int64
}

// NewResponse returns that of an answer which nobody wrapped yet, as in tests; what is
// one already is returned as it is.
func NewResponse(w http.ResponseWriter) *Response {
	if r, ok := w.(*Response); ok {
		return r
	}
	return &Response{ResponseWriter: w, control: *http.NewResponseController(w), stall: stallTimeout}
}

// Status is that of the answer, 0 before there is one.
func (w *Response) Status() int { return w.status }

// Within changes how long a client may take for a piece.
func (w *Response) Within(stall time.Duration) {
	if w.stall != stall {
		w.stall = stall
		w.until = time.Time{}
	}
}

// limit begins the time of a piece. A deadline that has most of its time left is left
// as it is: to set one takes longer than to write a small answer.
func (w *Response) limit() {
	now := time.Now()
	if w.until.Sub(now) > w.stall/8*7 {
		return
	}
	w.until = now.Add(w.stall)
	// A writer without deadlines, as in tests, has no connection to stall.
	_ = w.control.SetWriteDeadline(w.until)
}

// WriteHeader is that of [http.ResponseWriter].
func (w *Response) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *Response) begin() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

func (w *Response) Write(p []byte) (total int, err error) {
	w.begin()
	for {
		w.limit()
		n, err := w.ResponseWriter.Write(p[:min(len(p), pieceSize)])
		total += n
		w.written += int64(n)
		if p = p[n:]; err != nil || len(p) == 0 {
			return total, err
		}
	}
}

// WriteString implements [io.StringWriter].
func (w *Response) WriteString(s string) (total int, err error) {
	w.begin()
	for {
		w.limit()
		n, err := io.WriteString(w.ResponseWriter, s[:min(len(s), pieceSize)])
		total += n
		w.written += int64(n)
		if s = s[n:]; err != nil || s == "" {
			return total, err
		}
	}
}

// ReadFrom leaves it to the connection how to send the pieces: those of a file go
// there from the kernel, if nothing but one limit is around it.
func (w *Response) ReadFrom(r io.Reader) (total int64, err error) {
	w.begin()
	to, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, r)
	}
	whole, ok := r.(*io.LimitedReader)
	if !ok {
		whole = &io.LimitedReader{R: r, N: 1<<63 - 1}
	}
	for whole.N > 0 {
		piece := min(whole.N, pieceSize)
		w.limit()
		n, err := to.ReadFrom(&io.LimitedReader{R: whole.R, N: piece})
		whole.N -= n
		total += n
		w.written += n
		if err != nil || n < piece {
			return total, err
		}
	}
	return total, nil
}

// FlushError is for [http.ResponseController].
func (w *Response) FlushError() error {
	w.begin()
	w.limit()
	return w.control.Flush()
}

// Flush implements [http.Flusher].
func (w *Response) Flush() { _ = w.FlushError() } // the next write meets the same error

// Unwrap is for [http.ResponseController].
func (w *Response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
