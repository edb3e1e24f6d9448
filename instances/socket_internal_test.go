// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestRunRegistry shows what the child of a run may do in the built-in registry.
func TestRunRegistry(t *testing.T) {
	keys := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}))(t)
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &runRegistry{
		registry: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
		layout:   addr.Layout{Prefix: "p"}, keys: keys, now: func() time.Time { return now },
	}
	const own, other = "p/instances/sandbox/vpc/k7m2p9x4tq", "p/instances/sandbox/vpc/a234567890"
	good := must.Get(s.token(own, now.Add(time.Hour)))(t)
	old := must.Get(s.token(own, now))(t)
	login := must.Get(keys.Seal("login token", socketToken{own, now.Add(time.Hour).Unix()}))(t)
	for _, tt := range []struct {
		name, method, target, authorization string
		want                                int
	}{
		{"root", "GET", "/v2/", "Bearer " + good, 418},
		{"own tag", "PUT", "/v2/" + own + "/manifests/run-k7m2p9x4tq-1-1", "Bearer " + good, 418},
		{"own upload", "POST", "/v2/" + own + "/blobs/uploads/", "bearer " + good, 418},
		{"own, deleted", "DELETE", "/v2/" + own + "/manifests/x", "Bearer " + good, 418},
		{"the ledger", "GET", "/v2/p/ledger/tags/list", "Bearer " + good, 418},
		{"a later ledger", "HEAD", "/v2/p/ledger-3/manifests/x", "Bearer " + good, 418},
		{"write the ledger", "PUT", "/v2/p/ledger/manifests/x", "Bearer " + good, 403},
		{"another instance", "GET", "/v2/" + other + "/tags/list", "Bearer " + good, 403},
		{"a state", "GET", "/v2/p/state/shop/tags/list", "Bearer " + good, 403},
		{"a module", "GET", "/v2/p/modules/net/vpc/aws/tags/list", "Bearer " + good, 403},
		{"mount from another", "POST", "/v2/" + own + "/blobs/uploads/?mount=sha256:x&from=" + other, "Bearer " + good, 403},
		{"the catalog of all", "GET", "/v2/_catalog", "Bearer " + good, 403},
		{"through a folder", "GET", "/v2/" + own + "/../a234567890/tags/list", "Bearer " + good, 403},
		{"elsewhere", "GET", "/metrics", "Bearer " + good, 403},
		{"no token", "GET", "/v2/", "", 401},
		{"as a password", "GET", "/v2/", "Basic " + good, 401},
		{"expired", "GET", "/v2/", "Bearer " + old, 401},
		{"of another purpose", "GET", "/v2/", "Bearer " + login, 401},
		{"changed", "GET", "/v2/", "Bearer " + good[:len(good)-2] + "AA", 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, "http://okara.invalid"+tt.target, nil)
			if tt.authorization != "" {
				r.Header.Set("Authorization", tt.authorization)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("got %d, want %d", w.Code, tt.want)
			}
			if challenge := w.Header().Get("WWW-Authenticate"); (challenge != "") != (tt.want == 401) {
				t.Errorf("challenge %q", challenge)
			}
		})
	}
}
