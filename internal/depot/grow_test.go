// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

const growRepo = "p/mirror/registry.example.com/acme/dns"

var (
	linux  = addr.Platform{OS: "linux", Arch: "amd64"}
	darwin = addr.Platform{OS: "darwin", Arch: "arm64"}
)

func growIndex(t *testing.T, r *oci.Repo) artifact.ProviderIndex {
	t.Helper()
	return must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3")))(t)
}

func TestMirrorGrows(t *testing.T) {
	for _, signed := range []bool{true, false} {
		ocitest.Each(t, func(t *testing.T, host string) {
			d, client := depottest.NewDepot(t, host, oci.Options{})
			v := depottest.MustVersion(t, "1.2.3")
			src := depottest.NewRelease(t, mustKey(t), "linux_amd64", "darwin_arm64", "windows_amd64")
			if !signed {
				src.Change = func(p *upstream.Package) { p.Shasums, p.Signature, p.Keys, p.Zh = nil, nil, nil, "" }
			}
			mirror := func(platforms ...addr.Platform) depot.Published {
				t.Helper()
				return must.Get(d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{Platforms: platforms, AllowUnsigned: !signed, Compare: true}))(t)
			}
			plan9 := addr.Platform{OS: "plan9", Arch: "arm"}
			if _, err := d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{Platforms: []addr.Platform{plan9}}); !errors.Is(err, oci.ErrNotFound) {
				t.Errorf("no platform that is wanted: %v", err)
			}
			first := mirror(linux, plan9)
			if !slices.Equal(first.Absent, []addr.Platform{plan9}) || !strings.Contains(strings.Join(first.Warnings, "\n"), "no package for plan9_arm") {
				t.Errorf("first %+v", first)
			}
			r := depottest.MustRepo(t, client, growRepo)
			before := growIndex(t, r)
			payload, err := evidence.CosignPayload(r.String(), before.Index.Digest)
			if err == nil {
				_, err = evidence.AddCosignSignature(t.Context(), r, before.Index, evidence.CosignSignature{Payload: payload, Signature: []byte("x")})
			}
			if err != nil {
				t.Fatal(err)
			}
			opened := src.Opened.Load()
			second := mirror(linux, darwin, plan9)
			if second.Existing || !slices.Equal(second.Added, []addr.Platform{darwin}) || len(second.Warnings) == 0 || !strings.Contains(second.Warnings[len(second.Warnings)-1], "plan9_arm") {
				t.Errorf("second %+v", second)
			}
			if text := strings.Join(second.Warnings, "\n"); !strings.Contains(text, "signatures of 1.2.3 are for the previous index "+first.Digest) {
				t.Errorf("the signatures: %s", text)
			}
			if n := src.Opened.Load() - opened; signed && n != 1 {
				t.Errorf("%d downloads for one platform", n)
			}
			after := growIndex(t, r)
			if diff := cmp.Diff(mustJSON(t, after.Platforms[0]), mustJSON(t, before.Platforms[0])); diff != "" || len(after.Platforms) != 2 {
				t.Errorf("%d platforms, the first one (-got +want)\n%s", len(after.Platforms), diff)
			}
			if signed && after.Metadata.Digest != before.Metadata.Digest {
				t.Error("SHA256SUMS, its signature or its keys changed")
			}
			if _, err := r.Fetch(t.Context(), first.Digest); err != nil {
				t.Errorf("the index before: %v", err)
			}
			if again := mirror(linux, darwin); !again.Existing || again.Digest != second.Digest {
				t.Errorf("again %+v", again)
			}
			if all := mirror(); !slices.Equal(all.Added, []addr.Platform{{OS: "windows", Arch: "amd64"}}) {
				t.Errorf("all platforms: %+v", all)
			}
			if _, err := d.Verify(t.Context(), depottest.UpstreamDNS().Item(), v, trust.Policy{Deep: true}); err != nil && signed {
				t.Error(err)
			}
		})
	}
}

func TestMirrorGrowsOnlyTheSameRelease(t *testing.T) {
	v := depottest.MustVersion(t, "1.2.3")
	other := depottest.NewRelease(t, mustKey(t), "darwin_arm64", "freebsd_arm")
	for name, test := range map[string]struct {
		change func(*upstream.Package)
		want   addr.Platform
	}{
		"the zip that is there": {func(p *upstream.Package) {
			if p.Platform == linux {
				p.Zh = digest.FromString("evil").Encoded()
			}
		}, darwin},
		"the new zip": {func(p *upstream.Package) {
			if p.Platform == darwin {
				p.Zh = digest.FromString("evil").Encoded()
			}
		}, darwin},
		"bytes of the new zip": {func(p *upstream.Package) {
			if p.Platform == darwin {
				p.Zh = ""
				p.Open = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(nil)), nil }
			}
		}, darwin},
		"a platform that the stored sums do not name": {func(p *upstream.Package) {
			if p.Platform.OS == "freebsd" {
				own, _ := other.Package(t.Context(), addr.Provider{}, v, p.Platform)
				*p = own
			}
		}, addr.Platform{OS: "freebsd", Arch: "arm"}},
		"a platform of an origin without sums": {func(p *upstream.Package) {
			if p.Platform.OS == "freebsd" {
				p.Shasums, p.Signature, p.Keys = nil, nil, nil
			}
		}, addr.Platform{OS: "freebsd", Arch: "arm"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
			src := depottest.NewRelease(t, mustKey(t), "linux_amd64", "darwin_arm64")
			must.Get(d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{Platforms: []addr.Platform{linux}}))(t)
			r := depottest.MustRepo(t, client, growRepo)
			before := depottest.MustFetch(t, r, "1.2.3").Digest
			src.Has = append(src.Has, "freebsd_arm")
			src.Dist[depottest.Stem+"freebsd_arm.zip"] = other.Dist[depottest.Stem+"freebsd_arm.zip"]
			src.Change = test.change
			_, err := d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{Platforms: []addr.Platform{linux, test.want}})
			conflict, ok := errors.AsType[*depot.ConflictError](err)
			switch {
			case !depot.Refused(err):
				t.Errorf("got %v", err)
			case ok && (conflict.Stored == "" || conflict.Offered == "" || conflict.Stored == conflict.Offered || conflict.Next != addr.Version{}):
				t.Errorf("got %+v", conflict)
			case !ok && !strings.Contains(name, "bytes"):
				t.Errorf("not a conflict: %v", err)
			}
			if after := depottest.MustFetch(t, r, "1.2.3").Digest; after != before {
				t.Error("the version moved")
			}
		})
	}
}

// before calls do before the request with the number n, counted from 0.
type before struct {
	base http.RoundTripper
	n    atomic.Int64
	do   func()
}

func (b *before) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.n.Add(-1) == -1 {
		b.do()
	}
	return b.base.RoundTrip(r)
}

// TestTwoGrowAtOnce: of two that add a platform each, who succeeded has it in the version, and
// afterwards both can; so can one after a kill.
func TestTwoGrowAtOnce(t *testing.T) {
	v := depottest.MustVersion(t, "1.2.3")
	var key *signing.Key
	var release, unsigned *depottest.Release
	synctest.Test(t, func(t *testing.T) { // at the time of the bubbles below
		key = depottest.NewKey(t, signing.KeyOptions{Name: "A"})
		release = depottest.NewRelease(t, key, "linux_amd64", "darwin_arm64", "windows_amd64")
		unsigned = depottest.NewRelease(t, key, "linux_amd64", "darwin_arm64", "windows_amd64")
	})
	unsigned.Change = func(p *upstream.Package) { p.Shasums, p.Signature, p.Keys, p.Zh = nil, nil, nil, "" }
	mirror := func(src depot.Source) func(*testing.T, *depot.Depot, ...string) error {
		return func(t *testing.T, d *depot.Depot, platforms ...string) error {
			o := depot.MirrorOptions{AllowUnsigned: true}
			for _, s := range platforms {
				o.Platforms = append(o.Platforms, mustPlatform(t, s))
			}
			_, err := d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, o)
			return err
		}
	}
	for name, tt := range map[string]struct {
		repository string
		grow       func(*testing.T, *depot.Depot, ...string) error
	}{
		"signed":   {growRepo, mirror(release)},
		"unsigned": {growRepo, mirror(unsigned)},
		"extended": {depottest.ProviderRepo, func(t *testing.T, d *depot.Depot, platforms ...string) error {
			_, err := d.PublishProvider(t.Context(), depottest.NewDist(t, platforms...), depottest.DNS(), v, depot.ProviderOptions{SignKey: key, Extend: true})
			return err
		}},
	} {
		for _, q := range []ocitest.Quirks{{}, {NoDelete: true}} {
			if q.NoDelete && name != "signed" {
				continue
			}
			t.Run(fmt.Sprintf("%s, no deletes %t", name, q.NoDelete), func(t *testing.T) {
				between := true
				for n := 0; between && !t.Failed(); n++ {
					between = false
					withoutWaits(t, ocitest.Handler(t, q), func(t *testing.T, registry http.RoundTripper) {
						second, client := newDepot(t, oci.Options{Transport: registry})
						must.Succeed(t, tt.grow(t, second, "linux_amd64"))
						var other error
						hook := &before{base: registry, do: func() {
							between = true
							other = tt.grow(t, second, "linux_amd64", "windows_amd64")
						}}
						hook.n.Store(int64(n))
						first, _ := newDepot(t, oci.Options{Transport: hook})
						has := func(when, platform string, err error) {
							t.Helper()
							x := growIndex(t, depottest.MustRepo(t, client, tt.repository))
							is := func(p artifact.ProviderPlatform) bool { return p.Platform.String() == platform }
							if err == nil && !slices.ContainsFunc(x.Platforms, is) {
								t.Errorf("%s, before request %d: %s is lost", when, n, platform)
							}
						}
						err := tt.grow(t, first, "linux_amd64", "darwin_arm64")
						has("at once", "darwin_arm64", err)
						if between {
							has("at once", "windows_amd64", other)
						}
						if err := tt.grow(t, second, "linux_amd64", "darwin_arm64", "windows_amd64"); err != nil {
							t.Errorf("then, before request %d: %v", n, err)
						}
						has("then", "darwin_arm64", nil)
						has("then", "windows_amd64", nil)
					})
				}
				withoutWaits(t, ocitest.Handler(t, q), func(t *testing.T, registry http.RoundTripper) {
					d, client := newDepot(t, oci.Options{Transport: registry})
					must.Succeed(t, tt.grow(t, d, "linux_amd64"))
					match := func(r *http.Request) bool {
						return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/1.2.3")
					}
					dies, _ := newDepot(t, oci.Options{Transport: &ocitest.Fault{Base: registry, Match: match, Times: -1, Do: ocitest.FailBefore}, Retry: oci.Retry{MaxAttempts: 1}})
					killed := tt.grow(t, dies, "linux_amd64", "darwin_arm64")
					early := tt.grow(t, d, "linux_amd64", "darwin_arm64", "windows_amd64")
					time.Sleep(11 * time.Minute)
					err := tt.grow(t, d, "linux_amd64", "darwin_arm64", "windows_amd64")
					if x := growIndex(t, depottest.MustRepo(t, client, tt.repository)); killed == nil || !refused(early) || err != nil || len(x.Platforms) != 3 {
						t.Errorf("killed: %v, then %v, later %v with %d platforms", killed, early, err, len(x.Platforms))
					}
				})
			})
		}
	}
}

func mustPlatform(t *testing.T, s string) addr.Platform {
	t.Helper()
	return must.Get(addr.ParsePlatform(s))(t)
}
