// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// newRelease returns a folder with a package for each platform.
func newRelease(t *testing.T, platforms ...string) fstest.MapFS {
	t.Helper()
	dist := fstest.MapFS{"artifacts.json": {Data: []byte("[]")}}
	for _, p := range platforms {
		dist["terraform-provider-dns_1.0.0_"+p+".zip"] = &fstest.MapFile{Data: depottest.ZipOf(t, map[string]string{"terraform-provider-dns": "binary for " + p})}
	}
	return dist
}

// uploads records which files a front-end accepted.
type uploads struct {
	mu   sync.Mutex // guards the fields below
	seen map[string]bool
	stop func(done int) // called after each file
}

type answered struct {
	http.ResponseWriter
	status int
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (u *uploads) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answered{ResponseWriter: w}
		next.ServeHTTP(a, r)
		if r.Method != http.MethodPut || a.status != http.StatusCreated {
			return
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.seen[path.Base(r.URL.Path)] = true
		if u.stop != nil {
			u.stop(len(u.seen))
		}
	})
}

func (u *uploads) take() map[string]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	seen := u.seen
	u.seen = map[string]bool{}
	return seen
}

// TestProvider publishes a release, again, and with one platform more, as into a registry.
func TestProvider(t *testing.T) {
	u := &uploads{seen: map[string]bool{}}
	s := newServer(t, u.around)
	key := must.Fixed(signing.NewKey(signing.KeyOptions{Name: "test", Email: "test@example.com", ECC: true}))
	p, v := must.Fixed(addr.ParseProvider("acme/dns")), must.Fixed(addr.ParseVersion("1.0.0"))
	dist := newRelease(t, "linux_amd64", "darwin_arm64")
	dist["terraform-provider-dns_1.0.0_manifest.json"] = &fstest.MapFile{Data: []byte(`{"version":1,"metadata":{"protocol_versions":["6.0"]}}`)}
	dist["docs/index.md"] = &fstest.MapFile{Data: []byte("# dns\n")}
	o := depot.ProviderOptions{SignKey: key, Annotations: map[string]string{artifact.AnnSource: "https://example.com/acme/dns"}}
	c := s.client(nil)
	out, err := c.PublishProvider(t.Context(), dist, p, v, o)
	if err != nil || out.Existing {
		t.Fatalf("%+v, %v", out, err)
	}
	if got := u.take(); len(got) != 6 {
		t.Errorf("sent %v, want two packages, SHA256SUMS, its signature, the manifest and the documentation", got)
	}
	if straight := must.Fixed(s.depot.PublishProvider(t.Context(), dist, p, v, o)); out.ContentDigest != straight.ContentDigest {
		t.Errorf("through the front-end %+v, straight %+v", out, straight)
	}
	if again, err := c.PublishProvider(t.Context(), dist, p, v, o); err != nil || !again.Existing || again.Digest != out.Digest {
		t.Errorf("again: %+v, %v", again, err)
	}
	for name := range u.take() {
		if strings.HasSuffix(name, ".zip") {
			t.Errorf("%s was sent again", name)
		}
	}
	more := newRelease(t, "linux_amd64", "darwin_arm64", "windows_amd64")
	more["terraform-provider-dns_1.0.0_manifest.json"] = dist["terraform-provider-dns_1.0.0_manifest.json"]
	if _, err := c.PublishProvider(t.Context(), more, p, v, o); !errors.Is(err, oci.ErrExists) {
		t.Errorf("one more platform: %v, want a conflict", err)
	}
	o.Extend = true
	if out, err := c.PublishProvider(t.Context(), more, p, v, o); err != nil || out.Existing {
		t.Errorf("extended: %+v, %v", out, err)
	}
	if _, err := c.PublishProvider(t.Context(), dist, p, v, depot.ProviderOptions{}); !errors.Is(err, trust.ErrUnsigned) {
		t.Errorf("no key: %v", err)
	}
}

// TestProviderCut: nothing is visible after a cut; the next client sends only the rest.
func TestProviderCut(t *testing.T) {
	u := &uploads{seen: map[string]bool{}}
	s := newServer(t, u.around)
	key := must.Fixed(signing.NewKey(signing.KeyOptions{Name: "test", Email: "test@example.com", ECC: true}))
	p, v := must.Fixed(addr.ParseProvider("acme/dns")), must.Fixed(addr.ParseVersion("1.0.0"))
	var platforms []string
	for i := range 20 {
		platforms = append(platforms, fmt.Sprintf("os%d_amd64", i))
	}
	dist, o := newRelease(t, platforms...), depot.ProviderOptions{SignKey: key}
	ctx, cancel := context.WithCancel(t.Context())
	u.stop = func(done int) {
		if done == 2 {
			cancel()
		}
	}
	if _, err := s.client(nil).PublishProvider(ctx, dist, p, v, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want that it was cancelled", err)
	}
	first := u.take()
	if len(first) == len(platforms) {
		t.Fatal("everything was sent before the end")
	}
	if _, err := s.client(nil).SignCosign(t.Context(), client.ProviderPath(p), v, must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("the version after the cut: %v, want none", err)
	}
	must.Get(s.client(nil).PublishProvider(t.Context(), dist, p, v, o))(t)
	second := u.take()
	for name := range second {
		if first[name] {
			t.Errorf("%s was sent again", name)
		}
	}
	const cut = 3 // files in transit, which may have arrived without an answer
	if n := len(first) + len(second); n < len(platforms)+2-cut || n > len(platforms)+2 {
		t.Errorf("first %v, then %v", first, second)
	}
}
