// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"crypto/rand"
	"log/slog"
	"net/http"

	"github.com/felixge/httpsnoop"

	"github.com/seed-141914ff/okara/internal/text"
)

// RequestID is the header that names a request in logs, here and at a proxy. A
// [Server] sees to it that every request has one.
const RequestID = "X-Request-Id"

var (
	validID = text.Pattern(`^[!-~]{1,128}$`) // what prints, and no space
	secret  = text.Pattern(`/(archives|api/v2/uploads|api/v2/logs)/[^/]+`)
)

// logged gives each request an ID, taken from its header or made, and writes
// one record and one span when it has been answered.
func logged(h http.Handler, l *slog.Logger, t tracer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(RequestID)
		if !validID().MatchString(id) {
			id = rand.Text()
			r.Header.Set(RequestID, id)
		}
		w.Header().Set(RequestID, id)
		path := SafePath(r.URL.Path)
		r, span := t.start(r, id, path)
		defer span.End()
		m := httpsnoop.CaptureMetrics(h, w, r)
		answered(span, r, m)
		l.LogAttrs(r.Context(), slog.LevelInfo, "request",
			slog.String("method", r.Method), slog.String("path", path),
			slog.Int("status", m.Code), slog.Int64("bytes", m.Written),
			slog.Duration("took", m.Duration), slog.String("remote", r.RemoteAddr), slog.String("request_id", id))
	})
}

// SafePath is a path as logs may show it: the token in the address of an archive,
// an upload or a log is a right in itself.
func SafePath(p string) string { return secret().ReplaceAllString(p, "/$1/-") }
