// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// grown is a registry with more than a test could publish: generated answers, all copies of one
// real module.
type grown struct {
	modules, versions, states int

	rest     *httputil.ReverseProxy
	template map[string]any // the manifest of the module
	tags     []string       // of the catalog, sorted
	module   map[string]int // by such a tag

	catalog, pages, lists, manifests, others atomic.Int64 // requests: entries, pages of their list, and of modules
}

const grownTemplate = "modules/net/vpc/aws"

func newGrown(t *testing.T, modules, versions, states int, host string) *grown {
	t.Helper()
	r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/v2/"+grownTemplate+"/manifests/1.0.0", nil))(t)
	r.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json")
	resp := must(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the module that others are copies of: %s", resp.Status)
	}
	g := &grown{modules: modules, versions: versions, states: states, module: make(map[string]int, modules)}
	succeed(t, json.NewDecoder(resp.Body).Decode(&g.template))
	g.rest = httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: host})
	for i := range modules {
		sum := sha256.Sum256([]byte("modules/" + grownName(i)))
		tag := "r-" + hex.EncodeToString(sum[:16])
		g.module[tag] = i
		g.tags = append(g.tags, tag)
	}
	slices.Sort(g.tags)
	return g
}

// grownName returns the address of a module: a hundred in each namespace.
func grownName(i int) string { return fmt.Sprintf("team%04d/part%06d/aws", i/100, i) }

func (g *grown) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	repository, list := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/v2/"), "/tags/list")
	if list {
		g.list(w, r, repository)
		return
	}
	if r.URL.Path == "/v2/_catalog" {
		g.others.Add(1)
		g.page(w, r, "repositories", g.states, func(i int) string { return fmt.Sprintf("state/shop%06d", i) })
		return
	}
	repository, reference, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/")
	if i, of := g.module[reference]; ok && repository == "catalog" && of {
		g.catalog.Add(1)
		g.manifest(w, r, map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": "application/vnd.okara.catalog.v1",
			"config": grownEmpty(), "layers": []any{grownEmpty()},
			"annotations": map[string]string{"vnd.okara.kind": "module", "vnd.okara.address": grownName(i), "vnd.okara.catalog.repository": "modules/" + grownName(i)}})
		return
	}
	if address, of := strings.CutPrefix(repository, "modules/team"); ok && of && !strings.HasPrefix(reference, "sha256") {
		g.manifests.Add(1)
		g.version(w, r, "team"+address, reference)
		return
	}
	if at := strings.Index(r.URL.Path, "/blobs/"); at > 0 {
		r.URL.Path = "/v2/" + grownTemplate + r.URL.Path[at:]
	}
	g.others.Add(1)
	g.rest.ServeHTTP(w, r)
}

func grownEmpty() map[string]any {
	return map[string]any{"mediaType": "application/vnd.oci.empty.v1+json", "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "size": 2, "data": "e30="}
}

// list answers the tags of the catalog or of a module, 1,000 at a time.
func (g *grown) list(w http.ResponseWriter, r *http.Request, repository string) {
	switch {
	case repository == "catalog":
		g.pages.Add(1)
		g.page(w, r, "tags", len(g.tags), func(i int) string { return g.tags[i] })
	case strings.HasPrefix(repository, "modules/team"):
		g.lists.Add(1)
		g.page(w, r, "tags", g.versions, func(i int) string { return fmt.Sprintf("1.%d.0", i) })
	default:
		g.others.Add(1)
		g.rest.ServeHTTP(w, r)
	}
}

func (g *grown) page(w http.ResponseWriter, r *http.Request, field string, all int, name func(int) string) {
	first := 0
	if last := r.URL.Query().Get("last"); last != "" {
		first, _ = strconv.Atoi(last)
	}
	after := min(first+1000, all)
	names := make([]string, 0, after-first)
	for i := first; i < after; i++ {
		names = append(names, name(i))
	}
	if after < all {
		w.Header().Set("Link", fmt.Sprintf("<%s?n=1000&last=%d>; rel=\"next\"", r.URL.Path, after))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"name": "x", field: names}) // the client detects a truncated answer
}

// version answers the existing module under another name.
func (g *grown) version(w http.ResponseWriter, r *http.Request, address, version string) {
	annotations := map[string]any{}
	maps.Copy(annotations, g.template["annotations"].(map[string]any))
	annotations["vnd.okara.address"], annotations["vnd.okara.version"], annotations["org.opencontainers.image.version"] = address, version, version
	m := map[string]any{}
	maps.Copy(m, g.template)
	m["annotations"] = annotations
	g.manifest(w, r, m)
}

func (g *grown) manifest(w http.ResponseWriter, r *http.Request, m any) {
	b, err := json.Marshal(m)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(b)
	w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	w.Header().Set("Docker-Content-Digest", "sha256:"+hex.EncodeToString(sum[:]))
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(b)
	}
}

// TestGrowth uses a server on many modules, versions and states: all is found, a list costs as in a
// small one, the rest is asked once. OKARA_TEST_GROWTH is MODULES,VERSIONS,STATES of
// docs/operate/growth.md.
func TestGrowth(t *testing.T) {
	modules, versions, states := 2000, 10, 1000
	if s := os.Getenv("OKARA_TEST_GROWTH"); s != "" {
		must(fmt.Sscanf(s, "%d,%d,%d", &modules, &versions, &states))(t)
	}
	set := must(findTools())(t)
	g := newGrown(t, modules, versions, states, startTemplate(t, set))
	registry := httptest.NewServer(g)
	defer registry.Close()
	serve := exec.Command(set.okara, "serve", "--listen", "127.0.0.1:0", "--anonymous-write", "--registry", strings.TrimPrefix(registry.URL, "http://"), "--storage", t.TempDir())
	began := time.Now()
	server, addr := mustBoth(start(serve))(t)
	defer server.kill()
	u := grownUser{t: t, base: "http://" + addr}

	u.want("/healthz", "")
	before := g.manifests.Load() + g.lists.Load()
	u.want("/v1/modules/"+grownName(modules-1)+"/versions", "1."+strconv.Itoa(versions-1)+".0")
	if n := g.manifests.Load() + g.lists.Load() - before; n > int64(4+versions) { // each tag without a recorded time is looked at once; the background scan reads three a second
		t.Errorf("the versions of one module cost %d requests", n)
	}
	t.Logf("first list of versions %v after the start", time.Since(began).Round(time.Millisecond))
	searched := u.untilFound("/api/v1/search?q=part"+fmt.Sprintf("%06d", modules-1), grownName(modules-1))
	t.Logf("search complete %v after the start, %d requests for the catalog", searched.Sub(began).Round(time.Millisecond), g.catalog.Load())
	if n := g.catalog.Load(); n > int64(modules)+8 {
		t.Errorf("%d entries were read in %d requests", modules, n)
	}
	u.timed("search", "/api/v1/search?q=team00+part")
	u.timed("warm versions", "/v1/modules/"+grownName(1)+"/versions")
	u.timed("home page", "/ui/")
	u.timed("states page", "/ui/states")
	t.Logf("resident %d MiB, most %d MiB", memory(t, serve.Process.Pid, "VmRSS:"), memory(t, serve.Process.Pid, "VmHWM:"))
	t.Logf("requests: %d entries and %d pages of the catalog, %d lists, %d manifests, %d others", g.catalog.Load(), g.pages.Load(), g.lists.Load(), g.manifests.Load(), g.others.Load())
}

// startTemplate starts a registry with the module that the others copy.
func startTemplate(t *testing.T, set tools) (host string) {
	t.Helper()
	dir := t.TempDir()
	host = set.runRegistry(t, dir)
	module := filepath.Join(dir, "vpc")
	succeed(t, os.MkdirAll(module, 0o755))
	succeed(t, os.WriteFile(filepath.Join(module, "main.tf"), []byte("variable \"cidr\" {\n  type = string\n}\n"), 0o644))
	if out, err := exec.Command(set.okara, "publish", "module", module, "net/vpc/aws", "1.0.0", "--registry", host).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return host
}

// grownUser makes requests to a server.
type grownUser struct {
	t    *testing.T
	base string
}

func (u grownUser) get(path string) (int, []byte) {
	u.t.Helper()
	resp := must(http.Get(u.base + path))(u.t)
	defer resp.Body.Close()
	b := must(io.ReadAll(resp.Body))(u.t)
	return resp.StatusCode, b
}

func (u grownUser) want(path, part string) {
	u.t.Helper()
	if status, body := u.get(path); status != http.StatusOK || !bytes.Contains(body, []byte(part)) {
		u.t.Fatalf("%s: %d %.300s", path, status, body)
	}
}

// untilFound repeats a request until the answer contains a text, for ten minutes at most.
func (u grownUser) untilFound(path, part string) time.Time {
	u.t.Helper()
	for end := time.Now().Add(10 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		_, body := u.get(path)
		if bytes.Contains(body, []byte(part)) {
			return time.Now()
		}
		if time.Now().After(end) {
			u.t.Fatalf("%s is not found: %.300s", part, body)
		}
	}
}

// timed prints the median and the maximum time of a hundred answers.
func (u grownUser) timed(what, path string) {
	u.t.Helper()
	var all []time.Duration
	for range 100 {
		began := time.Now()
		u.want(path, "")
		all = append(all, time.Since(began))
	}
	slices.SortFunc(all, cmp.Compare)
	u.t.Logf("%s: median %v, longest %v", what, all[50].Round(10*time.Microsecond), all[99].Round(10*time.Microsecond))
}

// memory returns a line of /proc/PID/status in MiB; 0 if there is none.
func memory(t *testing.T, pid int, line string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for l := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(l, line); ok {
			kib := must(strconv.Atoi(strings.Fields(rest)[0]))(t)
			return kib >> 10
		}
	}
	return 0
}
