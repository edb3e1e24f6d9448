// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// flushTime bounds how long the end of a command waits for the collector.
const flushTime = 5 * time.Second

// startTracing sends a span of every HTTP request, incoming and outgoing, to the collector
// named by OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, over
// OTLP/HTTP. Without these variables nothing is traced, and no trace context is sent. stop
// sends the remaining spans.
//
// Reference: OpenTelemetry environment variable specification.
func (a *App) startTracing(ctx context.Context) (stop func(), err error) {
	off := a.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && a.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == ""
	if off || a.Getenv("OTEL_SDK_DISABLED") == "true" || a.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return func() {}, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	name := a.Getenv("OTEL_SERVICE_NAME")
	name = cmp.Or(name, "okara")
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(resource.NewSchemaless(
		attribute.String("service.name", name), attribute.String("service.version", a.Version))))
	a.Tracer = provider
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{}) // no baggage: it might hold what a registry should not see
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			a.Note("sending traces: %v", err)
		}
	}, nil
}
