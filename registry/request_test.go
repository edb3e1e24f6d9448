// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/statebackend"
)

// TestRequestID: answer and log have it whenever something fails.
func TestRequestID(t *testing.T) {
	var log lines
	broken := &ocitest.Fault{Times: -1, Do: ocitest.Status(http.StatusInternalServerError, 0), Match: ocitest.On("GET", "manifest")}
	f := newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), broken, func(o *server.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Stores = func(context.Context, string) (*statebackend.Store, error) { panic("oh") }
	})
	archive := f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	for _, tt := range []struct {
		path   string
		status int
		logged bool
	}{
		{"/v1/modules/net/vpc/none/versions", 404, false},
		{"/v1/modules//x", 404, false},
		{"/nothing", 404, false},
		{"/v1/modules/net/vpc/aws/1.0.0/download", 502, true},
		{"/archives/a.1.b/acme/modules/net/vpc/aws/" + hexSum(archive) + "/x.zip", 403, false},
		{"/state/shop/default", 500, true},
	} {
		r := httptest.NewRequest(http.MethodGet, tt.path, nil)
		r.Header.Set("X-Request-Id", "proxy:1/2")
		w := httptest.NewRecorder()
		w.Header().Set("X-Request-Id", "proxy:1/2") // as the server in front of the handler does
		f.handler.ServeHTTP(w, r)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), `"request_id":"proxy:1/2"`) || w.Header().Get("X-Request-Id") != "proxy:1/2" {
			t.Errorf("%s: %d %v %s, want %d with the id", tt.path, w.Code, w.Header(), w.Body, tt.status)
		}
		if text := log.take(); strings.Contains(text, "proxy:1/2") != tt.logged {
			t.Errorf("%s: the log says %q", tt.path, text)
		}
	}
}

// TestClientLeaves: a cancelled request is no failure.
func TestClientLeaves(t *testing.T) {
	var log lines
	release := make(chan struct{})
	defer close(release)
	ctx, leave := context.WithCancel(t.Context())
	hang := &ocitest.Fault{Times: -1, Match: ocitest.On("GET", "tags"), Do: func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		leave()
		<-release // the answer for others, who may also wait for it
		return ocitest.FailBefore(r, nil)
	}}
	f := newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), hang, func(o *server.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/modules/net/vpc/aws/versions", nil))
	if text := log.take(); w.Code != 499 || strings.Contains(text, "ERROR") {
		t.Errorf("%d, the log says %q", w.Code, text)
	}
}
