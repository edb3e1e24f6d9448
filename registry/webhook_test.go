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
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/registry"
)

const (
	hookSecret = "0123456789abcdef-acme"
	otherHook  = "0123456789abcdef-other"
	hookToken  = "ghp_s3cretTokenOfAcme"
	commitA    = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB    = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// forge is the part of GitHub's API that a webhook leads to.
type forge struct {
	mu       sync.Mutex // guards the fields below
	tags     map[string]string
	trees    map[string][]byte // tar.gz by commit
	failing  int               // how many answers to come are 500
	limited  time.Time         // until then the rate limit is met
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
	if time.Now().Before(f.limited) {
		w.Header().Set("X-RateLimit-Limit", "5000")
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", fmt.Sprint(f.limited.Unix()))
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"message":"API rate limit exceeded"}`)
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

// newTree packs files below one directory, as a forge does. A name that ends
// in "@" is a link.
func newTree(files map[string]string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": commitA}}) // into memory
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

// hooked is a front-end that takes webhooks, without a network, so that a
// synctest bubble can wait for its work.
type hooked struct {
	metrics *server.Metrics
	*server.Front
	client   *oci.Client
	log      lines
	audit    lines
	delivery int
}

// newHooked returns a front-end over a registry and a forge. It does no jobs
// until run is called.
func newHooked(t testing.TB, store http.Handler, api *forge) *hooked {
	t.Helper()
	h := &hooked{metrics: server.NewMetrics(), client: newClient(t, "registry.test", oci.Options{Transport: ocitest.Direct{Handler: store}, PlainHTTP: true})}
	github := upstream.NewGitHub(&http.Client{Transport: ocitest.Direct{Handler: api}}, must(url.Parse("https://forge.test/api/v3/")),
		func(key string) string { return map[string]string{"forge.test/acme": hookToken}[key] })
	origins := func() (supply.Origins, error) { return supply.Origins{GitHub: github}, nil }
	debug := &slog.HandlerOptions{Level: slog.LevelDebug}
	h.Front = must(server.New(server.Options{Options: registry.Options{
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
	}, Access: access.Policy{Anonymous: access.AnonymousRead()}, Keys: []access.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}, Metrics: h.metrics}))
	return h
}

// run does jobs until the returned function is called.
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

// deliver sends an event as GitHub does, each with an id of its own. Headers
// that are given replace those.
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

// mustVersions holds the versions of a module against those wanted; none at
// all is 404.
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

// TestHookRefuses sends what asks for nothing. GitHub is not asked, nothing is
// recorded.
func TestHookRefuses(t *testing.T) {
	api := &forge{}
	h := newHooked(t, ocitest.Handler(t, ocitest.Quirks{}), api)
	good := pushed("acme/terraform-aws-vpc", "v1.0.0", commitA)
	tests := []struct {
		name, event, body string
		header            []string
		want              int
		text              string
	}{
		{"form", "push", "payload=%7B%7D", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "application/json"},
		{"no content type", "push", good, []string{"Content-Type", ""}, 415, ""},
		{"no signature", "push", good, []string{"X-Hub-Signature-256", ""}, 401, "X-Hub-Signature-256"},
		{"old signature", "push", good, []string{"X-Hub-Signature-256", "", "X-Hub-Signature", "sha1=00"}, 401, ""},
		{"wrong secret", "push", good, []string{"X-Hub-Signature-256", hookSign("0123456789abcdef", good)}, 401, ""},
		{"other body", "push", good, []string{"X-Hub-Signature-256", hookSign(hookSecret, good+" ")}, 401, ""},
		{"short signature", "push", good, []string{"X-Hub-Signature-256", "sha256=00"}, 401, ""},
		{"signature without name", "push", good, []string{"X-Hub-Signature-256", hookSign(hookSecret, good)[7:]}, 401, ""},
		{"too large", "push", strings.Repeat(" ", 5<<20) + good, nil, 413, "5242880"},
		{"too large and unsigned", "push", strings.Repeat(" ", 6<<20), []string{"X-Hub-Signature-256", ""}, 401, ""},
		{"no delivery", "push", good, []string{"X-GitHub-Delivery", ""}, 400, "X-GitHub-Delivery"},
		{"bad delivery", "push", good, []string{"X-GitHub-Delivery", "a b"}, 400, "X-GitHub-Delivery"},
		{"no JSON", "push", "{", nil, 400, "not an event"},
		{"other JSON", "push", "[]", nil, 400, "not an event"},
		{"no repository", "push", `{"ref":"refs/tags/v1.0.0","head_commit":{"id":"` + commitA + `"}}`, nil, 400, "repository"},
		{"no commit's name", "push", pushed("acme/terraform-aws-vpc", "v1.0.0", "main"), nil, 400, "commit"},
		{"long tag", "push", pushed("acme/infra", strings.Repeat("a", 2000)+"/v1.0.0", commitA), nil, 400, "tag"},
		{"ping", "ping", `{"zen":"Design for failure."}`, nil, 200, `"pong"`},
		{"branch", "push", `{"ref":"refs/heads/main",` + repositoryOf("acme/terraform-aws-vpc") + `}`, nil, 200, "not of a tag"},
		{"deleted tag", "push", `{"ref":"refs/tags/v1.0.0","deleted":true,"head_commit":null,` + repositoryOf("acme/terraform-aws-vpc") + `}`, nil, 200, "deleted"},
		{"deletion", "delete", `{"ref":"v1.0.0","ref_type":"tag",` + repositoryOf("acme/terraform-aws-vpc") + `}`, nil, 200, "ignored"},
		{"new branch", "create", `{"ref":"v1.0.0","ref_type":"branch",` + repositoryOf("acme/terraform-aws-vpc") + `}`, nil, 200, "branch"},
		{"edited release", "release", `{"action":"edited","release":{"tag_name":"v1.0.0"},` + repositoryOf("acme/terraform-aws-vpc") + `}`, nil, 200, "not published"},
		{"other event", "star", `{"action":"created",` + repositoryOf("acme/terraform-aws-vpc") + `}`, nil, 200, "star"},
		{"unknown owner", "push", pushed("evil/terraform-aws-vpc", "v1.0.0", commitA), nil, 200, "no configuration for evil"},
		{"another's owner", "push", pushed("other/terraform-aws-vpc", "v1.0.0", commitA), nil, 200, "no configuration for other"},
		{"unknown repository", "push", pushed("acme/website", "v1.0.0", commitA), nil, 200, "terraform-SYSTEM-NAME"},
		{"name that cannot be stored", "push", pushed("acme/terraform-aws-v_-c", "v1.0.0", commitA), nil, 200, "ignored"},
		{"no version", "push", pushed("acme/terraform-aws-vpc", "nightly", commitA), nil, 200, "nightly"},
		{"folder of one module", "push", pushed("acme/terraform-aws-vpc", "modules/x/v1.0.0", commitA), nil, 200, "modules/x"},
		{"no folder of many modules", "push", pushed("acme/infra", "v1.0.0", commitA), nil, 200, "names no folder"},
		{"other folder", "push", pushed("acme/storage", "docs/v1.0.0", commitA), nil, 200, "docs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := h.deliver(t, tt.event, tt.body, tt.header...)
			if status != tt.want || !strings.Contains(body, tt.text) {
				t.Errorf("%d %s, want %d with %q", status, body, tt.want, tt.text)
			}
			if got := strings.Contains(h.audit.take(), `"decision":"denied"`); got != (tt.want == 401) {
				t.Errorf("a denial in the audit log: %t", got)
			}
		})
	}
	queue := must(h.client.Repo("platform/queue"))
	if _, err := queue.Snapshot(t.Context()); !errors.Is(err, oci.ErrNotFound) || api.asked() != 0 {
		t.Errorf("queue: %v, %d requests to GitHub; want neither", err, api.asked())
	}
	if status, body := h.get(t, "/hooks/github"); status != http.StatusMethodNotAllowed && status != http.StatusNotFound {
		t.Errorf("GET: %d %s", status, body)
	}
}

// slowSender is the connection of a delivery that never arrives. Its reads end
// when the deadline for them has passed.
type slowSender struct {
	*httptest.ResponseRecorder
	body *io.PipeWriter
}

func (s *slowSender) SetReadDeadline(at time.Time) error {
	if !at.IsZero() {
		time.AfterFunc(time.Until(at), func() { _ = s.body.CloseWithError(os.ErrDeadlineExceeded) })
	}
	return nil
}

// TestHookCrowd has unauthenticated senders who begin deliveries of any length
// and do not end them, from one address and from many: a delivery that arrives
// from elsewhere is answered meanwhile, and soon nothing is left of the others.
func TestHookCrowd(t *testing.T) {
	store := ocitest.Handler(t, ocitest.Quirks{})
	for _, test := range []struct {
		name    string
		senders func(i int) (address string)
		length  int64
		within  time.Duration // until a delivery from elsewhere is answered
		gone    time.Duration // until all have been sent away
	}{
		{"one address", func(int) string { return "203.0.113.1:1" }, 100, 0, 8 * time.Second},
		{"one network", func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i+1) }, 100, 0, 8 * time.Second},
		{"large", func(int) string { return "203.0.113.1:1" }, 5 << 20, 0, 8 * time.Second},
		{"of no length", func(int) string { return "203.0.113.1:1" }, -1, 0, 8 * time.Second},
		{"many addresses", func(i int) string { return fmt.Sprintf("203.0.113.%d:1", i) }, 100, 2 * time.Second, 8 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHooked(t, store, &forge{})
				start := time.Now()
				var running sync.WaitGroup
				for i := range 256 {
					body, sender := io.Pipe()
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hooks/github", body)
					r.RemoteAddr, r.ContentLength = test.senders(i), test.length
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("X-Hub-Signature-256", hookSign("guessed", ""))
					running.Go(func() {
						w := &slowSender{httptest.NewRecorder(), sender}
						if h.ServeHTTP(w, r); w.Code != http.StatusBadRequest && w.Code != http.StatusServiceUnavailable {
							t.Errorf("a delivery that does not arrive: %d %s", w.Code, w.Body)
						}
					})
				}
				synctest.Wait()
				if status, body := h.deliver(t, "ping", "{}"); status != http.StatusOK || time.Since(start) > test.within {
					t.Errorf("a delivery among them: %d %s after %s", status, body, time.Since(start))
				}
				running.Wait()
				if took := time.Since(start); took > test.gone {
					t.Errorf("the last one was sent away after %s", took)
				}
			})
		})
	}
}

// TestHookPublishes sends every event that publishes, with names and tags of
// every form.
func TestHookPublishes(t *testing.T) {
	tests := []struct {
		name, event, body string
		secret            string
		module, version   string
		annotations       map[string]string
	}{
		{name: "push", event: "push", body: pushed("acme/terraform-aws-vpc", "v1.2.3", commitA), module: "acme/vpc/aws", version: "1.2.3",
			annotations: map[string]string{artifact.AnnRevision: commitA, artifact.AnnSourceRef: "v1.2.3", artifact.AnnSource: "https://forge.test/acme/terraform-aws-vpc"}},
		{name: "create", event: "create", body: created("acme/terraform-aws-vpc", "v1.2.4"), module: "acme/vpc/aws", version: "1.2.4",
			annotations: map[string]string{artifact.AnnRevision: commitB, artifact.AnnSourceRef: "v1.2.4"}},
		{name: "release", event: "release", body: released("acme/terraform-aws-vpc", "v1.2.4"), module: "acme/vpc/aws", version: "1.2.4"},
		{name: "second secret", event: "push", body: pushed("acme/terraform-aws-vpc", "2", commitA), secret: "another-" + hookSecret, module: "acme/vpc/aws", version: "2.0.0"},
		{name: "capitals", event: "push", body: pushed("ACME/Terraform-AWS-Big-Data", "v1.0.0-rc.1", commitA), module: "acme/big-data/aws", version: "1.0.0-rc.1"},
		{name: "hook block", event: "push", body: pushed("acme/storage", "v1.0.0", commitA), module: "data/bucket/aws", version: "1.0.0",
			annotations: map[string]string{artifact.AnnSourcePath: "terraform/bucket"}},
		{name: "folder of the hook block", event: "push", body: pushed("acme/storage", "terraform/bucket/v1.1.0", commitA), module: "data/bucket/aws", version: "1.1.0"},
		{name: "monorepo", event: "push", body: pushed("acme/infra", "modules/dns/v0.1.0", commitA), module: "net/dns/aws", version: "0.1.0"},
		{name: "monorepo by system", event: "create", body: created("acme/by-system", "azurerm/dns/v0.2.0"), module: "net/dns/azurerm", version: "0.2.0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := ocitest.Handler(t, ocitest.Quirks{})
			synctest.Test(t, func(t *testing.T) {
				files := map[string]string{}
				if tt.name == "monorepo" {
					files["NOTES@"] = "README.md" // a link beside the module
				}
				for _, dir := range []string{"", "terraform/bucket/", "modules/dns/", "azurerm/dns/"} {
					files[dir+"main.tf"] = "# " + dir + "\n"
					files[dir+".tfignore"], files[dir+"README.md"] = "*.md\n", "x"
				}
				h := newHooked(t, store, &forge{
					tags:  map[string]string{"acme/terraform-aws-vpc@v1.2.4": commitB, "acme/by-system@azurerm/dns/v0.2.0": commitB},
					trees: map[string][]byte{commitA: newTree(files), commitB: newTree(files)},
				})
				defer h.run(t)()
				var header []string
				if tt.secret != "" {
					header = []string{"X-Hub-Signature-256", hookSign(tt.secret, tt.body)}
				}
				status, body := h.deliver(t, tt.event, tt.body, header...)
				if status != http.StatusAccepted || !strings.Contains(body, tt.module) || !strings.Contains(body, tt.version) {
					t.Fatalf("%d %s", status, body)
				}
				synctest.Wait()
				h.mustVersions(t, tt.module, tt.version)
				if t.Failed() {
					t.Fatal(h.log.take())
				}
				r := must(h.client.Repo("platform/modules/" + tt.module))
				m := must(artifact.ParseModule(must(r.Fetch(t.Context(), strings.ReplaceAll(tt.version, "+", "_")))))
				for key, want := range tt.annotations {
					if m.Annotations[key] != want {
						t.Errorf("annotation %s: %q, want %q", key, m.Annotations[key], want)
					}
				}
				if body := string(must(r.ReadBlob(t.Context(), *m.Zip, 1<<20))); strings.Contains(body, "README") {
					t.Error("an ignored file was shipped")
				}
				if audit := h.audit.take(); !strings.Contains(audit, `"msg":"change"`) || !strings.Contains(audit, m.Manifest.Digest.String()) {
					t.Errorf("the audit log does not name what was published: %s", audit)
				}
			})
		})
	}
}

// TestHookOnce sends a tag in all the ways in which one arrives, and one
// delivery again.
func TestHookOnce(t *testing.T) {
	store := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		const name = "acme/terraform-aws-vpc"
		api := &forge{tags: map[string]string{name + "@v1.0.0": commitA}, trees: map[string][]byte{commitA: newTree(map[string]string{"main.tf": ""})}}
		h := newHooked(t, store, api)
		defer h.run(t)()
		var digests []string
		for _, d := range []struct {
			event, body string
			header      []string
			want        int
		}{
			{"push", pushed(name, "v1.0.0", commitA), nil, 202},
			{"create", created(name, "v1.0.0"), nil, 202},
			{"release", released(name, "v1.0.0"), nil, 202},
			{"release", released(name, "v1.0.0"), []string{"X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-000000000003"}, 200},
		} {
			asked := api.asked()
			status, body := h.deliver(t, d.event, d.body, d.header...)
			synctest.Wait()
			if status != d.want || (status == 200) != strings.Contains(body, `"duplicate","reason":"done: registry.test/platform/modules/acme/vpc/aws:1.0.0@`) {
				t.Errorf("%s: %d %s, want %d", d.event, status, body, d.want)
			}
			if status == 200 && api.asked() != asked {
				t.Error("a replay was done again")
			}
			h.mustVersions(t, "acme/vpc/aws", "1.0.0")
			digests = append(digests, must(must(h.client.Repo("platform/modules/acme/vpc/aws")).Resolve(t.Context(), "1.0.0")).Digest.String())
		}
		if len(slices.Compact(digests)) != 1 {
			t.Errorf("the version changed: %v", digests)
		}
	})
}

// TestHookRetries fails GitHub twice: the third try, 30 s later, publishes.
func TestHookRetries(t *testing.T) {
	store := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		api := &forge{failing: 2, trees: map[string][]byte{commitA: newTree(map[string]string{"main.tf": ""})}}
		h := newHooked(t, store, api)
		defer h.run(t)()
		if status, body := h.deliver(t, "push", pushed("acme/terraform-aws-vpc", "v1.0.0", commitA)); status != http.StatusAccepted {
			t.Fatal(status, body)
		}
		time.Sleep(29 * time.Second)
		synctest.Wait()
		h.mustVersions(t, "acme/vpc/aws")
		time.Sleep(10 * time.Second) // "not found" is remembered for 5 s
		synctest.Wait()
		h.mustVersions(t, "acme/vpc/aws", "1.0.0")
	})
}

// TestHookRateLimit meets a limit that lasts for half an hour: no try waits for
// that long, and a later one publishes.
func TestHookRateLimit(t *testing.T) {
	store := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		api := &forge{limited: time.Now().Add(30 * time.Minute), trees: map[string][]byte{commitA: newTree(map[string]string{"main.tf": ""})}}
		h := newHooked(t, store, api)
		defer h.run(t)()
		if status, body := h.deliver(t, "push", pushed("acme/terraform-aws-vpc", "v1.0.0", commitA)); status != http.StatusAccepted {
			t.Fatal(status, body)
		}
		synctest.Wait()
		if log := h.log.take(); !strings.Contains(log, "tried again") || !strings.Contains(log, "rate limit") {
			t.Errorf("the first try did not end at the limit: %s", log)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		h.mustVersions(t, "acme/vpc/aws", "1.0.0")
	})
}

// TestHookSurvives ends a server between its answer and the work.
func TestHookSurvives(t *testing.T) {
	store := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		api := &forge{trees: map[string][]byte{commitA: newTree(map[string]string{"main.tf": ""})}}
		h := newHooked(t, store, api)
		if status, body := h.deliver(t, "push", pushed("acme/terraform-aws-vpc", "v1.0.0", commitA)); status != http.StatusAccepted {
			t.Fatal(status, body)
		}
		h.delivery--
		if status, body := h.deliver(t, "push", pushed("acme/terraform-aws-vpc", "v1.0.0", commitA)); status != http.StatusOK || !strings.Contains(body, "not done yet") {
			t.Errorf("a replay: %d %s", status, body)
		}
		next := newHooked(t, store, api)
		defer next.run(t)()
		time.Sleep(7 * time.Minute)
		synctest.Wait()
		next.mustVersions(t, "acme/vpc/aws", "1.0.0")
	})
}

// TestHookReplicas sends one delivery to two replicas at once and lets both
// work.
func TestHookReplicas(t *testing.T) {
	store := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		api := &forge{trees: map[string][]byte{commitA: newTree(map[string]string{"main.tf": ""})}}
		replicas := []*hooked{newHooked(t, store, api), newHooked(t, store, api)}
		var running sync.WaitGroup
		for _, h := range replicas {
			defer h.run(t)()
			running.Go(func() {
				if status, body := h.deliver(t, "push", pushed("acme/terraform-aws-vpc", "v1.0.0", commitA)); status != 202 && status != 200 {
					t.Error(status, body)
				}
			})
		}
		running.Wait()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for _, h := range replicas {
			h.mustVersions(t, "acme/vpc/aws", "1.0.0")
			if log := h.log.take(); strings.Contains(log, "level=ERROR") {
				t.Error(log)
			}
		}
	})
}

// TestHookBadTrees fetches trees that must not be published: the job fails at
// once, with the reason.
func TestHookBadTrees(t *testing.T) {
	tests := []struct {
		name, tag string
		tree      []byte
		want      string
	}{
		{"path out of the tree", "v1.0.0", newTree(map[string]string{"main.tf": "", "../../evil.tf": ""}), "../"},
		{"bomb", "v1.0.0", newTree(map[string]string{"main.tf": strings.Repeat(" ", 64<<20)}), "expands to more than"},
		{"link", "v1.0.0", newTree(map[string]string{"main.tf": "", "x@": "/etc/passwd"}), "not a regular file"},
		{"deep", "v1.0.0", newTree(map[string]string{"main.tf": "x = " + strings.Repeat("!", 500_000)}), "main.tf:1: nested more than 1000 deep"},
		{"no module", "v1.0.0", newTree(map[string]string{"README.md": ""}), ".tf"},
		{"broken", "v1.0.0", newTree(map[string]string{"main.tf": "a {}\n"}), "main.tf:1:1: Unsupported block type"},
		{"no archive", "v1.0.0", []byte("<html>hello</html>"), "neither zip nor tar.gz"},
		{"other content", "v0.9.0", newTree(map[string]string{"main.tf": "# moved\n"}), "already published"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := ocitest.Handler(t, ocitest.Quirks{})
			synctest.Test(t, func(t *testing.T) {
				api := &forge{trees: map[string][]byte{commitA: newTree(map[string]string{"main.tf": ""}), commitB: tt.tree}}
				h := newHooked(t, store, api)
				defer h.run(t)()
				h.deliver(t, "push", pushed("acme/terraform-aws-vpc", "v0.9.0", commitA))
				synctest.Wait()
				asked := api.asked()
				if status, body := h.deliver(t, "push", pushed("acme/terraform-aws-vpc", tt.tag, commitB)); status != http.StatusAccepted {
					t.Fatal(status, body)
				}
				time.Sleep(6 * time.Hour)
				synctest.Wait()
				if n := api.asked() - asked; n != 2 {
					t.Errorf("%d requests to GitHub, want those of one try", n)
				}
				h.mustVersions(t, "acme/vpc/aws", "0.9.0")
				end, err := artifact.ReadJobEnd(t.Context(), must(h.client.Repo("platform/queue")), "72d3162e-cc78-11e3-81ab-000000000002")
				if err != nil || !end.Failed || !strings.Contains(end.Result, tt.want) {
					t.Errorf("ended with %+v, %v; want a failure with %q", end, err, tt.want)
				}
				h.delivery--
				if status, body := h.deliver(t, "push", pushed("acme/terraform-aws-vpc", tt.tag, commitB)); status != http.StatusOK || !strings.Contains(body, "failed: ") {
					t.Errorf("a replay: %d %s, want the reason", status, body)
				}
				if log := h.log.take(); !strings.Contains(log, "level=ERROR") {
					t.Errorf("nothing in the log calls for a person: %s", log)
				}
			})
		})
	}
}

// TestHookSecrets looks for the forge's token, its signed links and the
// webhook's secrets in all that is written.
func TestHookSecrets(t *testing.T) {
	store := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		api := &forge{failing: 1, trees: map[string][]byte{commitA: newTree(map[string]string{"main.tf": ""})}}
		h := newHooked(t, store, api)
		defer h.run(t)()
		var said strings.Builder
		for _, d := range [][2]string{
			{"push", pushed("acme/terraform-aws-vpc", "v1.0.0", commitA)},
			{"push", pushed("acme/terraform-aws-vpc", "v2.0.0", commitB)}, // which the forge does not have
			{"push", pushed("Other/terraform-aws-vpc", "v2.0.0", commitA)},
			{"push", "{"},
		} {
			_, body := h.deliver(t, d[0], d[1])
			said.WriteString(body)
		}
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		h.mustVersions(t, "acme/vpc/aws", "1.0.0")
		w := httptest.NewRecorder()
		h.metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		metrics := w.Body.String()
		if !strings.Contains(metrics, `okara_queue_jobs{state="failed"} 1`) || !strings.Contains(metrics, `okara_queue_jobs{state="done"} 1`) {
			t.Errorf("metrics: %s", metrics)
		}
		said.WriteString(metrics + h.log.take() + h.audit.take())
		queue := must(h.client.Repo("platform/queue"))
		for _, tag := range must(queue.Snapshot(t.Context())).Tags {
			said.Write(must(queue.Fetch(t.Context(), tag)).Bytes)
		}
		for _, secret := range []string{hookToken, hookSecret, otherHook, "s3cretLink", "u:p@"} {
			if strings.Contains(said.String(), secret) {
				t.Errorf("%q was written: %s", secret, said.String())
			}
		}
	})
}

// TestHookOptions holds the configuration's mistakes against New.
func TestHookOptions(t *testing.T) {
	good := registry.GitHub{Owner: "acme", Secrets: [][]byte{[]byte(hookSecret)}, Origins: func() (supply.Origins, error) { return supply.Origins{}, nil }}
	tests := []struct {
		name   string
		change func(*registry.GitHub)
		want   string // "": accepted
	}{
		{"good", func(*registry.GitHub) {}, ""},
		{"no owner", func(g *registry.GitHub) { g.Owner = "" }, "organisation"},
		{"no secret", func(g *registry.GitHub) { g.Secrets = nil }, "secret"},
		{"empty secret", func(g *registry.GitHub) { g.Secrets = append(g.Secrets, nil) }, "16 characters"},
		{"no namespace", func(g *registry.GitHub) { g.Owner = "acme_-x" }, "namespace"},
		{"no address", func(g *registry.GitHub) { g.Modules = []registry.GitHubModule{{Repository: "x", Address: "a/b"}} }, "NAMESPACE/NAME/SYSTEM"},
		{"system alone", func(g *registry.GitHub) {
			g.Modules = []registry.GitHubModule{{Repository: "x", Address: "a/b/{system}"}}
		}, "without"},
		{"folder elsewhere", func(g *registry.GitHub) {
			g.Modules = []registry.GitHubModule{{Repository: "x", Address: "a/b/c", Dir: "../d"}}
		}, "../d"},
		{"two folders", func(g *registry.GitHub) {
			g.Modules = []registry.GitHubModule{{Repository: "x", Address: "a/{name}/c", Dir: "d"}}
		}, "folder"},
		{"repository of another", func(g *registry.GitHub) { g.Modules = []registry.GitHubModule{{Repository: "x/y", Address: "a/b/c"}} }, "name of a repository"},
		{"repository twice", func(g *registry.GitHub) {
			g.Modules = []registry.GitHubModule{{Repository: "x", Address: "a/b/c"}, {Repository: "X", Address: "a/b/d"}}
		}, "twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := good
			tt.change(&g)
			if err := g.Validate(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
