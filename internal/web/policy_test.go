// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/web"
)

// TestContentPolicy checks that the policy of pages has the hosts, errors included.
//
// Shows: pages 9
func TestContentPolicy(t *testing.T) {
	keys := must.Get(keyring.New([]keyring.Key{{Secret: make([]byte, 32)}}))(t)
	guard := must.Get(access.New(access.Options{Keyring: keys}))(t)
	if _, err := web.New(web.Options{ImageHosts: []string{"*"}}); err == nil {
		t.Error("the pages take images from everywhere")
	}
	pages := must.Get(web.New(web.Options{Kit: service.New(service.Options{Guard: guard, Logger: slog.New(slog.DiscardHandler)}), ImageHosts: []string{"img.example.com"}}))(t)
	for path, status := range map[string]int{"/ui/me": http.StatusOK, "/ui/none": http.StatusNotFound} {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if got := w.Header().Get("Content-Security-Policy"); w.Code != status || !strings.Contains(got, "img-src 'self' https://img.example.com; connect-src 'self'") {
			t.Errorf("%s is %d with %q", path, w.Code, got)
		}
	}
}
