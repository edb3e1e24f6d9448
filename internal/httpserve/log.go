// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

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

// newID returns an ID as rand.Text of crypto/rand does, which asks the system for each: an ID is no secret.
func newID() string {
	id := make([]byte, 26)
	for i := range id {
		id[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[rand.IntN(32)]
	}
	return string(id)
}

var secret = text.Pattern(`/(archives|api/v2/uploads|api/v2/logs)/[^/]+`)

// logRequests gives each request an ID, taken from its header or generated, wraps its answer
// in a [Response], and writes one record and one span once it has been answered.
func logRequests(h http.Handler, l *slog.Logger, t tracer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		id := r.Header.Get(RequestID)
		if !validID(id) {
			id = newID()
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

// tracer makes a request's span: otelhttp would record secret paths and invented addresses.
type tracer struct{ trace.Tracer }

func newTracer(p trace.TracerProvider) tracer {
	if p == nil {
		p = noop.NewTracerProvider()
	}
	return tracer{p.Tracer("github.com/seed-141914ff/okara/internal/httpserve")}
}

func (t tracer) isRecording() bool {
	_, off := t.Tracer.(noop.Tracer)
	return !off
}

// startSpan begins a span below the request's trace context, with OpenTelemetry's names for HTTP.
func (t tracer) startSpan(r *http.Request, id, path string) (*http.Request, trace.Span) {
	if !t.isRecording() {
		return r, noop.Span{}
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	peer, _, _ := net.SplitHostPort(r.RemoteAddr) // empty if the address has no port
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.Start(ctx, "HTTP", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", r.Method), attribute.String("url.scheme", scheme), attribute.String("url.path", path),
		attribute.String("network.peer.address", peer), attribute.String("user_agent.original", r.UserAgent()),
		attribute.String("okara.request_id", id)))
	return r.WithContext(ctx), span
}

// completeSpan adds the matched route, the status and size.
func completeSpan(span trace.Span, r *http.Request, w *Response) {
	if !span.IsRecording() {
		return
	}
	if i := strings.IndexByte(r.Pattern, '/'); i >= 0 {
		span.SetName(r.Method + " " + r.Pattern[i:])
		span.SetAttributes(attribute.String("http.route", r.Pattern[i:]))
	}
	status := cmp.Or(w.status, http.StatusOK)
	span.SetAttributes(attribute.Int("http.response.status_code", status), attribute.Int64("http.response.body.size", w.written))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
}
