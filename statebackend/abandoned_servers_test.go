// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
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
				h := tc.server(newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{}))
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

// TestRecordReplaced reads a record that another client has replaced and removed
// since it was listed.
//
// Shows: cloud 27
func TestRecordReplaced(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	before := func() time.Time { return time.Now().Add(-2 * time.Hour) }
	old := mustRecord(t, newStore(t, host, nil, statebackend.Options{Now: before}), "prod", func(r *statebackend.Record) { r.Description = "one" })
	l := mustListing(t, newStore(t, host, nil, statebackend.Options{}))
	next := mustRecord(t, newStore(t, host, nil, statebackend.Options{}), "prod", func(r *statebackend.Record) { r.Description = "two" })
	if tags := recordTags(t, newStore(t, host, nil, statebackend.Options{})); len(tags) != 1 || tags[0] == old.Tag {
		t.Fatalf("the old record is still there: %v", tags)
	}
	r, err := l.Record(t.Context(), "prod")
	if err != nil || r == nil || r.Tag != next.Tag {
		t.Errorf("record %+v, %v, want %s", r, err, next.Tag)
	}
	if ok, err := l.Exists(t.Context(), "prod"); !ok || err != nil {
		t.Errorf("exists: %t, %v", ok, err)
	}
}

// TestWorkspaceUnread: an object with wrong bytes never counts as absent.
func TestWorkspaceUnread(t *testing.T) {
	t.Run("record", func(t *testing.T) {
		host := ocitest.New(t, ocitest.Quirks{})
		mustRecord(t, newStore(t, host, nil, statebackend.Options{}), "prod", func(r *statebackend.Record) { r.Description = "one" })
		f := &ocitest.Fault{Match: ocitest.On("GET", "manifest"), Do: ocitest.Corrupt, Times: -1}
		if ok, err := mustListing(t, newStore(t, host, f, statebackend.Options{})).Exists(t.Context(), "prod"); ok || !errors.Is(err, oci.ErrCorrupt) || f.Seen() == 0 {
			t.Errorf("exists: %t, %v", ok, err)
		}
	})
	t.Run("state", func(t *testing.T) {
		s := newStore(t, ocitest.New(t, ocitest.Quirks{}), nil, statebackend.Options{})
		r := mustRecord(t, s, "other", func(r *statebackend.Record) { r.Description = "one" })
		m := must.Get(s.Repo().Fetch(t.Context(), r.Tag))(t)
		tag := format.StateTag{Kind: format.StateNumbered, Fragment: format.StateFragment("prod"), N: 1}
		if err := s.Repo().PutTag(t.Context(), tag.String(), m); err != nil { // the form that a later okara may write
			t.Fatal(err)
		}
		for range 2 { // the second time from memory
			if ok, err := mustListing(t, s).Exists(t.Context(), "prod"); ok || !errors.Is(err, oci.ErrCorrupt) {
				t.Errorf("exists: %t, %v", ok, err)
			}
		}
	})
}
