// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"cmp"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
)

// RequestID is the header of a request's ID in logs; a [Server] ensures it.
const RequestID = "X-Request-Id"

// maxID bounds the request ID that a client may send.
const maxID = 128

// validID accepts printable ASCII characters except the space.
func validID(id string) bool {
	return id != "" && len(id) <= maxID && strings.IndexFunc(id, func(r rune) bool { return r < '!' || r > '~' }) < 0
}

var secret = text.Pattern(`/(archives|api/v2/uploads|api/v2/logs)/[^/]+`)

// logRequests gives each request an ID, taken from its header or generated, wraps its answer
// in a [Response], and writes one record and one span once it has been answered.
func logRequests(h http.Handler, l *slog.Logger, t tracer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		id := r.Header.Get(RequestID)
		if !validID(id) {
			id = rand.Text()
			r.Header.Set(RequestID, id)
		}
		w.Header().Set(RequestID, id)
		out := NewResponse(w)
		defer out.startLimit() // for the rest that net/http has in its buffer
		if !t.isRecording() && !l.Enabled(r.Context(), slog.LevelInfo) {
			h.ServeHTTP(out, r)
			return
		}
		path := SafePath(r.URL.Path)
		r, span := t.startSpan(r, id, path)
		defer span.End()
		h.ServeHTTP(out, r)
		completeSpan(span, r, out)
		l.LogAttrs(r.Context(), slog.LevelInfo, "request",
			slog.String("method", r.Method), slog.String("path", path),
			slog.Int("status", cmp.Or(out.status, http.StatusOK)), slog.Int64("bytes", out.written),
			slog.Duration("took", time.Since(begin)), slog.String("remote", r.RemoteAddr), slog.String("request_id", id))
	})
}

// SafePath returns a path for logs: tokens in addresses grant access.
func SafePath(p string) string {
	if !strings.Contains(p, "/archives/") && !strings.Contains(p, "/api/v2/") {
		return p // most paths have no token, and are requested often
	}
	return secret().ReplaceAllString(p, "/$1/-")
}
