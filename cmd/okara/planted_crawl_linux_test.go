// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

var (
	hiddenFields = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
	pageLinks    = regexp.MustCompile(`(?:href|src|action)="([^"]+)"`)
)

// maxCrawled bounds the pages of one caller.
const maxCrawled = 500

// crawl requests, as every caller, all unlinked addresses, and everything that pages link to.
func (w *planted) crawl(t *testing.T, id string) {
	t.Helper()
	at := "/api/v1/instances/" + id
	seeds := []string{
		"/", "/ui/", "/ui/search?q=vpc", "/ui/templates", "/ui/run/lab/vpc", "/ui/instances", "/ui/instances/" + id, "/ui/instances/" + id + "/runs/1",
		"/ui/approvals", "/ui/admin/instances", "/ui/admin/templates", "/ui/states", "/ui/states/shop/default/1/resources?address=aws_db_instance.main",
		"/ui/states/shop/default/diff?from=1&to=1", "/ui/me", "/metrics", "/healthz", "/readyz", "/.well-known/terraform.json",
		"/v1/modules/net/vpc/aws/versions", "/v2/_catalog", "/api/v1/search?q=vpc", "/api/v1/templates", "/api/v1/templates/lab/vpc",
		"/api/v1/instances", "/api/v1/me", "/api/v1/admin/instances", "/api/v1/admin/templates", at, at + "/outputs", at + "/runs", at + "/runs/1",
		at + "/runs/1/plan", at + "/runs/1/log", "/api/v1/run/lab/vpc/status",
	}
	for n := 2; n <= 4; n++ {
		run := fmt.Sprintf("/runs/%d", n)
		seeds = append(seeds, "/ui/instances/"+id+run, at+run, at+run+"/plan", at+run+"/log")
	}
	for name, who := range w.callers() {
		seen, shown := map[string]int{}, 0
		for next := append([]string{}, seeds...); len(next) > 0 && len(seen) < maxCrawled; next = next[1:] {
			path := next[0]
			if _, done := seen[path]; done {
				continue
			}
			resp, b := w.send(t, who, "GET", path, "")
			seen[path] = resp.StatusCode
			if resp.StatusCode == http.StatusOK {
				shown++
			}
			if resp.StatusCode >= 500 {
				t.Errorf("%s gets %s: %d %s", name, path, resp.StatusCode, b)
			}
			w.clean(t, fmt.Sprintf("%s gets %s: %d", name, path, resp.StatusCode), fmt.Appendf(b, "\n%v", resp.Header))
			if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
				next = append(next, linksOf(w.server.url+path, w.server.url, b)...)
			}
		}
		if shown < 5 || who != "" && shown < 25 || len(seen) >= maxCrawled {
			t.Errorf("%s saw %d of %d pages: %v", name, shown, len(seen), seen)
		}
	}
}

// linksOf returns the links of a page to this server.
func linksOf(page, base string, body []byte) (paths []string) {
	from, err := url.Parse(page)
	if err != nil {
		return nil
	}
	for _, m := range pageLinks.FindAllSubmatch(body, -1) {
		to, err := from.Parse(html.UnescapeString(string(m[1])))
		if err != nil {
			continue
		}
		to.Fragment = ""
		if path, ok := strings.CutPrefix(to.String(), base); ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// stored reads every file of the server's storage, raw and decompressed.
func (w *planted) stored(t *testing.T) {
	t.Helper()
	files, expanded := 0, 0
	err := filepath.WalkDir(w.storage, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		within, _ := filepath.Rel(w.storage, name)
		w.clean(t, within, b)
		for _, more := range expand(b, 3) {
			expanded++
			w.clean(t, within+", expanded", more)
		}
		return nil
	})
	if err != nil || files < 20 || expanded == 0 {
		t.Errorf("%d files were read, %d expanded: %v", files, expanded, err)
	}
}

// expand returns the decompressed contents of bytes.
func expand(b []byte, depth int) (all [][]byte) {
	if depth == 0 {
		return nil
	}
	add := func(r io.Reader) {
		if more, _ := io.ReadAll(io.LimitReader(r, 64<<20)); len(more) > 0 { // truncated content counts up to its end
			all = append(append(all, more), expand(more, depth-1)...)
		}
	}
	switch {
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b}):
		if r, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
			add(r)
		}
	case bytes.HasPrefix(b, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		if r, err := zstd.NewReader(bytes.NewReader(b)); err == nil {
			add(r)
			r.Close()
		}
	case bytes.HasPrefix(b, []byte("PK\x03\x04")):
		z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return nil
		}
		for _, f := range z.File {
			if r, err := f.Open(); err == nil {
				add(r)
				r.Close()
			}
		}
	}
	return all
}
