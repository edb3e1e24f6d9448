// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"cmp"
	"net"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

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
