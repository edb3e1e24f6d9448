// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// newCollector starts an OTLP collector that stores what it gets. A traced command runs in a
// separate process, since the tracer is global.
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

// TestTracing shows that a command sends spans of its registry requests to an
// OTLP collector, without the password that it uses.
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

// TestServeTracing sends requests that belong to a trace through a server in front of a
// registry: the server's spans and those of its requests to the registry, which also gets the
// trace context, belong to that trace, and no secret leaves the process. Without a
// collector there are no spans and no trace context.
//
// Shows: opendepot 18
func TestServeTracing(t *testing.T) {
	const trace, secret = "0af7651916cd43dd8448eb211c80319c", "s3cret-password"
	var mu sync.Mutex
	contexts := map[string]bool{} // trace contexts that the registry got, by trace
	inner := ocitest.Handler(t, ocitest.Quirks{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if part := strings.Split(r.Header.Get("Traceparent"), "-"); len(part) == 4 {
			mu.Lock()
			contexts[part[1]] = true
			mu.Unlock()
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(upstream.Close)
	tokens := newFile(t, "tokens", serveToken+" admin:*:**\n")
	for prefix, traced := range map[string]bool{"/on": true, "/off": false} {
		collector, received := newCollector(t)
		env := []string{"OKARA_USERNAME=ci", "OKARA_PASSWORD=" + secret}
		if traced {
			env = append(env, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector, "OTEL_SERVICE_NAME=front")
		}
		clear(contexts)
		p := newServeProcess(t, env, "--registry", strings.TrimPrefix(upstream.URL, "http://")+prefix, "--token-file", tokens)
		client := &http.Client{Transport: traceparent("00-" + trace + "-b7ad6b7169203331-01")}
		link, _ := p.publish(t, client, 1000)
		for _, path := range []string{"/v1/modules/net/vpc/aws/versions", "/v1/modules/net/vpc/none/versions", "/login/callback?code=" + secret} {
			status(t, client, http.MethodGet, p.url+path, serveToken)
		}
		p.signal(t, syscall.SIGTERM)
		if err := p.cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, p.log)
		}
		spans := received()
		if !traced {
			if spans != "" || len(contexts) > 0 {
				t.Errorf("traced without being told to: %q, contexts %v", spans, contexts)
			}
			continue
		}
		id := must.Get(hex.DecodeString(trace))(t)
		for _, want := range []string{
			"front", "GET /v1/modules/{namespace}/{name}/{system}/versions", "GET /archives/{token}/{rest...}", "/archives/-/", "/v2/on/modules/net/vpc/aws/tags/list", string(id),
		} {
			if !strings.Contains(spans, want) {
				t.Errorf("the spans do not name %q", want)
			}
		}
		if !contexts[trace] {
			t.Errorf("the registry got the trace contexts %v, not that of the client", contexts)
		}
		token := strings.Split(link, "/")[4]
		for _, s := range []string{secret, serveToken, token, token[strings.LastIndexByte(token, '.')+1:]} {
			if bytes.Contains([]byte(spans+p.log.String()), []byte(s)) {
				t.Errorf("%s is in the spans or the log", s)
			}
		}
	}
}

type traceparent string

func (h traceparent) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", string(h))
	r.Header.Set("Authorization", "Bearer "+serveToken)
	return http.DefaultTransport.RoundTrip(r)
}
