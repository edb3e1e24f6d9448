// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"cmp"
	"context"
	"io"
	"net/http"

	"github.com/distribution/distribution/v3/registry/api/errcode"

	"github.com/seed-141914ff/okara/internal/text"
)

// uploads frees an upload's space at once if its bytes did not all arrive or fit: clients start
// again.
type uploads struct {
	http.Handler // the library
	store        *store
}

var uploadPath = text.Pattern(`^/v2/(.+)/blobs/uploads/([0-9a-f-]{36})$`)

var chunkRange = text.Pattern(`^[0-9]{1,18}-[0-9]{1,18}$`)

func (u uploads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	match := uploadPath().FindStringSubmatch(r.URL.Path)
	if match == nil || r.Method != http.MethodPatch && r.Method != http.MethodPut {
		u.Handler.ServeHTTP(w, r)
		return
	}
	if chunk := r.Header.Get("Content-Range"); r.Method == http.MethodPatch && chunk != "" && !chunkRange().MatchString(chunk) { // the library's 500 would end the upload
		refuse(w, http.StatusRequestedRangeNotSatisfiable, errcode.ErrorCodeRangeInvalid.WithMessage("the Content-Range of a chunk is FIRST-LAST, such as 0-1048575"))
		return
	}
	rec := &statusRecorder{ResponseWriter: w}
	defer func() {
		// Such an upload ended without its bytes; a refused one can continue.
		if rec.status == 0 || rec.status >= clientClosed || r.Context().Err() != nil {
			u.store.abandon("/docker/registry/v2/repositories/" + match[1] + "/_uploads/" + match[2])
		}
	}()
	in := r.WithContext(r.Context())
	in.Body = bodyUntil{r.Body, r.Context()}
	u.Handler.ServeHTTP(rec, in)
}

// bodyUntil ends with its context, so that no body outlives its sender within the process.
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

// statusRecorder records the first status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (w *statusRecorder) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusRecorder) Write(p []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// Unwrap supports [http.ResponseController].
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// clientClosed is the library's status for a client that has disconnected.
const clientClosed = 499
