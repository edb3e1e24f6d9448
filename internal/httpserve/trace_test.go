// SPDX-License-Identifier: Apache-2.0

package httpserve_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestServerSpans follows a trace through the server; no span has a part of the token, wherever it
// was sent.
//
// Shows: registries 6
func TestServerSpans(t *testing.T) {
	const trace1, parent1 = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	recorder := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(recorder))
	tracer, propagator := otel.GetTracerProvider(), otel.GetTextMapPropagator()
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t.Cleanup(func() { otel.SetTracerProvider(tracer); otel.SetTextMapPropagator(propagator) })

	var out string
	behind := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { out = r.Header.Get("Traceparent") }))
	t.Cleanup(behind.Close)
	client := newClient(t, httpserve.TransportOptions{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /archives/{token}/{rest...}", func(w http.ResponseWriter, r *http.Request) {
		r, err := http.NewRequestWithContext(r.Context(), http.MethodGet, behind.URL+"/v2/x/blobs/y", nil)
		if err != nil {
			t.Error(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Error(err)
		}
		resp.Body.Close()
		w.WriteHeader(http.StatusBadGateway)
	})
	s, stop, done := newServer(t, httpserve.Options{Handler: mux, Tracer: provider})
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/archives/SECRET/repo/f.zip?code=SECRET", nil))(t)
	for name, value := range map[string]string{
		"Authorization": "Bearer SECRET", "Cookie": "SECRET", "X-Forwarded-For": "192.0.2.1", "X-Request-Id": "proxy:1/2",
		"Traceparent": "00-" + trace1 + "-" + parent1 + "-01", "Baggage": "user=SECRET",
	} {
		req.Header.Set(name, value)
	}
	resp := must.Get((&http.Client{Transport: &http.Transport{}}).Do(req))(t)
	resp.Body.Close()
	stop()
	<-done // the span ends after the answer

	var server, call trace.ReadOnlySpan
	for _, span := range recorder.Ended() {
		if span.SpanKind().String() == "server" {
			server = span
		} else {
			call = span
		}
	}
	if len(recorder.Ended()) != 2 || server == nil || call == nil {
		t.Fatalf("%d spans, want one of the server and one of its request", len(recorder.Ended()))
	}
	if got := server.Parent(); got.TraceID().String() != trace1 || got.SpanID().String() != parent1 {
		t.Errorf("the parent of the server's span is %s of %s", got.SpanID(), got.TraceID())
	}
	if call.Parent().SpanID() != server.SpanContext().SpanID() {
		t.Error("the span of the request to what is behind is no child of the server's")
	}
	must.Equal(t, "sent on", out, fmt.Sprintf("00-%s-%s-01", trace1, call.SpanContext().SpanID()))
	attributes := map[string]string{}
	for _, a := range server.Attributes() {
		attributes[string(a.Key)] = a.Value.String()
	}
	if diff := cmp.Diff(map[string]string{
		"http.request.method": "GET", "http.route": "/archives/{token}/{rest...}", "url.path": "/archives/-/repo/f.zip", "url.scheme": "http", "network.peer.address": "127.0.0.1",
		"http.response.status_code": "502", "http.response.body.size": "0", "okara.request_id": "proxy:1/2", "user_agent.original": "Go-http-client/1.1",
	}, attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if server.Name() != "GET /archives/{token}/{rest...}" || server.Status().Code.String() != "Error" {
		t.Errorf("name %q, status %v", server.Name(), server.Status())
	}
	if all := fmt.Sprintf("%+v %+v", tracetest.SpanStubsFromReadOnlySpans(recorder.Ended()), out); strings.Contains(all, "SECRET") {
		t.Errorf("a secret is in %s", all)
	}
}
