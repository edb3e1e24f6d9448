// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const growRepo = "p/mirror/registry.example.com/acme/dns"

var (
	linux  = addr.Platform{OS: "linux", Arch: "amd64"}
	darwin = addr.Platform{OS: "darwin", Arch: "arm64"}
)

func growIndex(t *testing.T, r *oci.Repo) artifact.ProviderIndex {
	t.Helper()
	x, err := artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	return x
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
				out, err := d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{Platforms: platforms, AllowUnsigned: !signed, Compare: true})
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			first := mirror(linux)
			r := depottest.MustRepo(t, client, growRepo)
			before := growIndex(t, r)
			opened := src.Opened.Load()
			second := mirror(linux, darwin, addr.Platform{OS: "plan9", Arch: "arm"})
			if second.Existing || !slices.Equal(second.Added, []addr.Platform{darwin}) || len(second.Warnings) == 0 || !strings.Contains(second.Warnings[len(second.Warnings)-1], "plan9_arm") {
				t.Errorf("second %+v", second)
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
	} {
		t.Run(name, func(t *testing.T) {
			d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
			src := depottest.NewRelease(t, mustKey(t), "linux_amd64", "darwin_arm64")
			if _, err := d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{Platforms: []addr.Platform{linux}}); err != nil {
				t.Fatal(err)
			}
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
