// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/registry"
)

// TestForgedManifest: a public repository's manifests name a private one's digests. Pages that have
// cached the private content must not show it.
func TestForgedManifest(t *testing.T) {
	s := newSiteOf(t, nil, access.Policy{Tokens: callers(), Anonymous: []rights.Scope{
		{Action: rights.Read, Kind: addr.KindModule, Glob: "open/**"}, {Action: rights.Read, Kind: addr.KindProvider, Glob: "open/**"},
	}}, func(o *registry.Options) { o.Blobs = cache.BlobOptions{Dir: t.TempDir(), Bytes: 1 << 20} })
	secret := map[string]string{"README.md": "# X\n\nThe readme is private.\n", "main.tf": "# the file is private\nvariable \"private_input\" {}\n", "private.tf": "# and its name\n"}
	s.module(t, "shut/vpc/aws", "1.10.0", secret)
	s.vouch(t, "shut/vpc/aws", "1.10.0")
	noise := make([]byte, 64<<10) // small layers are part of the manifest
	_, _ = rand.Read(noise)
	dist := depottest.NewDist(t, "linux_amd64")
	dist["docs/resources/record.md"] = &fstest.MapFile{Data: []byte("# dns_record\n\nThe record is private.\n")}
	dist["docs/guides/noise.md"] = &fstest.MapFile{Data: []byte(hex.EncodeToString(noise))}
	key := depottest.NewKey(t, signing.KeyOptions{Name: "okara test", Email: "test@example.com", ECC: true})
	must.Get(s.depot.PublishProvider(t.Context(), dist, depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: key}))(t)
	private, public := regexp.MustCompile(`/(open/vpc/aws)/(manifests|referrers|tags)/`), regexp.MustCompile(`/(open/dns)/(manifests|referrers|tags)/`)
	s.count.Base = &ocitest.Fault{Times: -1, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Path = private.ReplaceAllString(r.URL.Path, "/shut/vpc/aws/$2/")
		r.URL.Path = public.ReplaceAllString(r.URL.Path, "/acme/dns/$2/")
		return next.RoundTrip(r)
	}}
	pages := map[string]string{ // pages of the module, and the private content there
		"": "The readme is private", "/inputs": "private_input", "/security": "AVD-AWS-0000", "/files": "private.tf", "/files/main.tf": "the file is private",
	}
	docs := "/docs/resources/record"
	for page, text := range pages {
		if status, body, _ := s.as(t, "admin", "/ui/modules/shut/vpc/aws/1.10.0"+page); status != http.StatusOK || !strings.Contains(body, text) {
			t.Fatalf("the private %q is %d and lacks %q", page, status, text)
		}
	}
	if status, body, _ := s.as(t, "admin", "/ui/providers/acme/dns/1.2.3"+docs); status != http.StatusOK || !strings.Contains(body, "The record is private") {
		t.Fatalf("the private documentation is %d", status)
	}
	for page := range pages {
		status, body, _ := s.as(t, "", "/ui/modules/open/vpc/aws/1.10.0"+page)
		for _, text := range pages {
			if strings.Contains(body, text) {
				t.Errorf("%q of the forged module is %d and has %q", page, status, text)
			}
		}
	}
	if status, body, _ := s.as(t, "", "/ui/providers/open/dns/1.2.3"+docs); strings.Contains(body, "The record is private") {
		t.Errorf("the documentation of the forged provider is %d", status)
	}
}
