// SPDX-License-Identifier: Apache-2.0

package service

import (
	"io"
	"net/http"
)

// Recorder remembers the status of an answer.
type Recorder struct {
	http.ResponseWriter
	status int
}

// Status is that of the answer, 0 before there is one.
func (w *Recorder) Status() int { return w.status }

// WriteHeader is that of [http.ResponseWriter].
func (w *Recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *Recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// ReadFrom lets a file go to the connection without passing through here.
func (w *Recorder) ReadFrom(r io.Reader) (int64, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if to, ok := w.ResponseWriter.(io.ReaderFrom); ok {
		return to.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{w.ResponseWriter}, r)
}

// Unwrap lets [http.ResponseController] reach the connection.
func (w *Recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
