// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestContent: reading gives a served version, publishing the rest, and nothing is looked up for
// others.
//
// Shows: jobs 4a
func TestContent(t *testing.T) {
	f := newFront(t, func(o *server.Options) {
		private(t)(o)
		o.Access.Tokens = append(o.Access.Tokens, newToken(t, narrowToken, "read:module:data/**"))
	})
	served := f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": "# 1"})
	withdrawn := f.module(t, "net/vpc/aws", "1.1.0", map[string]string{"main.tf": "# 2"})
	f.module(t, "net/vpc/aws", "1.2.0", map[string]string{"main.tf": "# 3"})
	repo := f.repo(t, "acme/modules/net/vpc/aws")
	now := time.Now().UTC()
	for _, e := range []evidence.StatusEvent{
		{Action: evidence.ActionYank, Version: "1.1.0", Message: "broken", Time: now}, {Action: evidence.ActionDeprecate, Version: "1.0.0", Time: now},
	} {
		must.Fixed(evidence.PutStatusEvent(t.Context(), repo, e))
	}
	root, other := must.Fixed(repo.Fetch(t.Context(), "1.0.0")), must.Fixed(repo.Fetch(t.Context(), "1.1.0"))
	report := must.Fixed(evidence.AttachReport(t.Context(), repo, root.Descriptor, evidence.ReportSPDX, []byte(`{"spdxVersion":"SPDX-2.3"}`), nil))
	must.Succeed(t, repo.PutTag(t.Context(), "okara-candidate-0123456789ab", must.Fixed(oci.NewManifest(must.Fixed(other.Image())))))
	sum := func(b []byte) string { return digest.FromBytes(b).String() }
	for _, tt := range []struct {
		path              string
		reader, publisher int
	}{
		{path: "", reader: 200, publisher: 200},
		{path: "/tags/list", reader: 200, publisher: 200},
		{path: "/manifests/1.0.0", reader: 200, publisher: 200},
		{path: "/manifests/" + root.Digest.String(), reader: 200, publisher: 200},
		{path: "/manifests/" + report.Digest.String(), reader: 200, publisher: 200},
		{path: "/blobs/" + sum(served), reader: 200, publisher: 200},
		{path: "/referrers/" + root.Digest.String(), reader: 200, publisher: 200},
		{path: "/manifests/1.1.0", reader: 404, publisher: 200},
		{path: "/manifests/1.2.0", reader: 404, publisher: 200},
		{path: "/manifests/okara-candidate-0123456789ab", reader: 404, publisher: 200},
		{path: "/manifests/" + other.Digest.String(), reader: 404, publisher: 200},
		{path: "/referrers/" + other.Digest.String(), reader: 404, publisher: 200},
		{path: "/blobs/" + sum(withdrawn), reader: 404, publisher: 200},
		{path: "/blobs/" + sum([]byte("nowhere")), reader: 404, publisher: 404},
		{path: "/blobs/sha256:..", reader: 404, publisher: 404},
		{path: "/manifests/sha512:00", reader: 404, publisher: 404},
		{path: "/manifests/-", reader: 404, publisher: 404},
	} {
		at := func(version string) *url.URL { return f.url(t, "/v1/modules/net/vpc/aws/"+version+"/content"+tt.path) }
		f.count.Take()
		for token, want := range map[string]int{"": 401, narrowToken: 403} {
			resp, body := ask(t, http.MethodGet, at("1.0.0"), "Authorization", "Bearer "+token)
			if token == "" {
				resp, body = ask(t, http.MethodGet, at("1.0.0"))
			}
			if resp.StatusCode != want || f.count.Total() != 0 {
				t.Errorf("%s with token %q: %d %s, %d requests", tt.path, token, resp.StatusCode, body, f.count.Total())
			}
		}
		for _, as := range []struct {
			token, version string
			want           int
		}{{readerToken, "1.0.0", tt.reader}, {publisherToken, "1.0.0", tt.publisher}, {readerToken, "1.1.0", 404}, {readerToken, "9.0.0", 404}} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				if resp, body := ask(t, method, at(as.version), "Authorization", "Bearer "+as.token); resp.StatusCode != as.want {
					t.Errorf("%s %s of %s: %d %s, want %d", method, tt.path, as.version, resp.StatusCode, body, as.want)
				}
			}
		}
	}
}

// TestContentTags checks that a reader sees no tag about another version.
func TestContentTags(t *testing.T) {
	f := newFront(t, private(t))
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": "# 1"})
	f.module(t, "net/vpc/aws", "1.1.0", map[string]string{"main.tf": "# 2"})
	repo := f.repo(t, "acme/modules/net/vpc/aws")
	var own []string
	for _, e := range []evidence.StatusEvent{{Action: evidence.ActionYank, Version: "1.1.0"}, {Action: evidence.ActionDeprecate, Version: "1.0.0"}, {Action: evidence.ActionDeprecate, Version: "*"}} {
		e.Time = time.Now().UTC()
		if e = must.Fixed(evidence.PutStatusEvent(t.Context(), repo, e)); e.Version != "1.1.0" {
			own = append(own, e.Tag)
		}
	}
	root, other := must.Fixed(repo.Resolve(t.Context(), "1.0.0")), must.Fixed(repo.Resolve(t.Context(), "1.1.0"))
	for _, subject := range []oci.Descriptor{root, other} {
		must.Fixed(evidence.AddCosignSignature(t.Context(), repo, subject, evidence.CosignSignature{Payload: []byte("{}"), Signature: []byte("s")}))
	}
	want := append(own, "1.0.0")
	for _, tag := range must.Fixed(repo.Snapshot(t.Context())).Tags {
		if strings.HasPrefix(tag, strings.Replace(root.Digest.String(), ":", "-", 1)) {
			want = append(want, tag)
		}
	}
	slices.Sort(want)
	_, body := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/1.0.0/content/tags/list"), "Authorization", "Bearer "+readerToken)
	must.Match(t, "value", decode[struct{ Tags []string }](t, body).Tags, want)
}

// TestContentStreams: archives stream in chunks, and count unless only checked.
func TestContentStreams(t *testing.T) {
	f := newFront(t, private(t))
	archive := f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": strings.Repeat("# x", 100_000)})
	at := f.url(t, "/v1/modules/net/vpc/aws/1.0.0/content/blobs/"+digest.FromBytes(archive).String())
	for _, token := range []string{readerToken, publisherToken} {
		if resp, body := ask(t, http.MethodGet, at, "Authorization", "Bearer "+token); resp.StatusCode != http.StatusOK || !bytes.Equal(body, archive) {
			t.Errorf("%d with %d bytes, want %d", resp.StatusCode, len(body), len(archive))
		}
		if resp, body := ask(t, http.MethodGet, at, "Authorization", "Bearer "+token, "Range", "bytes=10-"); resp.StatusCode != http.StatusPartialContent || !bytes.Equal(body, archive[10:]) {
			t.Errorf("%d with %d bytes of a part", resp.StatusCode, len(body))
		}
		if _, body := ask(t, http.MethodGet, at, "Authorization", "Bearer "+token, downloads.PurposeHeader, downloads.PurposeCheck); !bytes.Equal(body, archive) {
			t.Errorf("%d bytes to be checked", len(body))
		}
	}
	_, detail := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/1.0.0"), "Authorization", "Bearer "+readerToken)
	must.Equal(t, "downloads", decode[struct{ Downloads int }](t, detail).Downloads, 2)
}
