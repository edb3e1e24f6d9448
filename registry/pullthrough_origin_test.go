// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/registry"
)

// TestPullThroughLyingOrigin shows that nothing is stored, and no client gets
// all of a wrong package.
//
// Shows: opendepot 7
// Shows: registries 18 | mirrored bytes unverified, fetched twice, or one at a time |
// boring-registry#327, hermitcrab
func TestPullThroughLyingOrigin(t *testing.T) {
	other := must.Fixed(signing.NewKey(signing.KeyOptions{Name: "other", Email: "other@example.com", ECC: true}))
	replace := func(resp *http.Response, body []byte) {
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	edit := func(resp *http.Response, f func([]byte) []byte) {
		if body, err := io.ReadAll(resp.Body); err == nil {
			replace(resp, f(body))
		}
	}
	flip := func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b }
	for name, test := range map[string]struct {
		end     string // suffix of the path whose answer is changed
		change  func(*http.Response)
		archive bool // the version is answered; its package never ends properly
	}{
		"other bytes":               {".zip", func(r *http.Response) { edit(r, flip) }, true},
		"other bytes, size unknown": {".zip", func(r *http.Response) { edit(r, flip); r.ContentLength = -1 }, true},
		"too short":                 {".zip", func(r *http.Response) { edit(r, func(b []byte) []byte { return b[:len(b)-1] }) }, true},
		"too long":                  {".zip", func(r *http.Response) { edit(r, func(b []byte) []byte { return append(b, 0) }) }, true},
		"no bytes":                  {".zip", func(r *http.Response) { replace(r, nil) }, true},
		"a page":                    {".zip", func(r *http.Response) { replace(r, []byte("<html>")) }, true},
		"other SHA256SUMS":          {"_SHA256SUMS", func(r *http.Response) { edit(r, func(b []byte) []byte { return append(b, '\n') }) }, false},
		"other signature":           {"_SHA256SUMS.sig", func(r *http.Response) { edit(r, flip) }, false},
		"no signature":              {"_SHA256SUMS.sig", func(r *http.Response) { replace(r, nil) }, false},
		"signature of another": {"_SHA256SUMS.sig", func(r *http.Response) {
			edit(r, func(b []byte) []byte { return must.Fixed(other.Sign(b, time.Now())) })
		}, false},
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
					body := must.Fixed(io.ReadAll(resp.Body))
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

// TestPullThroughFulfilsPolicy: trusted, untrusted, revoked keys.
func TestPullThroughFulfilsPolicy(t *testing.T) {
	from, zips := newOrigin(t)
	own := must.Fixed(testSigner().Public())
	other := must.Fixed(must.Fixed(signing.NewKey(signing.KeyOptions{Name: "other", Email: "other@example.com", ECC: true})).Public())
	for name, test := range map[string]struct {
		key     signing.PublicKey
		revoked []string
		want    int
	}{
		"trusted":                  {key: own, want: http.StatusOK},
		"another":                  {key: other, want: http.StatusNotFound},
		"trusted, another revoked": {key: own, revoked: []string{other.ID}, want: http.StatusOK},
		"trusted, and revoked":     {key: own, revoked: []string{own.ID}, want: http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			storage := ocitest.Handler(t, ocitest.Quirks{})
			bubble(t, func(t *testing.T) {
				f := newOffline(t, storage, func(o *server.Options) {
					pullFrom(from)(o)
					policy := trust.Policy{Require: []string{trust.RequireOpenPGP}, OpenPGP: []signing.PublicKey{test.key}}
					o.Require = map[string]trust.Policy{addr.KindMirror: policy}
					o.Revoked = must.Fixed(catalog.ParseRevokedKeys(test.revoked))
				})
				f.start(t)
				if resp := f.ask(pulledMirror + "1.2.0.json"); resp.StatusCode != test.want {
					t.Fatalf("%s, want %d", resp.Status, test.want)
				}
				if test.want != http.StatusOK {
					return
				}
				if got := f.get(t, f.archive(t, "linux_amd64")); !bytes.Equal(got, zips["linux_amd64"]) {
					t.Error("the archive has other bytes")
				}
				synctest.Wait()
				from.take("")
				if f.get(t, pulledOrigin+"1.2.0/download/darwin/arm64"); from.take("") != 0 {
					t.Error("what is stored is asked for again")
				}
			})
		})
	}
}

// TestPullThroughAnnouncedHashes are passed on, and a version with wrong ones is not stored.
func TestPullThroughAnnouncedHashes(t *testing.T) {
	storage := ocitest.Handler(t, ocitest.Quirks{})
	far := newOffline(t, ocitest.Handler(t, ocitest.Quirks{}), nil)
	rel := far.provider(t, release{address: "acme/dns", version: "1.2.0"}) // with h1 of something else
	bubble(t, func(t *testing.T) {
		f := newOffline(t, storage, pullFrom(&origin{base: ocitest.Direct{Handler: far.handler}}))
		f.start(t)
		far.get(t, "/v1/providers/acme/dns/1.2.0/download/linux/amd64")
		doc := decode[mirrorArchives](t, f.get(t, pulledMirror+"1.2.0.json"))
		want := []string{"h1:" + strings.Repeat("A", 43) + "=", "zh:" + hexSum(rel.zips["linux_amd64"])}
		must.Match(t, "value", doc.Archives["linux_amd64"].Hashes, want)
		f.get(t, f.archive(t, "linux_amd64"))
		time.Sleep(time.Hour) // of the bubble's clock, with many tries of the job
		synctest.Wait()
		if tags, err := f.repo(t, pulledRepo).Snapshot(t.Context()); err == nil && len(tags.Tags) > 0 {
			t.Errorf("a version with a wrong h1 was stored: %v", tags.Tags)
		}
	})
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
		armor := must.Fixed(k.Public()).Armor
		old := regexp.MustCompile(`-----BEGIN[^"]*`)
		return old.ReplaceAllLiteral(b, []byte(strings.ReplaceAll(armor, "\n", `\n`)))
	}
}

// TestPullThroughUnsigned: a mirror as origin, only if the rule says so.
func TestPullThroughUnsigned(t *testing.T) {
	from := newOffline(t, ocitest.Handler(t, ocitest.Quirks{}), nil)
	rel := from.provider(t, release{address: "example.com/acme/dns", version: "1.2.0", bare: true, platforms: []string{"linux_amd64", "darwin_arm64"}})
	client := &upstream.Client{HTTP: &http.Client{Transport: ocitest.Direct{Handler: from.handler}}}
	mirror := &upstream.NetworkMirror{Client: client, Base: &url.URL{Scheme: "https", Host: "origin.test", Path: "/mirror/"}}
	for _, allowed := range []bool{false, true} {
		storage := ocitest.Handler(t, ocitest.Quirks{})
		bubble(t, func(t *testing.T) {
			f := newOffline(t, storage, func(o *server.Options) {
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
			index, err := artifact.ParseProviderIndex(must.Fixed(r.Fetch(t.Context(), "1.2.0")))
			if err != nil || len(index.Platforms) != 2 || index.Signature != artifact.SignatureNone {
				t.Errorf("stored: %+v, %v", index, err)
			}
		})
	}
}

// TestPullThroughChain pulls from an empty front-end allowed one platform: all is passed on.
func TestPullThroughChain(t *testing.T) {
	from, zips := newOrigin(t)
	far, near := ocitest.Handler(t, ocitest.Quirks{}), ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		middle := newOffline(t, far, func(o *server.Options) {
			pullFrom(from)(o)
			o.PullThrough[0].Mirror.Platforms = []addr.Platform{{OS: "linux", Arch: "amd64"}}
		})
		client := &upstream.Client{HTTP: &http.Client{Transport: ocitest.Direct{Handler: middle.handler}}}
		base := &url.URL{Scheme: "https", Host: "okara.test", Path: "/origin/example.com/v1/providers/"}
		f := newOffline(t, near, func(o *server.Options) {
			o.PullThrough = []registry.PullRule{{Providers: "example.com/acme/*", Origin: &upstream.Registry{Client: client, Base: base}}}
		})
		f.start(t)
		if got := f.get(t, f.archive(t, "linux_amd64")); !bytes.Equal(got, zips["linux_amd64"]) {
			t.Error("the archive has other bytes")
		}
		if got := string(f.get(t, pulledOrigin+"versions")); !strings.Contains(got, `{"version":"1.2.0","protocols":["6.0"],"platforms":[{"os":"linux","arch":"amd64"}]}`) {
			t.Errorf("versions: %s", got)
		}
		synctest.Wait()
		index, err := artifact.ParseProviderIndex(must.Fixed(f.repo(t, pulledRepo).Fetch(t.Context(), "1.2.0")))
		if err != nil || len(index.Platforms) != 1 || index.Signature != artifact.SignatureVerified {
			t.Errorf("stored: %+v, %v", index, err)
		}
	})
}

// TestPullThroughHiddenRegistry refuses instead of 404.
func TestPullThroughHiddenRegistry(t *testing.T) {
	from, _ := newOrigin(t)
	storage := ocitest.Handler(t, ocitest.Quirks{})
	hiding := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := httptest.NewRecorder()
		storage.ServeHTTP(seen, r)
		if seen.Code == http.StatusNotFound {
			http.Error(w, `{"errors":[{"code":"DENIED"}]}`, http.StatusForbidden)
			return
		}
		maps.Copy(w.Header(), seen.Header())
		w.WriteHeader(seen.Code)
		w.Write(seen.Body.Bytes())
	})
	for _, hides := range []bool{true, false} {
		f := newOffline(t, hiding, func(o *server.Options) {
			pullFrom(from)(o)
			o.DeniedMeansMissing = hides
		})
		want := map[bool]int{true: http.StatusOK, false: http.StatusBadGateway}[hides]
		for _, file := range []string{"index.json", "1.2.0.json"} {
			if resp := f.ask(pulledMirror + file); resp.StatusCode != want {
				t.Errorf("%s, denied means missing %t: %s, want %d", file, hides, resp.Status, want)
			}
		}
	}
}

// TestPullThroughHangingOrigin shows that an origin that accepts requests and
// never answers adds nothing, and stored versions are served.
//
// Shows: registries 19 | nothing served while the origin is down | boring-registry#187, #195, #306
func TestPullThroughHangingOrigin(t *testing.T) {
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		hanging := &origin{base: always(ocitest.Hang)}
		f := newOffline(t, storage, pullFrom(hanging))
		f.provider(t, release{address: "example.com/acme/dns", version: "1.1.0"})
		start := time.Now()
		for range 3 {
			must.Equal(t, "index.json", string(f.get(t, pulledMirror+"index.json")), `{"versions":{"1.1.0":{}}}`+"\n")
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
		// Nothing is stored of another provider: the client gets the reason.
		if resp := f.ask("/mirror/example.com/acme/other/index.json"); resp.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("a provider that only the origin may have: %s: %s", resp.Status, must.Fixed(io.ReadAll(resp.Body)))
		}
		time.Sleep(time.Minute) // until the front-end has given up too
	})
}

// TestPullThroughOriginComesBack: failures are brief, answers outlive it.
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
