// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// An apply's requests are records and spans without any part of the state, which small manifests
// repeat.
func TestTelemetryHasNoState(t *testing.T) {
	const secret = "hunter2-of-the-state"
	spans := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	out, err := httpserve.Transport(httpserve.TransportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	refused := &ocitest.Fault{Base: out, Nth: 2, Do: ocitest.Status(http.StatusForbidden, -1), Match: func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/state-prod-v")
	}}
	count := &ocitest.Count{Base: refused}
	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r := must.Get(oci.OpenRepo(ocitest.New(t, ocitest.Quirks{})+"/infra/state", oci.Options{Transport: count, PlainHTTP: true, Logger: logger}))(t)
	s := statebackend.New(r, statebackend.Options{Compression: "none", Logger: logger})
	l := mustLock(t, s, "prod", "a")
	mustPut(t, l, []byte(secret))
	_, err = l.Put(t.Context(), []byte(secret+" again"))
	if err == nil {
		t.Error("a version that was refused is acknowledged")
	}
	mustUnlock(t, l)
	if got := mustGet(t, s, "prod"); got != secret {
		t.Fatalf("state: %q", got)
	}

	requests, records := sum(count.Take()), strings.Count(text.String(), `msg="registry request"`)
	if records != requests {
		t.Errorf("%d records of %d requests", records, requests)
	}
	fmt.Fprintln(&text, err)
	sent := 0
	for _, span := range spans.Ended() {
		if span.SpanKind() != oteltrace.SpanKindClient {
			continue // of the registry in this process
		}
		sent++
		fmt.Fprintln(&text, span.Name(), span.Attributes(), span.Events(), span.Status())
	}
	if sent != requests-1 { // the refused one did not reach the transport
		t.Errorf("%d spans of %d requests", sent, requests-1)
	}
	if strings.Contains(text.String(), secret) {
		t.Errorf("the state is in:\n%s", text.String())
	}
}
