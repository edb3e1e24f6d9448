// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"io"
	"net/http"
	"time"

	"github.com/seed-141914ff/okara/internal/service"
)

// sender is a paced response that counts what was sent.
type sender struct {
	*service.Response
	kernel bool // a file can go to the connection without passing through here
	sent   int64
}

func newSender(w http.ResponseWriter, r *http.Request, stall time.Duration) *sender {
	return &sender{Response: service.NewPaced(w, stall), kernel: r.TLS == nil && r.ProtoMajor == 1}
}

func (s *sender) Write(p []byte) (int, error) {
	n, err := s.Response.Write(p)
	s.sent += int64(n)
	return n, err
}

// ReadFrom is what [io.Copy] calls. What is in a file goes there from the
// kernel; all else through one buffer per download.
func (s *sender) ReadFrom(r io.Reader) (total int64, err error) {
	if limited, ok := r.(*io.LimitedReader); ok && s.kernel {
		total, err = s.sendFile(limited)
		if err != nil || limited.N == 0 {
			return total, err
		}
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{r}, make([]byte, service.PieceSize))
	return total + n, err
}

// sendFile sends what a [source] has in a file.
func (s *sender) sendFile(limited *io.LimitedReader) (total int64, err error) {
	if _, ok := s.ResponseWriter.(io.ReaderFrom); !ok {
		return 0, nil
	}
	src, ok := limited.R.(*source)
	for ok && limited.N > 0 {
		f, n := src.chunk()
		if f == nil {
			break
		}
		n, err = s.Response.ReadFrom(io.LimitReader(f, min(n, limited.N, service.PieceSize)))
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
