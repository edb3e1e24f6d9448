// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestTracing shows that a command sends spans of its registry requests to an
// OTLP collector, without the password that it uses. The command is a process of
// its own, since the tracer is global.
func TestTracing(t *testing.T) {
	var mu sync.Mutex
	var received bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&received, r.Body) // a cut body fails the test below
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
	host := ocitest.New(t, ocitest.Quirks{})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	okara := filepath.Join(t.TempDir(), "okara") // by this name the test binary is the program
	if err := os.Symlink(exe, okara); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(okara, "state", "list", host+"/state/shop")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL,
		"OKARA_REGISTRY="+host, "OKARA_USERNAME=ci", "OKARA_PASSWORD=s3cret-password")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	spans := received.String()
	for _, want := range []string{"okara", "/v2/state/shop/tags/list"} {
		if !strings.Contains(spans, want) {
			t.Errorf("the spans do not name %q", want)
		}
	}
	if strings.Contains(spans, "s3cret-password") {
		t.Error("the spans hold the password")
	}
}
