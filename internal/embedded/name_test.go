// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestLongName: too long names get the specification's code.
func TestLongName(t *testing.T) {
	h := must.Get(embedded.New(t.TempDir(), embedded.Options{}))(t)
	t.Cleanup(func() { must.Succeed(t, h.Close()) })
	for _, at := range []string{"GET tags/list", "PUT manifests/1.0.0", "POST blobs/uploads/", "HEAD manifests/1.0.0"} {
		method, path, _ := strings.Cut(at, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/v2/a/"+strings.Repeat("b", 254)+"/"+path, strings.NewReader("{}")))
		if w.Code != http.StatusBadRequest || method != http.MethodHead && !strings.Contains(w.Body.String(), "NAME_INVALID") {
			t.Errorf("%s: %d %s", at, w.Code, w.Body)
		}
	}
}
