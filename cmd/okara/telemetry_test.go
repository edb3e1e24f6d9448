// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/ocitest"
)

// newCollector is an OTLP collector, for processes.
func newCollector(t *testing.T) (url string, received func() string) {
	t.Helper()
	var b lockedBuffer
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&b, r.Body) // a truncated body fails the test
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(collector.Close)
	return collector.URL, b.String
}

// TestTracing: spans, without the password.
func TestTracing(t *testing.T) {
	collector, received := newCollector(t)
	host := ocitest.New(t, ocitest.Quirks{})
	cmd := exec.CommandContext(t.Context(), "okara", "state", "list", host+"/state/shop")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "OTEL_EXPORTER_OTLP_ENDPOINT="+collector,
		"OKARA_REGISTRY="+host, "OKARA_USERNAME=ci", "OKARA_PASSWORD=s3cret-password")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"okara", "/v2/state/shop/tags/list"} {
		if !strings.Contains(received(), want) {
			t.Errorf("the spans do not name %q", want)
		}
	}
	if strings.Contains(received(), "s3cret-password") {
		t.Error("the spans hold the password")
	}
}

type traceparent string

func (h traceparent) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", string(h))
	r.Header.Set("Authorization", "Bearer "+serveToken)
	return http.DefaultTransport.RoundTrip(r)
}
