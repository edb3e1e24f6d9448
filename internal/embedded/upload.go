// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"io"
	"net/http"

	"github.com/seed-141914ff/okara/internal/text"
)

// uploads gives back at once the space of an upload whose bytes did not all
// come, or that the disk did not take. The library keeps it for a client that
// resumes, and clients begin anew.
type uploads struct {
	http.Handler // the library
	store        *store
}

var uploadPath = text.Pattern(`^/v2/(.+)/blobs/uploads/([0-9a-f-]{36})$`)

func (u uploads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	match := uploadPath().FindStringSubmatch(r.URL.Path)
	if match == nil || r.Method != http.MethodPatch && r.Method != http.MethodPut {
		u.Handler.ServeHTTP(w, r)
		return
	}
	rec := &statusRecorder{ResponseWriter: w}
	defer func() {
		if rec.failed() || r.Context().Err() != nil {
			u.store.abandon("/docker/registry/v2/repositories/" + match[1] + "/_uploads/" + match[2])
		}
	}()
	in := r.WithContext(r.Context())
	in.Body = bodyUntil{r.Body, r.Context()}
	u.Handler.ServeHTTP(rec, in)
}

// bodyUntil ends with its context. The body of a request within the process goes
// on after who sent it gave up.
type bodyUntil struct {
	io.ReadCloser
	ctx context.Context
}

func (b bodyUntil) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

// statusRecorder remembers the first status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (w *statusRecorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusRecorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// clientClosed is what the library answers to a client that has gone.
const clientClosed = 499

// failed recognizes an upload that ended without its bytes. One that was refused,
// since its range does not fit for example, goes on.
func (w *statusRecorder) failed() bool { return w.status == 0 || w.status >= clientClosed }
