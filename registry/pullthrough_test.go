// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// direct sends requests to a handler without a network, which a synctest
// bubble could not wait for.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	d.ServeHTTP(w, in)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// bubble runs f with a clock that only sleeping moves. It begins now, since the
// test key is from today.
func bubble(t *testing.T, f func(t *testing.T)) {
	now := time.Now()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now) + time.Second)
		f(t)
	})
}

// newOffline is newFront without a network, over the registry h.
func newOffline(t testing.TB, h http.Handler, change func(*registry.Options)) *front {
	t.Helper()
	o := registry.Options{
		Client: newClient(t, "registry.test", oci.Options{Transport: direct{h}, PlainHTTP: true}),
		Layout: addr.Layout{Prefix: "acme"}, Access: registry.Access{Anonymous: registry.AnonymousAll()},
		Archives: registry.Archives{Keys: []registry.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}},
	}
	if change != nil {
		change(&o)
	}
	front := &front{client: o.Client, layout: o.Layout}
	var err error
	if front.handler, err = registry.New(o); err != nil {
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

// get is ask for an answer that must be there.
func (f *front) get(t testing.TB, path string) []byte {
	t.Helper()
	resp := f.ask(path)
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s, %v", path, resp.Status, body, err)
	}
	return body
}

// origin is a registry of providers that counts what it is asked for and can be
// made to lie.
type origin struct {
	base   http.RoundTripper
	change func(r *http.Request, resp *http.Response) // nil: the truth

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

// always is an origin that does the same to each request.
type always ocitest.Act

func (a always) RoundTrip(r *http.Request) (*http.Response, error) { return a(r, nil) }

// take returns and forgets what the origin was asked for and has that end.
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

// source reads the origin as the registry of everything.
func (o *origin) source() depot.Source {
	base := &url.URL{Scheme: "https", Host: "origin.test", Path: "/v1/providers/"}
	return &upstream.Registry{Client: &upstream.Client{HTTP: &http.Client{Transport: o}}, Base: base}
}

// newOrigin returns an origin with two versions of acme/dns, and the zips of
// version 1.2.0 by platform.
func newOrigin(t testing.TB) (*origin, map[string][]byte) {
	t.Helper()
	f := newOffline(t, ocitest.Handler(t, ocitest.Quirks{}), nil)
	f.provider(t, release{address: "acme/dns", version: "1.0.0", bare: true})
	rel := f.provider(t, release{address: "acme/dns", version: "1.2.0", bare: true, protocols: []string{"6.0"}, platforms: []string{"linux_amd64", "darwin_arm64", "windows_amd64"}})
	return &origin{base: direct{f.handler}}, rel.zips
}

// pullFrom lets a front-end pull everything below example.com/acme through.
func pullFrom(o *origin) func(*registry.Options) {
	return func(opt *registry.Options) {
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

func TestPullThrough(t *testing.T) {
	from, zips := newOrigin(t)
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		f := newOffline(t, storage, pullFrom(from))
		stop := f.start(t)
		if got := string(f.get(t, pulledMirror+"index.json")); got != `{"versions":{"1.0.0":{},"1.2.0":{}}}`+"\n" {
			t.Errorf("index.json: %s", got)
		}
		if got := string(f.get(t, pulledOrigin+"versions")); got != `{"versions":[{"version":"1.2.0"},{"version":"1.0.0"}]}`+"\n" {
			t.Errorf("versions: %s", got)
		}
		doc := decode[mirrorArchives](t, f.get(t, pulledMirror+"1.2.0.json"))
		for platform, zip := range zips {
			if diff := cmp.Diff([]string{"zh:" + hexSum(zip)}, doc.Archives[platform].Hashes); diff != "" {
				t.Errorf("%s: %s", platform, diff)
			}
		}
		checkPulledPackage(t, f)
		if n := from.take(".zip"); n != 0 {
			t.Errorf("%d packages fetched before anybody wanted one", n)
		}
		if got := f.get(t, f.archive(t, "linux_amd64")); !bytes.Equal(got, zips["linux_amd64"]) {
			t.Error("the archive has other bytes")
		}
		synctest.Wait() // the job has completed the version
		if n := from.take(".zip"); n != len(zips) {
			t.Errorf("%d packages fetched for %d platforms", n, len(zips))
		}
		stop()
	})
	checkStored(t, storage, from, zips)
}

// checkPulledPackage installs as the registry protocol does: the proof is
// there before the version is in the registry.
func checkPulledPackage(t *testing.T, f *front) {
	t.Helper()
	pkg := decode[struct {
		Protocols   []string
		Shasum      string
		ShasumsURL  string `json:"shasums_url"`
		SigURL      string `json:"shasums_signature_url"`
		SigningKeys struct {
			Keys []oci.SigningKey `json:"gpg_public_keys"`
		} `json:"signing_keys"`
	}](t, f.get(t, pulledOrigin+"1.2.0/download/linux/amd64"))
	at := func(ref string) []byte { return f.get(t, path.Join(pulledOrigin, "1.2.0/download/linux", ref)) }
	keys := must(signing.ParsePublicKeys([]byte(pkg.SigningKeys.Keys[0].ASCIIArmor)))
	sums := at(pkg.ShasumsURL)
	if _, err := signing.Verify(sums, at(pkg.SigURL), keys, signing.VerifyOptions{}); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(sums, []byte(pkg.Shasum)) || !slices.Equal(pkg.Protocols, []string{"6.0"}) {
		t.Errorf("%+v, %s", pkg, sums)
	}
}

// checkStored asks another front-end over the same registry, whose origin is
// down: everything is there, with h1 now.
func checkStored(t *testing.T, storage http.Handler, from *origin, zips map[string][]byte) {
	t.Helper()
	from.base = always(ocitest.Refuse)
	f := newOffline(t, storage, pullFrom(from))
	if got := string(f.get(t, pulledMirror+"index.json")); got != `{"versions":{"1.2.0":{}}}`+"\n" {
		t.Errorf("index.json of what is stored: %s", got)
	}
	doc := decode[mirrorArchives](t, f.get(t, pulledMirror+"1.2.0.json"))
	for platform, zip := range zips {
		if h := doc.Archives[platform].Hashes; len(h) != 2 || !strings.HasPrefix(h[0], "h1:") || h[1] != "zh:"+hexSum(zip) {
			t.Errorf("%s: %v", platform, h)
		}
		if got := f.get(t, f.archive(t, platform)); !bytes.Equal(got, zip) {
			t.Errorf("%s: the archive has other bytes", platform)
		}
	}
	checkPulledPackage(t, f)
}

// TestPullThroughLyingOrigin is row 18: nothing is stored, and nobody gets all
// of a wrong package.
func TestPullThroughLyingOrigin(t *testing.T) {
	other := must(signing.NewKey(signing.KeyOptions{Name: "other", Email: "other@example.com", ECC: true}))
	replace := func(resp *http.Response, body []byte) {
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	edit := func(resp *http.Response, f func([]byte) []byte) {
		body, err := io.ReadAll(resp.Body)
		if err == nil {
			replace(resp, f(body))
		}
	}
	flip := func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b }
	for name, test := range map[string]struct {
		end     string // of the path whose answer is changed
		change  func(*http.Response)
		archive bool // the version is answered; its package never ends well
	}{
		"other bytes":                {".zip", func(r *http.Response) { edit(r, flip) }, true},
		"other bytes, size unknown":  {".zip", func(r *http.Response) { edit(r, flip); r.ContentLength = -1 }, true},
		"too short":                  {".zip", func(r *http.Response) { edit(r, func(b []byte) []byte { return b[:len(b)-1] }) }, true},
		"too long":                   {".zip", func(r *http.Response) { edit(r, func(b []byte) []byte { return append(b, 0) }) }, true},
		"no bytes":                   {".zip", func(r *http.Response) { replace(r, nil) }, true},
		"a page":                     {".zip", func(r *http.Response) { replace(r, []byte("<html>")) }, true},
		"other SHA256SUMS":           {"_SHA256SUMS", func(r *http.Response) { edit(r, func(b []byte) []byte { return append(b, '\n') }) }, false},
		"other signature":            {"_SHA256SUMS.sig", func(r *http.Response) { edit(r, flip) }, false},
		"no signature":               {"_SHA256SUMS.sig", func(r *http.Response) { replace(r, nil) }, false},
		"signature of another":       {"_SHA256SUMS.sig", func(r *http.Response) { edit(r, func(b []byte) []byte { return must(other.Sign(b, time.Now())) }) }, false},
		"other shasum":               {"64", func(r *http.Response) { edit(r, wrongShasum) }, false},
		"other key":                  {"64", func(r *http.Response) { edit(r, keyOf(other)) }, false},
		"a platform no sum is for":   {"versions", func(r *http.Response) { edit(r, morePlatforms) }, false},
		"another package's zip name": {"64", func(r *http.Response) { edit(r, otherName) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			from, zips := newOrigin(t)
			from.change = func(r *http.Request, resp *http.Response) {
				if strings.HasSuffix(r.URL.Path, test.end) {
					test.change(resp)
				}
			}
			storage := ocitest.Handler(t, ocitest.Quirks{})
			bubble(t, func(t *testing.T) {
				f := newOffline(t, storage, pullFrom(from))
				f.start(t)
				for _, path := range []string{pulledMirror + "1.2.0.json", pulledOrigin + "1.2.0/download/linux/amd64"} {
					resp := f.ask(path)
					if want := map[bool]int{true: 200, false: 404}[test.archive]; resp.StatusCode != want {
						t.Fatalf("%s: %s, want %d", path, resp.Status, want)
					}
				}
				if test.archive {
					resp := f.ask(f.archive(t, "linux_amd64"))
					body := must(io.ReadAll(resp.Body))
					if resp.StatusCode == http.StatusOK && int64(len(body)) == resp.ContentLength || bytes.Equal(body, zips["linux_amd64"]) {
						t.Errorf("%s: all of a wrong package: %d bytes", resp.Status, len(body))
					}
				}
				synctest.Wait()
				if tags, err := f.repo(t, pulledRepo).Snapshot(t.Context()); !errors.Is(err, oci.ErrNotFound) {
					t.Errorf("something was stored: %v, %v", tags, err)
				}
				if resp := f.ask(pulledMirror + "1.2.0.json"); resp.StatusCode != http.StatusNotFound && test.end != ".zip" {
					t.Errorf("asked again: %s", resp.Status)
				}
			})
		})
	}
}

func wrongShasum(b []byte) []byte {
	i := bytes.Index(b, []byte(`"shasum":"`)) + len(`"shasum":"`)
	return slices.Concat(b[:i], []byte(hexSum(b)), b[i+64:])
}

func otherName(b []byte) []byte { return bytes.ReplaceAll(b, []byte("-dns_"), []byte("-dnt_")) }

func morePlatforms(b []byte) []byte {
	return bytes.ReplaceAll(b, []byte(`{"version":"1.2.0"`), []byte(`{"version":"1.2.0","platforms":[{"os":"linux","arch":"amd64"},{"os":"plan9","arch":"386"}]`))
}

func keyOf(k *signing.Key) func([]byte) []byte {
	return func(b []byte) []byte {
		armor := must(k.Public()).Armor
		old := regexp.MustCompile(`-----BEGIN[^"]*`)
		return old.ReplaceAllLiteral(b, []byte(strings.ReplaceAll(armor, "\n", `\n`)))
	}
}

// TestPullThroughSharesFetch is row 18 too: fifty clients, one fetch, and other
// platforms do not wait for it.
func TestPullThroughSharesFetch(t *testing.T) {
	from, zips := newOrigin(t)
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		half, rest := make(chan struct{}), make(chan struct{})
		from.change = func(r *http.Request, resp *http.Response) {
			if strings.HasSuffix(r.URL.Path, "linux_amd64.zip") {
				resp.Body = &halfway{body: resp.Body, at: half, until: rest}
			}
		}
		f := newOffline(t, storage, pullFrom(from))
		link := f.archive(t, "linux_amd64")
		from.take("")
		var clients sync.WaitGroup
		for range 50 {
			clients.Go(func() {
				if got := f.get(t, link); !bytes.Equal(got, zips["linux_amd64"]) {
					t.Error("a client got other bytes")
				}
			})
		}
		<-half
		synctest.Wait() // all of them wait for the origin
		if got := f.get(t, f.archive(t, "darwin_arm64")); !bytes.Equal(got, zips["darwin_arm64"]) {
			t.Error("another platform has other bytes")
		}
		close(rest)
		clients.Wait()
		synctest.Wait()
		if n := from.take(".zip"); n != 2 {
			t.Errorf("%d packages fetched, want one for each platform", n)
		}
		if got := f.get(t, link); !bytes.Equal(got, zips["linux_amd64"]) || from.take("") != 0 {
			t.Error("asked again, the package does not come from the registry")
		}
	})
}

// halfway gives one byte, says so, and the rest when it may.
type halfway struct {
	body      io.ReadCloser
	at, until chan struct{}
	passed    bool
}

func (g *halfway) Read(p []byte) (int, error) {
	if !g.passed {
		g.passed = true
		return g.body.Read(p[:1])
	}
	if g.at != nil {
		close(g.at)
		g.at = nil
		<-g.until
	}
	return g.body.Read(p)
}

func (g *halfway) Close() error { return g.body.Close() }

// TestPullThroughUnsigned takes a network mirror for an origin, which has hashes
// and no signature: only where the rule says so.
func TestPullThroughUnsigned(t *testing.T) {
	from := newOffline(t, ocitest.Handler(t, ocitest.Quirks{}), nil)
	rel := from.provider(t, release{address: "example.com/acme/dns", version: "1.2.0", bare: true, platforms: []string{"linux_amd64", "darwin_arm64"}})
	client := &upstream.Client{HTTP: &http.Client{Transport: direct{from.handler}}}
	mirror := &upstream.NetworkMirror{Client: client, Base: &url.URL{Scheme: "https", Host: "origin.test", Path: "/mirror/"}}
	for _, allowed := range []bool{false, true} {
		storage := ocitest.Handler(t, ocitest.Quirks{})
		bubble(t, func(t *testing.T) {
			f := newOffline(t, storage, func(o *registry.Options) {
				o.PullThrough = []registry.PullRule{{Providers: "example.com/acme/*", Origin: mirror, Mirror: depot.MirrorOptions{AllowUnsigned: allowed}}}
			})
			f.start(t)
			if !allowed {
				if resp := f.ask(pulledMirror + "1.2.0.json"); resp.StatusCode != http.StatusNotFound {
					t.Errorf("unsigned: %s", resp.Status)
				}
				return
			}
			if got := f.get(t, f.archive(t, "linux_amd64")); !bytes.Equal(got, rel.zips["linux_amd64"]) {
				t.Error("the archive has other bytes")
			}
			if resp := f.ask(pulledOrigin + "1.2.0/download/linux/amd64"); resp.StatusCode != http.StatusNotFound {
				t.Errorf("unsigned, by a protocol that needs a signature: %s", resp.Status)
			}
			synctest.Wait()
			r := f.repo(t, pulledRepo)
			index, err := oci.ParseProviderIndex(must(r.Fetch(t.Context(), "1.2.0")))
			if err != nil || len(index.Platforms) != 2 || index.Signature != oci.SignatureNone {
				t.Errorf("stored: %+v, %v", index, err)
			}
		})
	}
}

// TestPullThroughHangingOrigin is row 19: an origin that takes requests and
// never answers adds nothing, and what is stored is served.
func TestPullThroughHangingOrigin(t *testing.T) {
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		hanging := &origin{base: always(ocitest.Hang)}
		f := newOffline(t, storage, pullFrom(hanging))
		f.provider(t, release{address: "example.com/acme/dns", version: "1.1.0"})
		start := time.Now()
		for range 3 {
			if got := string(f.get(t, pulledMirror+"index.json")); got != `{"versions":{"1.1.0":{}}}`+"\n" {
				t.Errorf("index.json: %s", got)
			}
			if got := string(f.get(t, pulledOrigin+"versions")); !strings.Contains(got, `"1.1.0"`) {
				t.Errorf("versions: %s", got)
			}
		}
		if waited := time.Since(start); waited > 2*time.Second { // of the bubble's clock
			t.Errorf("clients waited %s in all for an origin that hangs", waited)
		}
		f.get(t, pulledMirror+"1.1.0.json")
		if n := hanging.take("versions"); n != 1 {
			t.Errorf("the origin was asked %d times", n)
		}
		// Nothing is stored of another one: the client hears why.
		if resp := f.ask("/mirror/example.com/acme/other/index.json"); resp.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("a provider that only the origin may have: %s: %s", resp.Status, must(io.ReadAll(resp.Body)))
		}
		time.Sleep(time.Minute) // until the front-end has given up too
	})
}

// TestPullThroughOriginComesBack shows that a failure is not remembered for
// long, and that what an origin said once outlives it.
func TestPullThroughOriginComesBack(t *testing.T) {
	from, _ := newOrigin(t)
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		good, down := from.base, always(ocitest.Refuse)
		f := newOffline(t, storage, pullFrom(from))
		from.base = down
		if resp := f.ask(pulledMirror + "index.json"); resp.StatusCode != http.StatusBadGateway {
			t.Errorf("the origin is down and nothing is stored: %s", resp.Status)
		}
		if resp := f.ask(pulledMirror + "1.2.0.json"); resp.StatusCode != http.StatusNotFound {
			t.Errorf("a version, while the origin is down: %s", resp.Status)
		}
		from.base = good
		from.take("")
		if resp := f.ask(pulledMirror + "1.2.0.json"); resp.StatusCode != http.StatusNotFound || from.take("") != 0 {
			t.Errorf("the failure is not remembered: %s", resp.Status)
		}
		time.Sleep(time.Minute) // of the bubble's clock
		f.get(t, pulledMirror+"1.2.0.json")
		f.get(t, pulledMirror+"index.json")
		from.base = down
		for range 3 {
			time.Sleep(time.Hour)
			if got := string(f.get(t, pulledMirror+"index.json")); !strings.Contains(got, "1.2.0") {
				t.Errorf("index.json, an hour later: %s", got)
			}
			f.get(t, pulledMirror+"1.2.0.json")
			synctest.Wait()
		}
	})
}

// TestPullThroughAllows asks for what no rule allows: 404, and the origin does
// not hear of it.
func TestPullThroughAllows(t *testing.T) {
	from, _ := newOrigin(t)
	f := newOffline(t, ocitest.Handler(t, ocitest.Quirks{}), func(o *registry.Options) {
		o.Hostname = "okara.test"
		o.PullThrough = []registry.PullRule{
			{Providers: "example.com/acme/d*", Versions: must(addr.ParseConstraint("< 1.1")), Origin: from.source(),
				Mirror: depot.MirrorOptions{Platforms: []addr.Platform{{OS: "linux", Arch: "amd64"}}}},
			{Providers: "example.com/acme/*", Origin: from.source()}, // the first that matches decides
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
		if n := from.take(""); n != 0 {
			t.Errorf("%s: %d requests to the origin", path, n)
		}
	}
	// What is allowed, to show that the others fail for the right reason.
	if got := string(f.get(t, pulledMirror+"index.json")); got != `{"versions":{"1.0.0":{}}}`+"\n" {
		t.Errorf("index.json: %s", got)
	}
	f.get(t, pulledOrigin+"1.0.0/download/linux/amd64")
	from.take("")
	// A link to another hash than the verified one.
	resp := f.ask("/archives/public/" + pulledRepo + "/" + hexSum(nil) + "/terraform-provider-dns_1.0.0_linux_amd64.zip")
	if resp.StatusCode != 404 || from.take(".zip") != 0 {
		t.Errorf("a hash that nobody signed: %s", resp.Status)
	}
}

// TestPullThroughKeepsWithdrawn shows that a withdrawn version does not come
// back from its origin.
func TestPullThroughKeepsWithdrawn(t *testing.T) {
	from, _ := newOrigin(t)
	f := newOffline(t, ocitest.Handler(t, ocitest.Quirks{}), pullFrom(from))
	f.provider(t, release{address: "example.com/acme/dns", version: "1.0.0"})
	e := oci.StatusEvent{Action: oci.ActionYank, Version: "1.2.0", Message: "bad", Time: time.Now()}
	if _, err := f.repo(t, pulledRepo).PutStatusEvent(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got := string(f.get(t, pulledMirror+"index.json")); got != `{"versions":{"1.0.0":{}}}`+"\n" {
		t.Errorf("index.json: %s", got)
	}
	if resp := f.ask(pulledMirror + "1.2.0.json"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a withdrawn version: %s", resp.Status)
	}
	if n := from.take(".sig"); n != 0 {
		t.Errorf("the origin was asked for it %d times", n)
	}
}

// TestPullThroughSurvivesRestart ends a server while it completes a version,
// and shows that the next one does it.
func TestPullThroughSurvivesRestart(t *testing.T) {
	from, zips := newOrigin(t)
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		cut := true
		from.change = func(r *http.Request, resp *http.Response) {
			if cut && strings.HasSuffix(r.URL.Path, "windows_amd64.zip") {
				<-r.Context().Done()
				resp.Body = io.NopCloser(strings.NewReader("")) // and the job with it
			}
		}
		first := newOffline(t, storage, pullFrom(from))
		stop := first.start(t)
		first.get(t, first.archive(t, "linux_amd64"))
		synctest.Wait() // the job waits for the origin
		stop()
		if tags, err := first.repo(t, pulledRepo).Snapshot(t.Context()); err == nil && len(tags.Tags) > 0 {
			t.Fatalf("the version is complete already: %v", tags)
		}
		cut = false
		second := newOffline(t, storage, pullFrom(from))
		stop = second.start(t)
		time.Sleep(10 * time.Minute) // of the bubble's clock: others' jobs are left alone for a while
		synctest.Wait()
		stop()
	})
	from.change = nil
	checkStored(t, storage, from, zips)
}

// FuzzPullThroughPath shows that an origin is only ever asked for addresses and
// versions in their one written form, whatever is in the path.
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
	h := newOffline(f, ocitest.Handler(f, ocitest.Quirks{}), func(o *registry.Options) {
		o.PullThrough = []registry.PullRule{{Providers: "**", Origin: source}}
	}).handler
	f.Fuzz(func(t *testing.T, path string) {
		r, err := http.NewRequest(http.MethodGet, "http://okara.test/"+path, nil)
		if err != nil {
			t.Skip()
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		if bad := source.take(); bad != "" {
			t.Errorf("%q: the origin was asked for %s", path, bad)
		}
	})
}

// strictSource has nothing, and notes what nobody should ask it for.
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
