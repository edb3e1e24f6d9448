// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"io"
	"net/http"
	"time"
)

// pieceSize is how much of an answer is sent under one time limit. A client
// that takes less in that time has stalled.
const pieceSize = 64 << 10

// sender is a response that somebody may take slowly. Each piece of it has a
// time limit of its own, instead of one for the whole that would cut a slow
// download.
type sender struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	kernel  bool // a file can go to the connection without passing through here
	sent    int64
}

func newSender(w http.ResponseWriter, r *http.Request, stall time.Duration) *sender {
	return &sender{ResponseWriter: w, control: http.NewResponseController(w), stall: stall, kernel: r.TLS == nil && r.ProtoMajor == 1}
}

func (s *sender) limit() {
	// Writers without deadlines, as in tests, have no connection to stall.
	_ = s.control.SetWriteDeadline(time.Now().Add(s.stall))
}

func (s *sender) Write(p []byte) (total int, err error) {
	for {
		s.limit()
		n, err := s.ResponseWriter.Write(p[:min(len(p), pieceSize)])
		s.sent += int64(n)
		total += n
		if p = p[n:]; err != nil || len(p) == 0 {
			return total, err
		}
	}
}

// Unwrap is for [http.ResponseController].
func (s *sender) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// ReadFrom is what [io.Copy] calls. What is in a file goes there from the
// kernel; all else through one buffer per download.
func (s *sender) ReadFrom(r io.Reader) (total int64, err error) {
	if limited, ok := r.(*io.LimitedReader); ok && s.kernel {
		total, err = s.sendFile(limited)
		if err != nil || limited.N == 0 {
			return total, err
		}
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{r}, make([]byte, pieceSize))
	return total + n, err
}

// sendFile sends what a [source] has in a file.
func (s *sender) sendFile(limited *io.LimitedReader) (total int64, err error) {
	to, ok := s.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return 0, nil
	}
	src, ok := limited.R.(*source)
	for ok && limited.N > 0 {
		f, n := src.chunk()
		if f == nil {
			break
		}
		s.limit()
		n, err = to.ReadFrom(io.LimitReader(f, min(n, limited.N, pieceSize)))
		src.at += n
		limited.N -= n
		s.sent += n
		total += n
		if n == 0 && err == nil {
			src.leaveFile(io.ErrUnexpectedEOF) // it is shorter than it was
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}
