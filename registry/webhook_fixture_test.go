// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

const (
	hookSecret = "0123456789abcdef-acme"
	otherHook  = "0123456789abcdef-other"
	hookToken  = "ghp_s3cretTokenOfAcme"
	commitA    = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB    = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// forge is the part of GitHub's API that a webhook uses.
type forge struct {
	mu       sync.Mutex // guards the fields below
	tags     map[string]string
	trees    map[string][]byte // tar.gz by commit
	failing  int               // number of further answers with status 500
	requests []string
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r.URL.Path)
	signed := strings.HasPrefix(r.URL.Path, "/download/")
	if want := "Bearer " + hookToken; signed == (r.Header.Get("Authorization") == want) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if f.failing > 0 {
		f.failing--
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, rest, _ := strings.Cut(r.URL.Path, "/api/v3/repos/")
	repository, tag, isTag := strings.Cut(rest, "/commits/tags/")
	commit := path.Base(r.URL.Path)
	switch {
	case isTag && f.tags[repository+"@"+tag] != "":
		io.WriteString(w, f.tags[repository+"@"+tag])
	case strings.Contains(r.URL.Path, "/tarball/") && f.trees[commit] != nil:
		http.Redirect(w, r, "https://forge.test/download/"+commit+"?token=s3cretLink", http.StatusFound)
	case signed && f.trees[commit] != nil && r.URL.RawQuery == "token=s3cretLink":
		w.Write(f.trees[commit])
	default:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"message":"Not Found"}`)
	}
}

func (f *forge) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

// newTree packs as a forge does; a name ending in "@" is a link.
func newTree(files map[string]string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": commitA}}) // writes to memory
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: "acme-x-aaaaaaa/" + name, Mode: 0o644, Size: int64(len(files[name]))}
		if link, ok := strings.CutSuffix(h.Name, "@"); ok {
			h = &tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: files[name]}
		}
		_ = w.WriteHeader(h)
		if h.Typeflag == tar.TypeReg {
			_, _ = io.WriteString(w, files[name])
		}
	}
	_, _ = w.Close(), z.Close()
	return b.Bytes()
}

// hooked accepts webhooks without a network.
type hooked struct {
	metrics *server.Metrics
	*server.Front
	client   *oci.Client
	log      lines
	audit    lines
	delivery int
}

// newHooked returns a front-end over a registry and a forge; its jobs run only after run.
func newHooked(t testing.TB, store http.Handler, api *forge) *hooked {
	t.Helper()
	h := &hooked{metrics: server.NewMetrics(), client: newClient(t, "registry.test", oci.Options{Transport: ocitest.Direct{Handler: store}, PlainHTTP: true})}
	github := upstream.NewGitHub(&http.Client{Transport: ocitest.Direct{Handler: api}}, must.Fixed(url.Parse("https://forge.test/api/v3/")),
		func(key string) string { return map[string]string{"forge.test/acme": hookToken}[key] })
	origins := func() (supply.Origins, error) { return supply.Origins{GitHub: github}, nil }
	debug := &slog.HandlerOptions{Level: slog.LevelDebug}
	h.Front = must.Fixed(server.New(server.Options{Options: registry.Options{
		Client: h.client, Layout: addr.Layout{Prefix: "platform"},
		Logger: slog.New(slog.NewTextHandler(&h.log, debug)), Audit: slog.New(slog.NewJSONHandler(&h.audit, debug)),
		GitHub: []registry.GitHub{
			{Owner: "acme", Secrets: [][]byte{[]byte(hookSecret), []byte("another-" + hookSecret)}, Origins: origins, Modules: []registry.GitHubModule{
				{Repository: "infra", Address: "net/{name}/aws"},
				{Repository: "by-system", Address: "net/{name}/{system}"},
				{Repository: "Storage", Address: "data/bucket/aws", Dir: "terraform/bucket"},
			}},
			{Owner: "Other", Namespace: "third", Secrets: [][]byte{[]byte(otherHook)}, Origins: origins},
		},
	}, Access: access.Policy{Anonymous: rights.AnonymousRead()}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}, Metrics: h.metrics}))
	return h
}

// run runs jobs until the returned function is called.
func (h *hooked) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) })
	return sync.OnceFunc(func() { cancel(); running.Wait() })
}

func hookSign(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// deliver sends an event as GitHub does, with a new id.
func (h *hooked) deliver(t testing.TB, event, body string, header ...string) (int, string) {
	t.Helper()
	h.delivery++
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hooks/github", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-GitHub-Delivery", fmt.Sprintf("72d3162e-cc78-11e3-81ab-%012d", h.delivery))
	r.Header.Set("X-Hub-Signature-256", hookSign(hookSecret, body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Del(header[i])
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func (h *hooked) get(t testing.TB, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// mustVersions compares a module's versions; none is 404.
func (h *hooked) mustVersions(t testing.TB, module string, want ...string) {
	t.Helper()
	status, body := h.get(t, "/v1/modules/"+module+"/versions")
	var got []string
	if status == http.StatusOK {
		for _, v := range decode[struct {
			Modules []struct{ Versions []struct{ Version string } }
		}](t, []byte(body)).Modules[0].Versions {
			got = append(got, v.Version)
		}
	} else if status != http.StatusNotFound {
		t.Errorf("%s: %d %s", module, status, body)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("versions of %s (-got +want)\n%s", module, diff)
	}
}

func repositoryOf(name string) string {
	return `"repository":{"full_name":"` + name + `","html_url":"https://u:p@forge.test/` + name + `?x=y"}`
}

func pushed(name, tag, commit string) string {
	return `{"ref":"refs/tags/` + tag + `","head_commit":{"id":"` + commit + `"},` + repositoryOf(name) + `}`
}

func created(name, tag string) string {
	return `{"ref":"` + tag + `","ref_type":"tag",` + repositoryOf(name) + `}`
}

func released(name, tag string) string {
	return `{"action":"published","release":{"tag_name":"` + tag + `"},` + repositoryOf(name) + `}`
}
