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

// RequestID is the header that names a request in logs, here and at a proxy. A
// [Server] sees to it that every request has one.
const RequestID = "X-Request-Id"

// maxID bounds the name that a client gives a request.
const maxID = 128

// validID takes what prints, and no space.
func validID(id string) bool {
	return id != "" && len(id) <= maxID && strings.IndexFunc(id, func(r rune) bool { return r < '!' || r > '~' }) < 0
}

var secret = text.Pattern(`/(archives|api/v2/uploads|api/v2/logs)/[^/]+`)

// logged gives each request an ID, taken from its header or made, and its answer the
// one wrapper, and writes one record and one span when it has been answered.
func logged(h http.Handler, l *slog.Logger, t tracer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		id := r.Header.Get(RequestID)
		if !validID(id) {
			id = rand.Text()
			r.Header.Set(RequestID, id)
		}
		w.Header().Set(RequestID, id)
		out := NewResponse(w)
		defer out.limit() // for what net/http still has in its buffer
		if !t.on() && !l.Enabled(r.Context(), slog.LevelInfo) {
			h.ServeHTTP(out, r)
			return
		}
		path := SafePath(r.URL.Path)
		r, span := t.start(r, id, path)
		defer span.End()
		h.ServeHTTP(out, r)
		answered(span, r, out)
		l.LogAttrs(r.Context(), slog.LevelInfo, "request",
			slog.String("method", r.Method), slog.String("path", path),
			slog.Int("status", cmp.Or(out.status, http.StatusOK)), slog.Int64("bytes", out.written),
			slog.Duration("took", time.Since(begin)), slog.String("remote", r.RemoteAddr), slog.String("request_id", id))
	})
}

// SafePath is a path as logs may show it: the token in the address of an archive,
// an upload or a log is a right in itself.
func SafePath(p string) string {
	if !strings.Contains(p, "/archives/") && !strings.Contains(p, "/api/v2/") {
		return p // most have none, and are asked often
	}
	return secret().ReplaceAllString(p, "/$1/-")
}
