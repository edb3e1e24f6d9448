// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/oci"
)

// TestSentinels answers the PUT of a tag, or another request if the case names
// one, with answers of real registries.
func TestSentinels(t *testing.T) {
	code := func(codes ...string) string {
		var list []string
		for _, c := range codes {
			list = append(list, `{"code":"`+c+`","message":"the registry's words"}`)
		}
		return `{"errors":[` + strings.Join(list, ",") + `]}`
	}
	for _, test := range []struct {
		name   string
		status int
		body   string
		delete bool
		want   error // nil: none
	}{
		{"Harbor, immutable", 412, code("PRECONDITION"), false, oci.ErrExists},
		{"ECR, immutable", 400, code("TAG_INVALID"), false, oci.ErrExists},
		{"conflict", 409, code("CONFLICT"), false, oci.ErrExists},
		{"Harbor, no delete of tags", 405, code("UNSUPPORTED"), true, oci.ErrUnsupported},
		{"a cache of distribution", 405, code("UNSUPPORTED"), false, oci.ErrUnsupported},
		{"distribution 2.8, no delete of tags", 400, code("DIGEST_INVALID"), true, oci.ErrUnsupported},
		{"not found says unsupported", 404, code("UNSUPPORTED"), true, oci.ErrUnsupported},
		{"not there", 404, code("MANIFEST_UNKNOWN"), true, oci.ErrNotFound},
		{"denied", 403, code("DENIED"), false, oci.ErrDenied},
		{"denied by 401", 401, code("DENIED"), false, oci.ErrUnauthenticated},
		{"quota", 429, code("TOOMANYREQUESTS"), false, oci.ErrRateLimited},
		{"zot, too large", 413, code("SIZE_INVALID"), false, oci.ErrTooLarge},
		{"missing blob", 400, code("MANIFEST_BLOB_UNKNOWN"), false, nil},
		{"wrong digest", 400, code("DIGEST_INVALID"), false, oci.ErrCorrupt},
		{"distribution 2.8, link half written", 400, code("DIGEST_INVALID", "MANIFEST_BLOB_UNKNOWN"), false, oci.ErrUnavailable},
		{"not implemented", 501, "", false, oci.ErrUnsupported},
		{"server error", 500, "oops", false, oci.ErrUncertain},
		{"gateway", 504, "", true, oci.ErrUncertain},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			}))
			t.Cleanup(s.Close)
			r := newRepo(t, s.Listener.Addr().String(), oci.Options{})
			var err error
			if test.delete {
				err = r.Untag(t.Context(), "v1")
			} else {
				err = r.PutTag(t.Context(), "v1", newArtifact(t, "x").Root)
			}
			e, ok := errors.AsType[*oci.ResponseError](err)
			if !ok || e.Status != test.status || !strings.HasSuffix(e.URL, "/v2/test/repo/manifests/v1") {
				t.Fatalf("got %v, want a ResponseError with %d", err, test.status)
			}
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("is not %q: %v", test.want, err)
			}
			if says := strings.HasSuffix(err.Error(), "this registry does not accept writes"); says != (test.status == 405 && !test.delete) {
				t.Errorf("says that the registry takes no writes: %v", err)
			}
			if strings.Contains(test.body, "words") && len(e.Codes) == 1 && e.Message != "the registry's words" {
				t.Errorf("message %q", e.Message)
			}
			for _, sentinel := range []error{
				oci.ErrNotFound, oci.ErrExists, oci.ErrUnauthenticated, oci.ErrDenied, oci.ErrTooLarge,
				oci.ErrRateLimited, oci.ErrCorrupt, oci.ErrUnsupported, oci.ErrUncertain,
			} {
				if errors.Is(err, sentinel) != (sentinel == test.want) {
					t.Errorf("is %q: %v, want %v", sentinel, errors.Is(err, sentinel), test.want)
				}
			}
		})
	}
}

func TestForeignText(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "red \x1b[31malert\x1b[0m\r\n"+strings.Repeat("long ", 10_000))
	}))
	t.Cleanup(s.Close)
	_, err := newRepo(t, s.Listener.Addr().String(), oci.Options{}).Snapshot(t.Context())
	if text := err.Error(); len(text) > 1000 || strings.ContainsAny(text, "\x1b\r\n") || !strings.Contains(text, "alert") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}
