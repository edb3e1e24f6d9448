// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"cmp"
	"io"
	"net/http"
	"time"
)

// pieceSize is sent under one deadline; a client that does not take it in time stalls.
const pieceSize = 64 << 10

// Response is the one wrapper that a [Server] puts around each answer. It records status and size,
// and ends answers that the client does not read, which would live for ever. A handler's deadline
// must be later than that of what was sent.
type Response struct {
	http.ResponseWriter
	control http.ResponseController
	stall   time.Duration
	until   time.Time // the deadline that was set last
	status  int
	written int64
}

// NewResponse wraps an answer that is no *Response yet.
func NewResponse(w http.ResponseWriter) *Response {
	if r, ok := w.(*Response); ok {
		return r
	}
	return &Response{ResponseWriter: w, control: *http.NewResponseController(w), stall: stallTimeout}
}

// Status returns the status of the answer, 0 before there is one.
func (w *Response) Status() int { return w.status }

// Within changes how long a client may take for a piece.
func (w *Response) Within(stall time.Duration) {
	if w.stall != stall {
		w.stall = stall
		w.until = time.Time{}
	}
}

// startLimit starts the time limit of a piece. It keeps a deadline that has most of its time
// left: setting one takes longer than writing a small answer.
func (w *Response) startLimit() {
	now := time.Now()
	if w.until.Sub(now) > w.stall/8*7 {
		return
	}
	w.until = now.Add(w.stall)
	// A writer without deadlines, as in tests, has no connection to stall.
	_ = w.control.SetWriteDeadline(w.until)
}

// WriteHeader implements [http.ResponseWriter].
func (w *Response) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *Response) begin() {
	w.status = cmp.Or(w.status, http.StatusOK)
}

func (w *Response) Write(p []byte) (total int, err error) {
	w.begin()
	for {
		w.startLimit()
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
		w.startLimit()
		n, err := io.WriteString(w.ResponseWriter, s[:min(len(s), pieceSize)])
		total += n
		w.written += int64(n)
		if s = s[n:]; err != nil || s == "" {
			return total, err
		}
	}
}

// ReadFrom lets the connection send a file's pieces by the kernel, with one limit around r at most.
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
		w.startLimit()
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
	w.startLimit()
	return w.control.Flush()
}

// Flush implements [http.Flusher].
func (w *Response) Flush() { _ = w.FlushError() } // the next write returns the same error

// Unwrap is for [http.ResponseController].
func (w *Response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
