// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
	"github.com/seed-141914ff/okara/registry"
)

// TestPullThroughAllows: what no rule allows is 404, unasked.
func TestPullThroughAllows(t *testing.T) {
	from, _ := newOrigin(t)
	f := newOffline(t, ocitest.Handler(t, ocitest.Quirks{}), func(o *server.Options) {
		o.Hostname = "okara.test"
		o.PullThrough = []registry.PullRule{
			{Providers: "example.com/acme/d*", Versions: must.Fixed(addr.ParseConstraint("< 1.1")), Origin: from.source(),
				Mirror: depot.MirrorOptions{Platforms: []addr.Platform{{OS: "linux", Arch: "amd64"}}}},
			{Providers: "example.com/acme/*", Origin: from.source()}, // the first match decides
		}
	})
	for path, want := range map[string]int{
		"/mirror/example.org/acme/dns/index.json":                                                                            404,
		"/mirror/example.com/other/dns/index.json":                                                                           404,
		"/mirror/example.com:8443/acme/dns/index.json":                                                                       404,
		"/mirror/okara.test/acme/dns/index.json":                                                                             404,
		pulledMirror + "1.2.0.json":                                                                                          404,
		pulledMirror + "1.0.0-rc1.json":                                                                                      404,
		pulledMirror + "..%2f1.0.0.json":                                                                                     404,
		pulledOrigin + "1.2.0/download/linux/amd64":                                                                          404,
		pulledOrigin + "1.0.0/download/windows/amd64":                                                                        404,
		"/v1/providers/acme/dns/versions":                                                                                    404,
		"/archives/public/" + pulledRepo + "/" + hexSum(nil) + "/x.zip":                                                      404,
		"/archives/public/acme/dns/" + hexSum(nil) + "/x_1.0.0_linux_amd64.zip":                                              404,
		"/archives/public/" + pulledRepo + "/" + hexSum(nil) + "/terraform-provider-dns_1.2.0_linux_amd64.zip":               404,
		"/archives/public/" + pulledRepo + "/" + hexSum(nil) + "/terraform-provider-dns_1.2.0+x_linux_amd64.zip":             404,
		"/archives/public/acme/mirror/example.org/acme/dns/" + hexSum(nil) + "/terraform-provider-dns_1.0.0_linux_amd64.zip": 404,
	} {
		if resp := f.ask(path); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
		must.Equal(t, path+": requests to the origin", from.take(""), 0)
	}
	// An allowed version, to show that the others fail for the right reason.
	must.Equal(t, "index.json", string(f.get(t, pulledMirror+"index.json")), `{"versions":{"1.0.0":{}}}`+"\n")
	f.get(t, pulledOrigin+"1.0.0/download/linux/amd64")
	from.take("")
	// A link to another hash than the verified one.
	resp := f.ask("/archives/public/" + pulledRepo + "/" + hexSum(nil) + "/terraform-provider-dns_1.0.0_linux_amd64.zip")
	if resp.StatusCode != 404 || from.take(".zip") != 0 {
		t.Errorf("a hash that nobody signed: %s", resp.Status)
	}
}

// TestPullThroughRestores removes a stored package: the client gets the origin's, the registry gets
// it back, later if the origin is away.
func TestPullThroughRestores(t *testing.T) {
	from, zips := newOrigin(t)
	up := from.base
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		f := newOffline(t, storage, pullFrom(from))
		f.provider(t, release{address: "example.com/acme/dns", version: "1.1.0"})
		f.start(t)
		f.get(t, f.archive(t, "linux_amd64"))
		synctest.Wait() // the job has completed 1.2.0
		for _, away := range []bool{false, true} {
			time.Sleep(25 * time.Hour) // a job is recorded once a day
			link := f.archive(t, "linux_amd64")
			for _, zip := range zips {
				w := httptest.NewRecorder()
				storage.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/v2/"+pulledRepo+"/blobs/sha256:"+hexSum(zip), nil))
				must.Equal(t, "DELETE", w.Code, http.StatusAccepted)
			}
			if away {
				from.base = always(ocitest.Refuse)
				must.Equal(t, "the archive", f.ask(link).StatusCode, http.StatusNotFound)
				from.base = up
				time.Sleep(time.Hour) // the job is tried again
			} else if got := f.get(t, link); !bytes.Equal(got, zips["linux_amd64"]) {
				t.Error("the archive has other bytes")
			}
			synctest.Wait()
			repo := f.repo(t, pulledRepo)
			root := must.Fixed(repo.Fetch(t.Context(), "1.2.0"))
			must.Equal(t, "lost parts", len(must.Fixed(depot.LostParts(t.Context(), repo, root))), 0)
		}
		if got := f.get(t, f.archive(t, "linux_amd64")); !bytes.Equal(got, zips["linux_amd64"]) {
			t.Error("the archive has other bytes")
		}
	})
}

// TestPullThroughKeepsWithdrawn: a withdrawn version is not restored.
func TestPullThroughKeepsWithdrawn(t *testing.T) {
	from, _ := newOrigin(t)
	f := newOffline(t, ocitest.Handler(t, ocitest.Quirks{}), pullFrom(from))
	f.provider(t, release{address: "example.com/acme/dns", version: "1.0.0"})
	e := evidence.StatusEvent{Action: evidence.ActionYank, Version: "1.2.0", Message: "bad", Time: time.Now()}
	must.Fixed(evidence.PutStatusEvent(t.Context(), f.repo(t, pulledRepo), e))
	must.Equal(t, "index.json", string(f.get(t, pulledMirror+"index.json")), `{"versions":{"1.0.0":{}}}`+"\n")
	if resp := f.ask(pulledMirror + "1.2.0.json"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a withdrawn version: %s", resp.Status)
	}
	if n := from.take(".sig"); n != 0 {
		t.Errorf("the origin was asked for it %d times", n)
	}
}

// FuzzPullThroughPath: an origin gets canonical requests only.
func FuzzPullThroughPath(f *testing.F) {
	for _, seed := range []string{
		"mirror/example.com/acme/dns/index.json", "mirror/example.com/acme/dns/1.2.0.json", "mirror/EXAMPLE.com:443/Acme/dns/v1.2.0.json",
		"mirror/example.com/acme/%2e%2e/index.json", "origin/example.com/v1/providers/acme/dns/01.2.0/download/linux/amd64",
		"mirror/xn--fsq.com/a/b/1.0.0+x%5f.json", "origin/[::1]/v1/providers/acme/dns/versions",
		"archives/public/acme/mirror/example.com_8443/acme/dns/" + hexSum(nil) + "/terraform-provider-dns_1.2.0_linux_amd64.zip",
	} {
		f.Add(seed)
	}
	source := &strictSource{}
	h := newOffline(f, ocitest.Handler(f, ocitest.Quirks{}), func(o *server.Options) {
		o.PullThrough = []registry.PullRule{{Providers: "**", Origin: source}}
	}).handler
	f.Fuzz(func(t *testing.T, path string) {
		r, err := http.NewRequest(http.MethodGet, "http://okara.test/"+path, nil)
		if err != nil {
			return // no server gets such a path
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		must.Equal(t, path+": the origin was asked for", source.take(), "")
	})
}

// strictSource has nothing, and records requests that must not be sent.
type strictSource struct {
	mu  sync.Mutex // guards bad
	bad string
}

func (s *strictSource) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	bad := s.bad
	s.bad = ""
	return bad
}

func (s *strictSource) check(p addr.Provider, v string) error {
	again, err := addr.ParseProvider(p.String())
	_, verr := addr.ParseVersion(v)
	if err != nil || verr != nil || again != p || p.Hostname == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bad = fmt.Sprintf("%q %q", p, v)
	}
	return oci.ErrNotFound
}

func (s *strictSource) Versions(_ context.Context, p addr.Provider) ([]addr.Version, error) {
	return nil, s.check(p, "1.0.0")
}

func (s *strictSource) Platforms(_ context.Context, p addr.Provider, v addr.Version) ([]addr.Platform, error) {
	return nil, s.check(p, v.String())
}

func (s *strictSource) Package(_ context.Context, p addr.Provider, v addr.Version, _ addr.Platform) (upstream.Package, error) {
	return upstream.Package{}, s.check(p, v.String())
}
