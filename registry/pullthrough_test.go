// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/registry"
)

// Shows: opendepot 7 | a provider exists once its resource was reconciled | also on demand:
// `pull_through` blocks of `okara serve` fetch, verify and keep what clients request
func TestPullThrough(t *testing.T) {
	from, zips := newOrigin(t)
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		var audit bytes.Buffer
		f := newOffline(t, storage, func(o *server.Options) {
			pullFrom(from)(o)
			o.Audit = slog.New(slog.NewJSONHandler(&audit, nil))
		})
		stop := f.start(t)
		must.Equal(t, "index.json", string(f.get(t, pulledMirror+"index.json")), `{"versions":{"1.0.0":{},"1.2.0":{}}}`+"\n")
		must.Equal(t, "versions", string(f.get(t, pulledOrigin+"versions")), `{"versions":[{"version":"1.2.0"},{"version":"1.0.0"}]}`+"\n")
		doc := decode[mirrorArchives](t, f.get(t, pulledMirror+"1.2.0.json"))
		for platform, zip := range zips {
			if diff := cmp.Diff([]string{"zh:" + hexSum(zip)}, doc.Archives[platform].Hashes); diff != "" {
				t.Errorf("%s: %s", platform, diff)
			}
		}
		checkPulledPackage(t, f)
		must.Equal(t, "packages fetched before anybody wanted one", from.take(".zip"), 0)
		link := f.archive(t, "linux_amd64")
		head := httptest.NewRecorder() // the tools send it first
		f.handler.ServeHTTP(head, httptest.NewRequest(http.MethodHead, "http://okara.test"+link, nil))
		if size := head.Header().Get("Content-Length"); head.Code != http.StatusOK || size != strconv.Itoa(len(zips["linux_amd64"])) {
			t.Errorf("HEAD: %d, %s bytes", head.Code, size)
		}
		if got := f.get(t, link); !bytes.Equal(got, zips["linux_amd64"]) {
			t.Error("the archive has other bytes")
		}
		synctest.Wait() // the job has completed the version
		if n := from.take(".zip"); n != len(zips) {
			t.Errorf("%d packages fetched for %d platforms", n, len(zips))
		}
		stop()
		if text := audit.String(); !strings.Contains(text, `"action":"publish","kind":"mirror","address":"example.com/acme/dns","version":"1.2.0","digest":"sha256:`) {
			t.Errorf("the audit log does not say what was stored: %s", text)
		}
	})
	checkStored(t, storage, from, zips)
}

// checkPulledPackage installs before the version is stored.
func checkPulledPackage(t *testing.T, f *front) {
	t.Helper()
	pkg := decode[struct {
		Protocols   []string
		Shasum      string
		ShasumsURL  string `json:"shasums_url"`
		SigURL      string `json:"shasums_signature_url"`
		SigningKeys struct {
			Keys []artifact.SigningKey `json:"gpg_public_keys"`
		} `json:"signing_keys"`
	}](t, f.get(t, pulledOrigin+"1.2.0/download/linux/amd64"))
	at := func(ref string) []byte { return f.get(t, path.Join(pulledOrigin, "1.2.0/download/linux", ref)) }
	keys := must.Fixed(signing.ParsePublicKeys([]byte(pkg.SigningKeys.Keys[0].ASCIIArmor)))
	sums := at(pkg.ShasumsURL)
	if _, err := signing.Verify(sums, at(pkg.SigURL), keys, signing.VerifyOptions{}); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(sums, []byte(pkg.Shasum)) || !slices.Equal(pkg.Protocols, []string{"6.0"}) {
		t.Errorf("%+v, %s", pkg, sums)
	}
}

// checkStored asks another front-end, the origin down, with h1.
func checkStored(t *testing.T, storage http.Handler, from *origin, zips map[string][]byte) {
	t.Helper()
	from.base = always(ocitest.Refuse)
	f := newOffline(t, storage, pullFrom(from))
	must.Equal(t, "index.json of what is stored", string(f.get(t, pulledMirror+"index.json")), `{"versions":{"1.2.0":{}}}`+"\n")
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

// TestPullThroughSharesFetch shows that fifty clients share one fetch, and
// other platforms do not wait for it.
//
// Shows: registries 18
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
		time.Sleep(time.Second) // one job may ask again for the blob that the other just pushed
		synctest.Wait()
		must.Equal(t, "packages fetched", from.take(".zip"), 2)
		if got := f.get(t, link); !bytes.Equal(got, zips["linux_amd64"]) || from.take("") != 0 {
			t.Error("asked again, the package does not come from the registry")
		}
	})
}

// TestPullThroughFetchesOnce: the job waits for a package's upload.
func TestPullThroughFetchesOnce(t *testing.T) {
	from, zips := newOrigin(t)
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		upload := make(chan struct{})
		f := newOffline(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v2/"+pulledRepo+"/") {
				<-upload
			}
			storage.ServeHTTP(w, r)
		}), pullFrom(from))
		f.start(t)
		if got := f.get(t, f.archive(t, "linux_amd64")); !bytes.Equal(got, zips["linux_amd64"]) {
			t.Error("the archive has other bytes")
		}
		synctest.Wait()
		must.Equal(t, "packages fetched while the first is on its way to the registry", from.take(".zip"), 1)
		close(upload)
		synctest.Wait()
		if n := from.take(".zip"); n != len(zips)-1 {
			t.Errorf("%d packages fetched after that, want the %d others", n, len(zips)-1)
		}
	})
}

// halfway returns one byte, signals that, and returns the rest when permitted.
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

// TestPullThroughResumes: a version that failed is completed later.
func TestPullThroughResumes(t *testing.T) {
	from, zips := newOrigin(t)
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		from.change = func(r *http.Request, resp *http.Response) {
			if strings.HasSuffix(r.URL.Path, "windows_amd64.zip") {
				resp.StatusCode = http.StatusNotFound
			}
		}
		f := newOffline(t, storage, pullFrom(from))
		f.start(t)
		f.get(t, f.archive(t, "linux_amd64"))
		time.Sleep(25 * time.Hour) // of the bubble's clock: the job has used up its tries
		synctest.Wait()
		from.change = nil
		if got := f.get(t, f.archive(t, "linux_amd64")); !bytes.Equal(got, zips["linux_amd64"]) {
			t.Error("the archive has other bytes")
		}
		time.Sleep(10 * time.Minute)
		f.archive(t, "linux_amd64")
		synctest.Wait()
	})
	checkStored(t, storage, from, zips)
}

// TestPullThroughGrows: a platform that the rule named later.
func TestPullThroughGrows(t *testing.T) {
	from, zips := newOrigin(t)
	storage := ocitest.Handler(t, ocitest.Quirks{})
	serve := func(t *testing.T, platform string, rule registry.PullRule) {
		rule.Providers = "example.com/acme/*"
		rule.Origin = from.source()
		f := newOffline(t, storage, func(o *server.Options) { o.PullThrough = []registry.PullRule{rule} })
		stop := f.start(t)
		defer stop()
		if got := f.get(t, f.archive(t, platform)); !bytes.Equal(got, zips[platform]) {
			t.Error("the archive has other bytes")
		}
		synctest.Wait()
	}
	bubble(t, func(t *testing.T) {
		linux := registry.PullRule{Mirror: depot.MirrorOptions{Platforms: []addr.Platform{{OS: "linux", Arch: "amd64"}}}}
		serve(t, "linux_amd64", linux)
		from.take("")
		serve(t, "linux_amd64", linux)
		must.Equal(t, "requests for what is stored", from.take("amd64")+from.take(".zip"), 0)
		time.Sleep(25 * time.Hour) // a job is recorded once a day
		serve(t, "darwin_arm64", registry.PullRule{})
	})
	checkStored(t, storage, from, zips)
}
