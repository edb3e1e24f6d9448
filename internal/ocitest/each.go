// SPDX-License-Identifier: Apache-2.0

package ocitest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cuelabs.dev/go/oci/ociregistry"
	"cuelabs.dev/go/oci/ociregistry/ocimem"
	"cuelabs.dev/go/oci/ociregistry/ociserver"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
)

// Each runs f on every registry in process: distribution in memory, with each quirk with which
// okara works, and cue-labs' ociregistry, which has a referrers API. For quirks that forbid locking
// use [New].
func Each(t *testing.T, f func(t *testing.T, host string)) {
	t.Helper()
	EachHandler(t, func(t *testing.T, h http.Handler) { f(t, serveHandler(t, h)) })
}

// EachHandler is [Each] without listeners, for synctest bubbles.
func EachHandler(t *testing.T, f func(t *testing.T, h http.Handler)) {
	t.Helper()
	for _, v := range []struct {
		name string
		q    Quirks
	}{
		{"distribution", Quirks{}},
		{"no-delete", Quirks{NoDelete: true}},
		{"digest-delete-only", Quirks{DigestDeleteOnly: true}},
		{"tag-delete-only", Quirks{TagDeleteOnly: true}},
		{"page-size-2", Quirks{PageSize: 2}},
		{"no-digest-header", Quirks{NoDigestHeader: true}},
		{"absolute-links", Quirks{PageSize: 3, AbsoluteLinks: true}},
	} {
		t.Run(v.name, func(t *testing.T) { f(t, Handler(t, v.q)) })
	}
	t.Run("ociregistry", func(t *testing.T) { f(t, Memory()) })
}

// New starts distribution in memory with the quirks, at "host:port".
func New(t testing.TB, q Quirks) string {
	t.Helper()
	return serveHandler(t, Handler(t, q))
}

// Handler returns the registry of [New] without a listener.
func Handler(t testing.TB, q Quirks) http.Handler {
	t.Helper()
	h := must.Get(embedded.New("", embedded.Options{DisableDelete: q.NoDelete}))(t)
	return q.wrap(h)
}

// Memory returns ociregistry in memory. It refuses missing blobs by 500 where the specification has
// MANIFEST_BLOB_UNKNOWN.
func Memory() http.Handler {
	return ociserver.New(ocimem.New(), &ociserver.Options{
		WriteError: func(w http.ResponseWriter, _ *http.Request, err error) {
			if text := err.Error(); strings.HasSuffix(text, " not found") && (strings.Contains(text, "blob for ") || strings.Contains(text, "manifest for ")) {
				err = ociregistry.ErrManifestBlobUnknown
			}
			_ = ociregistry.WriteError(w, err) // the client is gone
		},
	})
}

func serveHandler(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}
