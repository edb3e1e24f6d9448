// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestAnswersOfManifests compares the answers of a directory with the library's own, in memory.
func TestAnswersOfManifests(t *testing.T) {
	m := must.Get(artifact.NewBare("application/vnd.example.x", map[string]string{"a": "b"}))(t)
	missing := "sha256:" + strings.Repeat("0", 64)
	var answers [2][]string
	for i, dir := range []string{"", t.TempDir()} {
		registry := must.Get(embedded.New(dir, embedded.Options{}))(t)
		server := httptest.NewServer(registry)
		repo := must.Get(oci.OpenRepo(strings.TrimPrefix(server.URL, "http://")+"/a/b", oci.Options{}))(t)
		must.Get(repo.EnsureBlob(t.Context(), oci.EmptyBlob()))(t)
		must.Succeed(t, repo.PutTag(t.Context(), "1.0.0", m))
		for _, ref := range []string{"1.0.0", m.Digest.String(), "none", missing, "sha256:x", "-", "1.0.0/x", "../manifests/1.0.0"} {
			for _, accept := range []string{ocispec.MediaTypeImageManifest, "text/plain, " + ocispec.MediaTypeImageManifest + ";q=0.5", "*/*", ""} {
				for _, method := range []string{http.MethodGet, http.MethodHead} {
					for _, match := range []string{"", `"` + m.Digest.String() + `"`, `"other"`} {
						req := must.Get(http.NewRequestWithContext(t.Context(), method, server.URL+"/v2/a/b/manifests/"+ref, http.NoBody))(t)
						req.Header["Accept"] = []string{accept}
						if match != "" {
							req.Header.Set("If-None-Match", match)
						}
						resp := must.Get(http.DefaultClient.Do(req))(t)
						body := must.Get(io.ReadAll(resp.Body))(t)
						must.Succeed(t, resp.Body.Close())
						resp.Header.Del("Date")
						answers[i] = append(answers[i], method+" "+ref+" "+accept+match+"\n"+resp.Status+"\n"+fmt.Sprint(resp.Header)+string(body))
					}
				}
			}
		}
		server.Close()
		must.Succeed(t, registry.Close())
	}
	for i, want := range answers[0] {
		if diff := cmp.Diff(want, answers[1][i]); diff != "" {
			t.Errorf("from memory, from a directory\n%s", diff)
		}
	}
}
