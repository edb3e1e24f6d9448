// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

// Each server gets past a claim that was never acknowledged. The http backend answers at once, its
// observations lasting from request to request; the facade waits itself.
func TestAbandonedClaimThroughServers(t *testing.T) {
	const lockInfo = `{"ID":"a","Who":"me"}`
	for _, tc := range []struct {
		name   string
		server func(*statebackend.Store) http.Handler
		method string
		path   string
		bodies []string
		want   []int
	}{
		{
			"http", func(s *statebackend.Store) http.Handler {
				return httpbackend.New(httpbackend.Options{Open: func(context.Context, string) (*statebackend.Store, error) { return s, nil }})
			},
			"LOCK", "/state/app/prod", []string{lockInfo, lockInfo, lockInfo, `{"ID":"b","Who":"me"}`}, []int{423, 423, 423, 200},
		},
		{
			"s3", func(s *statebackend.Store) http.Handler {
				return s3facade.New(s3facade.Options{AccessKey: "key", Open: func(context.Context, s3facade.Ref) (*statebackend.Store, error) { return s, nil }})
			},
			http.MethodPut, "/" + s3facade.Bucket + "/env:/prod/" + abandonedHost + "/infra/state/state.tflock", []string{lockInfo}, []int{200},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
			synctest.Test(t, func(t *testing.T) {
				g.Add("infra/state", abandonedClaim)
				h := tc.server(newStore(t, abandonedHost, direct{g}, statebackend.Options{}))
				for i, body := range tc.bodies {
					r := httptest.NewRequest(tc.method, tc.path, strings.NewReader(body))
					r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request")
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					if w.Code != tc.want[i] {
						t.Fatalf("answer %d: %d, want %v until a minute has passed: %s", i, w.Code, tc.want, w.Body)
					}
					if w.Code == http.StatusLocked && !strings.Contains(w.Body.String(), `"ID":"`+abandonedX+`"`) {
						t.Errorf("holder: %s", w.Body)
					}
					time.Sleep(25 * time.Second)
				}
			})
		})
	}
}
