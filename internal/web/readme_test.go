// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestReadmeOffline shows a README, its image and its files while the forge that they
// came from is unreachable: only the registry gets requests.
//
// Shows: page-mistakes 1 | READMEs are fetched from the forge when they are shown | OpenDepot
func TestReadmeOffline(t *testing.T) {
	forge := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the forge is asked for %s", r.URL)
		panic(http.ErrAbortHandler) // the network is cut
	}))
	defer forge.Close()
	s := New(t, rights.AnonymousRead()...)
	tree := fstest.MapFS{}
	for name, text := range map[string]string{
		"main.tf":            "module \"x\" {\n  source = \"git::" + forge.URL + "/net/labels.git\"\n}\n",
		"README.md":          "# VPC\n\nMakes a private network.\n\n```\nsource = \"registry.opentofu.org/net/vpc/aws//sub\"\nsource = \"net/labels/aws\"\n```\n\n![plan](docs/dot.png) [notes](docs/notes.md) [try it](examples/a/) ![badge](" + forge.URL + "/badge.png)\n",
		"docs/dot.png":       dot,
		"docs/notes.md":      "Notes of the network.\n",
		"examples/a/main.tf": "",
		"sub/README.md":      "In a directory.\n",
		"sub/outputs.tf":     "output \"x\" {\n  value = 1\n}\n",
	} {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	o := depot.ModuleOptions{Annotations: map[string]string{artifact.AnnSource: forge.URL + "/net/vpc", artifact.AnnRevision: strings.Repeat("a", 40)}}
	must.Get(s.depot.PublishModule(t.Context(), tree, depottest.MustModule(t, "net/vpc/aws", "1.0.0"), o))(t)
	for path, has := range map[string]string{
		"":                            "source = &#34;okara.example.com/net/vpc/aws//sub&#34; /* on this server */\nsource = &#34;net/labels/aws&#34;\n",
		"/1.0.0":                      `1.0.0/examples/examples/a">try it</a>`,
		"/1.0.0/dependencies":         "labels.git",
		"/1.0.0/files/docs/notes.md":  "Notes of the network.",
		"/1.0.0/files/docs/dot.png":   "?raw=1",
		"/1.0.0/files/README.md":      "VPC",
		"/1.0.0/files/sub/outputs.tf": "output",
	} {
		if status, body := s.get(t, "/ui/modules/net/vpc/aws"+path); status != http.StatusOK || !strings.Contains(body, has) {
			t.Errorf("%q: status %d, %q is in it: %v\n%s", path, status, has, strings.Contains(body, has), body)
		}
	}
}

// TestReadmeBusy renders ten texts that would take very long unbounded; other pages answer, and a
// plain text follows.
//
// Shows: pages 8
func TestReadmeBusy(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	line := strings.Repeat("*a_", 600) + "\n"
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for _, name := range names {
		s.module(t, "slow/"+name+"/aws", "1.0.0", map[string]string{"main.tf": "", "README.md": "Of " + name + ".\n\n" + strings.Repeat(line, 22)}) // 40 KB
	}
	s.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": "", "README.md": "A *private* network.\n"})
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			status, body, _ := s.as(t, "", "/ui/modules/slow/"+name+"/aws")
			if status != http.StatusOK || !strings.Contains(body, "Of "+name+".") {
				t.Errorf("%s: status %d, its text is there: %v", name, status, strings.Contains(body, "Of "+name+"."))
			}
		})
	}
	for _, path := range []string{"", "search?q=vpc", "modules/slow", "modules/net/vpc/aws", "modules/net/vpc/aws/1.0.0/inputs", "modules/net/vpc/aws/versions"} {
		if status, body := s.get(t, "/ui/"+path); status != http.StatusOK {
			t.Errorf("%s: status %d\n%s", path, status, body)
		}
	}
	all.Wait()
	for until := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if _, body := s.get(t, "/ui/modules/net/vpc/aws"); strings.Contains(body, "<em>private</em>") {
			return
		}
		if time.Now().After(until) {
			t.Fatal("no place became free")
		}
	}
}
