// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestPublishDenied publishes to a registry that allows all reads and no writes: one message
// with the registry's text, a hint, exit code 5, no tag.
func TestPublishDenied(t *testing.T) {
	backing := must.Get(embedded.New("", embedded.Options{}))(t)
	defer backing.Close()
	var denied, tags atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			backing.ServeHTTP(w, r)
			return
		}
		denied.Add(1)
		if strings.Contains(r.URL.Path, "/manifests/") {
			tags.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"errors":[{"code":"DENIED","message":"this project is read-only"}]}`) // a truncated answer fails the test
	}))
	defer srv.Close()
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte("# x\n"), 0o600))
	var out, errOut bytes.Buffer
	getenv := func(k string) string { return map[string]string{"HOME": t.TempDir()}[k] }
	host := strings.TrimPrefix(srv.URL, "http://")
	code := run(t.Context(), []string{"publish", "module", dir, "net/vpc/aws", "1.0.0", "--registry", host}, strings.NewReader(""), &out, &errOut, getenv)
	if code != cli.ExitDenied || out.Len() != 0 {
		t.Errorf("exit code %d, stdout %q", code, out.String())
	}
	text := errOut.String()
	if strings.Count(text, "this project is read-only") != 1 || strings.Count(text, "\nhint: ") != 1 {
		t.Errorf("stderr: %s", text)
	}
	if denied.Load() == 0 || tags.Load() != 0 {
		t.Errorf("%d refusals, %d of them of manifests", denied.Load(), tags.Load())
	}
}
