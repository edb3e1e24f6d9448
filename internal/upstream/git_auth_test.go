// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
)

// TestGitAsksOnceWithAToken has a server that requires a token: the list of
// tags takes one request, as without a token.
//
// Shows: operator 10
func TestGitAsksOnceWithAToken(t *testing.T) {
	asked := 0
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if _, password, _ := r.BasicAuth(); password != "t0ken" {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
		fmt.Fprint(w, line("# service=git-upload-pack\n"), "0000", line(strings.Repeat("a", 40)+" refs/tags/v1.0.0\x00agent=x\n"), "0000")
	}))
	defer srv.Close()
	upstream.InstallGit(srv.Client())
	defer upstream.InstallGit(http.DefaultClient)
	l := must.Get(upstream.ParseLocation("git::" + srv.URL + "/acme/vpc.git"))(t)
	g := &upstream.Git{Token: func(string) string { return "t0ken" }}
	for want := 1; want <= 2; want++ {
		tags, err := g.Tags(t.Context(), l)
		if err != nil || len(tags) != 1 || tags[0].Name != "v1.0.0" || asked != want {
			t.Fatalf("%v, %v after %d requests", tags, err, asked)
		}
	}
}
