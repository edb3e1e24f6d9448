// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// gitHub is GitHub's API in process: tags v1.0.0, v1.1.0 …, and a tree each.
type gitHub struct {
	tags     int
	requests atomic.Int64
	full     atomic.Int64 // answers that cost quota
}

func (g *gitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	g.requests.Add(1)
	if r.Header.Get("If-None-Match") == `"same"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	g.full.Add(1)
	switch {
	case strings.HasSuffix(r.URL.Path, "/tags"):
		w.Header().Set("ETag", `"same"`)
		var tags []string
		for i := range g.tags {
			tags = append(tags, fmt.Sprintf(`{"name":"v1.%d.0","commit":{"sha":"%040x"}}`, i, i))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(tags, ","))
	case strings.Contains(r.URL.Path, "/tarball/"):
		http.Redirect(w, r, "http://"+r.Host+"/download/"+path.Base(r.URL.Path), http.StatusFound)
	case strings.HasPrefix(r.URL.Path, "/download/"):
		writeTree(w, "acme-module-"+path.Base(r.URL.Path), "# "+path.Base(r.URL.Path)+"\n")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// writeTree writes an archive as a forge does, below one directory.
func writeTree(w io.Writer, top, text string) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": path.Base(top)}},
		{Typeflag: tar.TypeDir, Name: top + "/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: top + "/main.tf", Mode: 0o644, Size: int64(len(text))},
	} {
		_ = t.WriteHeader(h) // writes to memory
	}
	_, _ = io.WriteString(t, text)
	_ = t.Close()
	_ = z.Close()
	_, _ = w.Write(b.Bytes())
}

// newGitHubSyncer returns a syncer over entries modules with tags versions each.
func newGitHubSyncer(t testing.TB, entries, tags int) (*gitHub, *ocitest.Count, *supply.Syncer) {
	t.Helper()
	api := &gitHub{tags: tags}
	srv := httptest.NewServer(api)
	t.Cleanup(srv.Close)
	base := must.Get(url.Parse(srv.URL))(t)
	var src strings.Builder
	for i := range entries {
		fmt.Fprintf(&src, "module \"net/m%d/aws\" {\n source = \"github.com/acme/m%d\"\n}\n", i, i)
	}
	set := must.Get(supply.ParseSet("depot.hcl", []byte(src.String())))(t)
	count := &ocitest.Count{}
	client := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: count}))(t)
	from := supply.Origins{Client: &upstream.Client{}, GitHub: upstream.NewGitHub(nil, base, nil)}
	return api, count, supply.NewSyncer(depot.New(depot.Options{Client: client, TempDir: t.TempDir()}), supply.SyncOptions{
		Set: set, Origins: func(string) (supply.Origins, error) { return from, nil }, Jobs: 8,
	})
}

func mustSync(t testing.TB, s *supply.Syncer) []supply.Result {
	t.Helper()
	p := must.Get(s.Plan(t.Context()))(t)
	results := must.Get(s.Apply(t.Context(), p, nil))(t)
	for _, r := range results {
		if r.Error != "" {
			t.Fatalf("%s %s: %s", r.Entry, r.Version, r.Error)
		}
	}
	return results
}

// unchanged runs a complete depot and returns the number of requests.
func unchanged(t testing.TB, api *gitHub, count *ocitest.Count, s *supply.Syncer, entries, tags int) (asked, read, written int) {
	t.Helper()
	count.Take()
	api.requests.Store(0)
	api.full.Store(0)
	must.Equal(t, "steps", len(mustSync(t, s)), entries*tags)
	if n := api.requests.Load(); n > int64(entries) {
		t.Errorf("%d requests to the origin for %d entries", n, entries)
	}
	must.Equal(t, "requests cost quota", api.full.Load(), 0)
	for key, n := range count.Take() {
		read += n
		if !strings.HasPrefix(key, "GET") && !strings.HasPrefix(key, "HEAD") {
			t.Errorf("%d × %s in a run that changes nothing", n, key)
			written += n
		}
	}
	return int(api.requests.Load()), read, written
}

// Shows: opendepot 4 | modules from GitHub, with an App or a token | `source = "github.com/…"`,
// `auth` blocks; lists cost no quota when unchanged
func TestSyncGitHub(t *testing.T) {
	api, count, s := newGitHubSyncer(t, 3, 4)
	for _, r := range mustSync(t, s) {
		if r.Action != supply.ActionPublish || r.State != supply.StatePublished {
			t.Errorf("%+v", r)
		}
	}
	unchanged(t, api, count, s, 3, 4)
}
