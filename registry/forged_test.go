// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/statictoken"
)

// forgedManifests answers for one repository with another's manifests, as if pushed by an attacker:
// their blobs are not there.
func forgedManifests(to, from string) *ocitest.Fault {
	return &ocitest.Fault{Times: -1, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		r = r.Clone(r.Context())
		if rest, ok := strings.CutPrefix(r.URL.Path, "/v2/"+to+"/"); ok && !strings.HasPrefix(rest, "blobs/") {
			r.URL.Path = "/v2/" + from + "/" + rest
		}
		return next.RoundTrip(r)
	}}
}

// TestForgedArchives: a public repository's manifests name a private one's digests, whose archives
// are cached. No link, and no replica on the directory, finds them through the public one.
func TestForgedArchives(t *testing.T) {
	tests := map[string]struct{ private, public, glob, location string }{
		"module":   {"shut/vpc/aws", "open/vpc/aws", "open/**", "/v1/modules/open/vpc/aws/1.0.0/download"},
		"provider": {"shut/dns", "open/dns", "open/**", "/v1/providers/open/dns/1.0.0/download/linux/amd64"},
		"mirror": {
			"registry.opentofu.org/shut/dns", "registry.opentofu.org/open/dns", "registry.opentofu.org/open/**",
			"/origin/registry.opentofu.org/v1/providers/open/dns/1.0.0/download/linux/amd64",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			layout := addr.Layout{Prefix: "acme"}
			private, public := must.Fixed(addr.ParseItem(tt.private)), must.Fixed(addr.ParseItem(tt.public))
			host, dir := ocitest.New(t, ocitest.Quirks{}), t.TempDir()
			start := func() *front {
				return newFrontAt(t, host, forgedManifests(public.Repository(layout), private.Repository(layout)), func(o *server.Options) {
					o.Blobs = cache.BlobOptions{Dir: dir, Bytes: 1 << 24}
					o.Access = access.Policy{
						Anonymous: []rights.Scope{{Action: rights.Read, Kind: rights.Kind(public.Kind), Glob: tt.glob}},
						Tokens:    []statictoken.Token{newToken(t, adminToken, "admin:*:**")},
					}
				})
			}
			f := start()
			noise := make([]byte, 100_000)
			_, _ = rand.Read(noise)
			var archive []byte
			if private.Kind == addr.KindModule {
				archive = f.module(t, tt.private, "1.0.0", map[string]string{"main.tf": "", "noise": string(noise)})
			} else {
				archive = f.provider(t, release{address: tt.private, version: "1.0.0"}).zips["linux_amd64"]
			}
			location := strings.Replace(tt.location, "open/", "shut/", 1)
			f.download(t, f.archiveLink(t, location, adminToken), archive)
			waitFor(t, exists(cacheFile(dir, private.Repository(layout), archive)))
			for _, f := range []*front{f, start()} {
				link := f.archiveLink(t, tt.location, "")
				word := strings.Replace(link.Path, strings.Split(link.Path, "/")[2], "public", 1)
				for _, at := range []*url.URL{link, link.ResolveReference(&url.URL{Path: word})} {
					resp, body := ask(t, http.MethodGet, at)
					if resp.StatusCode != http.StatusNotFound || bytes.Contains(body, archive) {
						t.Errorf("%s: %d with %d bytes, %d of which are the private archive", at.Path, resp.StatusCode, len(body), len(archive))
					}
				}
				f.count.Take()
				f.download(t, f.archiveLink(t, location, adminToken), archive)
				if n := f.count.Take(); n["GET blob"]+n["HEAD blob"] != 0 {
					t.Errorf("for its own reader the registry is asked again: %v", n)
				}
			}
		})
	}
}

// archiveLink returns the link of the archive in an answer about a version.
func (f *front) archiveLink(t *testing.T, location, token string) *url.URL {
	t.Helper()
	var header []string
	if token != "" {
		header = []string{"Authorization", "Bearer " + token}
	}
	at := f.url(t, location)
	resp, body := ask(t, http.MethodGet, at, header...)
	link := resp.Header.Get("X-Terraform-Get")
	if link == "" && resp.StatusCode == http.StatusOK {
		link = decode[struct {
			URL string `json:"download_url"`
		}](t, body).URL
	}
	if link == "" {
		t.Fatalf("%s: %d %s", at, resp.StatusCode, body)
	}
	return must.Fixed(at.Parse(link))
}
