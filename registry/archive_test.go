// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// moduleLink publishes a module of about size bytes: archive and link.
func (f *front) moduleLink(t testing.TB, size int) ([]byte, *url.URL) {
	t.Helper()
	noise := make([]byte, size)
	rand.Read(noise) // never fails
	archive := f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": "", "noise": string(noise)})
	return archive, f.link(t)
}

// link returns the link of the test module in the front-end's answer.
func (f *front) link(t testing.TB) *url.URL {
	t.Helper()
	c := &tofutest.Client{Tool: tofutest.Terraform()}
	return must.Fixed(c.ModuleLocation(t.Context(), f.url(t, "/v1/modules/"), "net/vpc/aws", "1.0.0"))
}

func ask(t testing.TB, method string, u *url.URL, header ...string) (*http.Response, []byte) {
	t.Helper()
	r := must.Fixed(http.NewRequestWithContext(t.Context(), method, u.String(), nil))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp := must.Fixed(client.Do(r))
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // some tests have a truncated body
	return resp, body
}

func TestArchiveRanges(t *testing.T) {
	for _, q := range []ocitest.Quirks{{}, {NoRange: true}} {
		f := newFrontAt(t, ocitest.New(t, q), nil, nil)
		archive, u := f.moduleLink(t, 300_000)
		etag := `"sha256:` + hexSum(archive) + `"`
		size := len(archive)
		tests := []struct {
			name   string
			header []string
			status int
			want   []byte
		}{
			{"whole", nil, 200, archive},
			{"first bytes", []string{"Range", "bytes=0-9"}, 206, archive[:10]},
			{"middle", []string{"Range", "bytes=100000-199999"}, 206, archive[100000:200000]},
			{"rest", []string{"Range", "bytes=250000-"}, 206, archive[250000:]},
			{"last bytes", []string{"Range", "bytes=-7"}, 206, archive[size-7:]},
			{"behind the end", []string{"Range", "bytes=9999999-"}, 416, nil},
			{"two ranges", []string{"Range", "bytes=0-1,5-6"}, 200, archive},
			{"if-range same", []string{"Range", "bytes=0-9", "If-Range", etag}, 206, archive[:10]},
			{"if-range other", []string{"Range", "bytes=0-9", "If-Range", `"x"`}, 200, archive},
			{"known", []string{"If-None-Match", etag}, 304, nil},
			{"other known", []string{"If-None-Match", `"x"`}, 200, archive},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				resp, body := ask(t, http.MethodGet, u, tt.header...)
				if resp.StatusCode != tt.status {
					t.Fatalf("status %d, want %d: %s", resp.StatusCode, tt.status, body)
				}
				if tt.want != nil && !bytes.Equal(body, tt.want) {
					t.Errorf("%d bytes, not the %d wanted", len(body), len(tt.want))
				}
				if tt.status < 400 && resp.Header.Get("Etag") != etag {
					t.Errorf("ETag %s, want %s", resp.Header.Get("Etag"), etag)
				}
			})
		}
		resp, _ := ask(t, http.MethodHead, u)
		if resp.StatusCode != 200 || resp.ContentLength != int64(size) || resp.Header.Get("Accept-Ranges") != "bytes" {
			t.Errorf("HEAD: %d, length %d, ranges %q", resp.StatusCode, resp.ContentLength, resp.Header.Get("Accept-Ranges"))
		}
		for name, want := range map[string]string{
			"Content-Type": "application/zip", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Terraform-Get": "",
		} {
			must.Equal(t, name, resp.Header.Get(name), want)
		}
		if cc := resp.Header.Get("Cache-Control"); !strings.HasPrefix(cc, "private, max-age=1") || !strings.HasSuffix(cc, ", immutable") {
			t.Errorf("Cache-Control: %q", cc)
		}
	}
}

// TestArchiveRedirect: clients go to the registry's storage, not for HEAD, or get a stream.
func TestArchiveRedirect(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{RedirectBlobs: "https://storage.example.com/blobs/"})
	f := newFrontAt(t, host, nil, nil)
	archive, u := f.moduleLink(t, 1000)
	resp, _ := ask(t, http.MethodGet, u)
	if want := "https://storage.example.com/blobs/"; resp.StatusCode != 307 || !strings.HasPrefix(resp.Header.Get("Location"), want) {
		t.Errorf("GET: %d to %q, want 307 to %s", resp.StatusCode, resp.Header.Get("Location"), want)
	}
	if resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("Etag") != "" {
		t.Errorf("headers of the redirect: %v", resp.Header)
	}
	resp, _ = ask(t, http.MethodHead, u)
	if resp.StatusCode != 200 || resp.ContentLength != int64(len(archive)) {
		t.Errorf("HEAD: %d, length %d", resp.StatusCode, resp.ContentLength)
	}
}

// TestArchiveVerifiedByClient: a zip is not hashed for a tool that does it, unless a cache could
// serve it on, or the link lacks the sum.
func TestArchiveVerifiedByClient(t *testing.T) {
	lie := &ocitest.Fault{Match: ocitest.On("GET", "blob"), Times: -1, Do: ocitest.Corrupt}
	const at = "/v1/providers/acme/dns/1.2.3/download/linux/amd64"
	host := ocitest.New(t, ocitest.Quirks{})
	open, f := newFrontAt(t, host, lie, nil), newFrontAt(t, host, lie, private(t))
	f.provider(t, release{address: "acme/dns", version: "1.2.3"})
	provider, public := f.archiveLink(t, at, readerToken).String(), open.archiveLink(t, at, "")
	public.Path = strings.Replace(public.Path, strings.Split(public.Path, "/")[2], "public", 1)
	_, module := open.moduleLink(t, 300_000)
	whole := func(u, agent string) bool {
		t.Helper()
		req := must.Fixed(http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil))
		req.Header.Set("User-Agent", agent)
		resp := must.Fixed(http.DefaultClient.Do(req))
		defer resp.Body.Close()
		_, err := io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusOK
	}
	for _, tt := range []struct {
		url, agent string
		whole      bool
	}{
		{provider, "OpenTofu/1.12.6 (+https://www.opentofu.org)", true},
		{provider, "Terraform/1.16.0 (+https://www.terraform.io)", true},
		{provider, "curl/8.0", false},
		{public.String(), "OpenTofu/1.12.6 (+https://www.opentofu.org)", false},
		{module.String(), "OpenTofu/1.12.6 (+https://www.opentofu.org)", true},
		{module.String(), "Terraform/1.16.0 (+https://www.terraform.io)", false},
		{module.String(), "Go-http-client/1.1", false},
		{strings.Replace(module.String(), strings.Split(module.Path, "/")[2], "auth", 1), "OpenTofu/1.12.6 (+https://www.opentofu.org)", false},
	} {
		if got := whole(tt.url, tt.agent); got != tt.whole {
			t.Errorf("%s for %s: wrong bytes as a whole is %t, want %t", tt.url, tt.agent, got, tt.whole)
		}
	}
}

// TestCrawl shows that every URL in every answer works for HEAD and GET, and
// none has an empty path segment or a host name.
//
// Shows: registries 5 | an address in an answer that is not served | artifact-keeper#2647
func TestCrawl(t *testing.T) {
	f := newFront(t, nil)
	f.moduleLink(t, 100)
	f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	f.provider(t, release{address: "registry.opentofu.org/hashicorp/time", version: "1.0.0"})
	for _, path := range []string{
		"/v1/providers/acme/dns/1.0.0/download/linux/amd64",
		"/origin/registry.opentofu.org/v1/providers/hashicorp/time/1.0.0/download/linux/amd64",
		"/mirror/registry.opentofu.org/hashicorp/time/1.0.0.json",
	} {
		at := f.url(t, path)
		_, body := ask(t, http.MethodGet, at)
		refs := urls(t, body)
		if len(refs) == 0 {
			t.Errorf("%s: no URL in %s", path, body)
		}
		for _, ref := range refs {
			if !strings.HasPrefix(ref, "../") || strings.Contains(ref, "//") {
				t.Errorf("%s: %s is not a clean relative reference", path, ref)
			}
			u := must.Fixed(at.Parse(ref))
			head, _ := ask(t, http.MethodHead, u)
			get, content := ask(t, http.MethodGet, u)
			if head.StatusCode != 200 || get.StatusCode != 200 || head.ContentLength != int64(len(content)) {
				t.Errorf("%s: HEAD %d, GET %d, %d and %d bytes", ref, head.StatusCode, get.StatusCode, head.ContentLength, len(content))
			}
		}
	}
}
