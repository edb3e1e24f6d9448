// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// bubble runs f with a clock that only sleeping advances.
func bubble(t *testing.T, f func(t *testing.T)) {
	now := time.Now()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now) + time.Second)
		f(t)
	})
}

// newOffline is newFront without a network, over the registry h.
func newOffline(t testing.TB, h http.Handler, change func(*server.Options)) *front {
	t.Helper()
	o := server.Options{
		Options: registry.Options{
			Client: newClient(t, "registry.test", oci.Options{Transport: ocitest.Direct{Handler: h}, PlainHTTP: true}), Layout: addr.Layout{Prefix: "acme"},
		},
		Access: access.Policy{Anonymous: rights.AnonymousRead()}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}},
	}
	if change != nil {
		change(&o)
	}
	front := &front{client: o.Client, layout: o.Layout}
	var err error
	if front.handler, err = server.New(o); err != nil {
		t.Fatal(err)
	}
	return front
}

// ask answers one request to a front-end without a network.
func (f *front) ask(path string) *http.Response {
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://okara.test"+path, nil))
	return w.Result()
}

// get is ask for a successful answer.
func (f *front) get(t testing.TB, path string) []byte {
	t.Helper()
	resp := f.ask(path)
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s, %v", path, resp.Status, body, err)
	}
	return body
}

// origin is a registry of providers that counts, and lies.
type origin struct {
	base   http.RoundTripper
	change func(r *http.Request, resp *http.Response) // nil: unchanged

	mu    sync.Mutex // guards asked
	asked []string   // last parts of the paths
}

func (o *origin) RoundTrip(r *http.Request) (*http.Response, error) {
	o.mu.Lock()
	o.asked = append(o.asked, path.Base(r.URL.Path))
	o.mu.Unlock()
	resp, err := o.base.RoundTrip(r)
	if err == nil && o.change != nil {
		o.change(r, resp)
	}
	return resp, err
}

// always is a transport that does the same for each request.
type always ocitest.Act

func (a always) RoundTrip(r *http.Request) (*http.Response, error) { return a(r, nil) }

// take returns and forgets how many requests had this suffix.
func (o *origin) take(end string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, a := range o.asked {
		if strings.HasSuffix(a, end) {
			n++
		}
	}
	o.asked = nil
	return n
}

// source reads all providers from the origin.
func (o *origin) source() depot.Source {
	base := &url.URL{Scheme: "https", Host: "origin.test", Path: "/v1/providers/"}
	return &upstream.Registry{Client: &upstream.Client{HTTP: &http.Client{Transport: o}}, Base: base}
}

// newOrigin has two versions of acme/dns, and 1.2.0's zips.
func newOrigin(t testing.TB) (*origin, map[string][]byte) {
	t.Helper()
	f := newOffline(t, ocitest.Handler(t, ocitest.Quirks{}), nil)
	f.provider(t, release{address: "acme/dns", version: "1.0.0", bare: true})
	rel := f.provider(t, release{address: "acme/dns", version: "1.2.0", bare: true, protocols: []string{"6.0"}, platforms: []string{"linux_amd64", "darwin_arm64", "windows_amd64"}})
	return &origin{base: ocitest.Direct{Handler: f.handler}}, rel.zips
}

// pullFrom configures pull-through of everything below example.com/acme.
func pullFrom(o *origin) func(*server.Options) {
	return func(opt *server.Options) {
		opt.PullThrough = []registry.PullRule{{Providers: "example.com/acme/*", Origin: o.source()}}
	}
}

const (
	pulledMirror = "/mirror/example.com/acme/dns/"
	pulledOrigin = "/origin/example.com/v1/providers/acme/dns/"
	pulledRepo   = "acme/mirror/example.com/acme/dns"
)

type mirrorArchives struct {
	Archives map[string]struct {
		URL    string
		Hashes []string
	}
}

// archive returns the link of a platform of version 1.2.0.
func (f *front) archive(t testing.TB, platform string) string {
	t.Helper()
	doc := decode[mirrorArchives](t, f.get(t, pulledMirror+"1.2.0.json"))
	return path.Join(pulledMirror, doc.Archives[platform].URL)
}

// start runs the jobs of a front-end until the returned function is called.
func (f *front) start(t testing.TB) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { f.handler.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}
