// SPDX-License-Identifier: Apache-2.0

package httpserve_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(recorder)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	var query string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { query = r.URL.RawQuery }))
	t.Cleanup(s.Close)
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v2/x?_state=SECRET", nil))(t)
	req.Header.Set("Authorization", "Bearer SECRET")
	resp := must.Get(newClient(t, httpserve.TransportOptions{}).Do(req))(t)
	resp.Body.Close()
	if query != "_state=SECRET" || resp.Request.URL.RawQuery != query {
		t.Errorf("the server saw the query %q, the answer's request has %q", query, resp.Request.URL.RawQuery)
	}
	spans := recorder.Ended()
	if len(spans) != 1 {
		t.Fatalf("%d spans, want 1", len(spans))
	}
	path := false
	for _, a := range spans[0].Attributes() {
		path = path || strings.HasSuffix(a.Value.AsString(), "/v2/x")
		if strings.Contains(a.Value.AsString(), "SECRET") {
			t.Errorf("attribute %s = %s", a.Key, a.Value.AsString())
		}
	}
	if !path {
		t.Errorf("no attribute with the path in %v", spans[0].Attributes())
	}
}

func TestClientCertificate(t *testing.T) {
	dir := t.TempDir()
	ca, cfg := must.GetBoth(httpserve.SelfSigned(dir, []string{"127.0.0.1"}))(t)
	// The CA's own pair serves as the client's here; any pair would do.
	cert, key := ca, filepath.Join(dir, "ca-key.pem")
	cfg.ClientAuth = tls.RequireAnyClientCert
	s, _, _ := newServer(t, httpserve.Options{TLS: cfg, Handler: http.NotFoundHandler()})
	resp := must.Get(newClient(t, httpserve.TransportOptions{CAFile: ca, ClientCert: cert, ClientKey: key}).Get(s.URL()))(t)
	resp.Body.Close()
	if _, err := newClient(t, httpserve.TransportOptions{CAFile: ca}).Get(s.URL()); err == nil {
		t.Error("answered without a client certificate")
	}
}

func TestInsecure(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	resp := must.Get(newClient(t, httpserve.TransportOptions{Insecure: true}).Get(s.URL))(t)
	resp.Body.Close()
	if _, err := newClient(t, httpserve.TransportOptions{}).Get(s.URL); err == nil {
		t.Error("an unknown certificate was accepted")
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	must.Succeed(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	resp = must.Get(newClient(t, httpserve.TransportOptions{CAFile: file}).Get(s.URL))(t)
	resp.Body.Close()
}

func TestTransportErrors(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must.Succeed(t, os.WriteFile(empty, nil, 0o600))
	for _, test := range []struct {
		name string
		o    httpserve.TransportOptions
		want string
	}{
		{"no CA file", httpserve.TransportOptions{CAFile: "none.pem"}, "no such file"},
		{"nothing in it", httpserve.TransportOptions{CAFile: empty}, "no PEM certificate"},
		{"half a pair", httpserve.TransportOptions{ClientKey: "key.pem"}, "must be set together"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := httpserve.Transport(test.o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestMain sets a proxy that fails all requests; only TestProxy depends on it.
func TestMain(m *testing.M) {
	os.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	os.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	os.Exit(m.Run())
}

func TestProxy(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	c := newClient(t, httpserve.TransportOptions{})
	resp, err := c.Get(strings.Replace(s.URL, "127.0.0.1", "localhost", 1))
	if err != nil {
		t.Fatalf("loopback went to the proxy: %v", err)
	}
	resp.Body.Close()
	if _, err := c.Get("http://registry.example.com/"); err == nil || !strings.Contains(err.Error(), "proxyconnect") && !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("another host did not go to the proxy: %v", err)
	}
}
