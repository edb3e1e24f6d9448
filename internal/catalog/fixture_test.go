// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// store is a registry with a depot that fills it and a catalog that reads it.
type store struct {
	*catalog.Catalog
	depot    *depot.Depot
	client   *oci.Client // for publishing; its requests are not counted
	layout   addr.Layout
	dangling *ocitest.DanglingTags
	count    *ocitest.Count
	passed   *atomic.Int64 // time since the start of the test
	log      *log
}

// log is a log that can be read and written concurrently.
type log struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// newStore starts a registry in memory. change adjusts the options of the catalog.
func newStore(t *testing.T, change func(*catalog.Options)) *store {
	t.Helper()
	return newStoreOver(t, nil, change)
}

// newStoreOver is newStore with a transport that may break the catalog's requests.
func newStoreOver(t *testing.T, transport http.RoundTripper, change func(*catalog.Options)) *store {
	t.Helper()
	s := &store{
		layout: addr.Layout{Prefix: "acme"}, count: &ocitest.Count{Base: transport}, passed: &atomic.Int64{}, log: &log{},
		dangling: &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})},
	}
	server := httptest.NewServer(s.dangling)
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	s.client = must.Fixed(oci.New(host, oci.Options{PlainHTTP: true}))
	s.depot = depot.New(depot.Options{Client: s.client, Layout: s.layout})
	start := time.Now()
	o := catalog.Options{
		Client: must.Fixed(oci.New(host, oci.Options{PlainHTTP: true, Transport: s.count, Retry: oci.Retry{MaxAttempts: 1}})),
		Layout: s.layout, Logger: slog.New(slog.NewTextHandler(s.log, nil)),
		Now: func() time.Time { return start.Add(time.Duration(s.passed.Load())) },
	}
	if change != nil {
		change(&o)
	}
	s.Catalog = catalog.New(o)
	return s
}

// pass moves the clock of the catalog.
func (s *store) pass(d time.Duration) { s.passed.Add(int64(d)) }

// requests returns the number of requests of f to the registry by "METHOD kind".
func (s *store) requests(f func()) map[string]int {
	s.count.Take()
	f()
	return s.count.Take()
}

func (s *store) module(t *testing.T, address, version string) depot.Published {
	t.Helper()
	m := addr.ModuleVersion{Module: must.Fixed(addr.ParseModule(address)), Version: must.Fixed(addr.ParseVersion(version))}
	tree := fstest.MapFS{"main.tf": {Data: []byte("# " + version + "\noutput \"x\" { value = 1 }\n")}}
	return must.Get(s.depot.PublishModule(t.Context(), tree, m, depot.ModuleOptions{}))(t)
}

// signer is one key for all tests, since making one takes a while.
var signer = sync.OnceValue(func() *signing.Key {
	return must.Fixed(signing.NewKey(signing.KeyOptions{Name: "okara test", Email: "test@example.com", ECC: true}))
})

func (s *store) provider(t *testing.T, address, version string, o depot.ProviderOptions, platforms ...string) depot.Published {
	t.Helper()
	p, v := must.Fixed(addr.ParseProvider(address)), must.Fixed(addr.ParseVersion(version))
	dist := fstest.MapFS{}
	for _, platform := range platforms {
		name := fmt.Sprintf("terraform-provider-%s_%s_%s.zip", p.Type, version, platform)
		dist[name] = &fstest.MapFile{Data: newZip("terraform-provider-"+p.Type+"_v"+version, "binary for "+platform)}
	}
	if o.SignKey == nil {
		o.SignKey = signer()
	}
	return must.Get(s.depot.PublishProvider(t.Context(), dist, p, v, o))(t)
}

func newZip(name, text string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	h := &zip.FileHeader{Name: name}
	h.SetMode(0o755)
	f := must.Fixed(w.CreateHeader(h))
	must.Fixed(f.Write([]byte(text)))
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func (s *store) repo(name string) *oci.Repo { return must.Fixed(s.client.Repo(name)) }

// event writes a status event about a version.
func (s *store) event(t *testing.T, repository, action, version string) {
	t.Helper()
	e := evidence.StatusEvent{Action: action, Version: version, Message: "a test", Time: time.Now()}
	must.Get(evidence.PutStatusEvent(t.Context(), s.repo(repository), e))(t)
}

// foreign puts a manifest under a tag that is neither a module nor a provider.
func (s *store) foreign(t *testing.T, repository, tag string) {
	t.Helper()
	r, empty := s.repo(repository), oci.EmptyBlob()
	root := must.Fixed(artifact.NewProviderTarget(empty.Descriptor, "x.zip"))
	must.Get(r.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{empty}, Root: root}))(t)
	must.Succeed(t, r.PutTag(t.Context(), tag, root))
}

// listed returns the versions of a module that are served, highest first.
func (s *store) listed(t *testing.T, address string) []string {
	t.Helper()
	l := must.Get(s.Versions(t.Context(), must.Fixed(addr.ParseModule(address)).Item()))(t)
	return texts(l.Listed)
}

func (s *store) version(ctx context.Context, address, version string) (*catalog.ModuleVersion, error) {
	return s.ModuleVersion(ctx, must.Fixed(addr.ParseModule(address)), must.Fixed(addr.ParseVersion(version)))
}

func (s *store) providerVersion(ctx context.Context, address, version string) (*catalog.ProviderVersion, error) {
	return s.ProviderVersion(ctx, must.Fixed(addr.ParseProvider(address)), must.Fixed(addr.ParseVersion(version)))
}

func texts(versions []addr.Version) []string {
	list := make([]string, 0, len(versions))
	for _, v := range versions {
		list = append(list, v.String())
	}
	return list
}
