// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

func TestExtendProvider(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, client := depottest.NewDepot(t, host, oci.Options{})
		v, o := depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: mustKey(t), Extend: true}
		first := must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), v, o))(t)
		r := depottest.MustRepo(t, client, depottest.ProviderRepo)
		before := must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3")))(t)
		more := o
		more.Extend = false
		_, err := d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64", "darwin_arm64"), depottest.DNS(), v, more)
		if conflict, ok := errors.AsType[*depot.ConflictError](err); !ok || !conflict.Grows {
			t.Errorf("more platforms without Extend: %v", err)
		}
		_, err = d.PublishProvider(t.Context(), depottest.NewDist(t, "darwin_arm64"), depottest.DNS(), v, o)
		if !errors.Is(err, oci.ErrExists) || !strings.Contains(err.Error(), "linux_amd64 is already published, and SHA256SUMS lacks it") {
			t.Errorf("only the new platform: %v", err)
		}
		second, err := d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64", "darwin_arm64"), depottest.DNS(), v, o)
		if err != nil || second.Existing || second.Digest == first.Digest {
			t.Fatalf("%+v, %v", second, err)
		}
		after, err := artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3"))
		if err != nil || len(after.Platforms) != 2 {
			t.Fatalf("%+v, %v", after, err)
		}
		if diff := cmp.Diff(mustJSON(t, after.Platforms[0].Manifest), mustJSON(t, before.Platforms[0].Manifest)); diff != "" {
			t.Errorf("the old descriptor changed (-got +want)\n%s", diff)
		}
		if _, err := d.Verify(t.Context(), depottest.DNS().Item(), v, trust.Policy{Deep: true}); err != nil {
			t.Error(err)
		}
		tags := depottest.MustTags(t, r)
		i := slices.IndexFunc(tags, func(s string) bool { return strings.HasPrefix(s, "okara-index-") })
		if len(tags) != 2 || i < 0 || depottest.MustFetch(t, r, tags[i]).Digest.String() != first.Digest {
			t.Errorf("tags %v: the old index is not kept", tags)
		}
		again, err := d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64", "darwin_arm64"), depottest.DNS(), v, o)
		if err != nil || !again.Existing || again.Digest != second.Digest {
			t.Errorf("again: %+v, %v", again, err)
		}
	})
}

func TestExtendProviderRefuses(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	v, o := depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: mustKey(t), Extend: true}
	must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), v, o))(t)
	r := depottest.MustRepo(t, client, depottest.ProviderRepo)
	before := depottest.MustFetch(t, r, "1.2.3").Digest
	changed := depottest.NewDist(t, "linux_amd64", "darwin_arm64")
	changed[depottest.Stem+"linux_amd64.zip"].Data = depottest.NewZip(t, depottest.File("terraform-provider-dns", "other", 0o755))
	for name, dist := range map[string]error{
		"another zip": second(d.PublishProvider(t.Context(), changed, depottest.DNS(), v, o)),
		"missing zip": second(d.PublishProvider(t.Context(), depottest.NewDist(t, "darwin_arm64"), depottest.DNS(), v, o)),
	} {
		if !errors.Is(dist, oci.ErrExists) || !strings.Contains(dist.Error(), "linux_amd64") {
			t.Errorf("%s: got %v, want ErrExists", name, dist)
		}
	}
	if after := depottest.MustFetch(t, r, "1.2.3").Digest; after != before {
		t.Error("the version moved")
	}
}

// TestExtendBesideARemoval extends a provider before each request of a removal, and the reverse: a
// platform that was readable is that or nothing.
func TestExtendBesideARemoval(t *testing.T) {
	var ctx context.Context             // of the bubble
	key, made := mustKey(t), time.Now() // which is not the time in it
	two := depottest.NewDist(t, "linux_amd64", "darwin_arm64")
	other := depottest.NewDist(t, "linux_amd64", "darwin_arm64")
	other[depottest.Stem+"darwin_arm64.zip"].Data = depottest.NewZip(t, depottest.File("terraform-provider-dns", "other", 0o755))
	v := depottest.MustVersion(t, "1.2.3")
	extend := func(d *depot.Depot, dist fs.FS) error {
		_, err := d.PublishProvider(ctx, dist, depottest.DNS(), v, depot.ProviderOptions{SignKey: key, Extend: true, Now: made})
		return err
	}
	announce := func(d *depot.Depot, action string) error {
		_, _, err := d.Announce(ctx, depottest.DNS().Item(), depot.Announcement{Action: action, Version: "1.2.3", DeleteTag: true})
		return err
	}
	verbs := map[string]func(d *depot.Depot) error{
		"extend": func(d *depot.Depot) error { return extend(d, two) },
		"yank":   func(d *depot.Depot) error { return announce(d, evidence.ActionYank) },
		"prune": func(d *depot.Depot) error {
			l, err := d.Versions(ctx, depottest.DNS().Item())
			if err == nil {
				err = depot.PruneVersions(ctx, l, l.Versions)
			}
			return err
		},
	}
	for _, names := range [][2]string{{"yank", "extend"}, {"prune", "extend"}, {"extend", "yank"}, {"extend", "prune"}} {
		extended, removed := 0, 0
		for at, isDue := int32(0), true; isDue; at++ {
			isDue = false
			withoutWaits(t, ocitest.Memory(), func(t *testing.T, registry http.RoundTripper) {
				open := func(transport http.RoundTripper) *depot.Depot {
					d, _ := depottest.NewDepot(t, "registry.test", oci.Options{PlainHTTP: true, Transport: transport})
					return d
				}
				ctx = t.Context()
				d := open(registry)
				must.Succeed(t, extend(d, depottest.NewDist(t, "linux_amd64")))
				var inner error
				var n atomic.Int32
				outer := verbs[names[0]](open(roundTrip(func(r *http.Request) (*http.Response, error) {
					if n.Add(1) == at+1 {
						isDue = true
						inner = verbs[names[1]](d)
					}
					return registry.RoundTrip(r)
				})))
				done := map[string]bool{names[0]: outer == nil, names[1]: isDue && inner == nil}
				_ = announce(d, evidence.ActionUnyank) // of what is not withdrawn
				if err := extend(d, other); done["extend"] && err == nil {
					t.Errorf("%s before request %d of %s: %v, %v; other content: %v", names[1], at, names[0], inner, outer, err)
				}
				extended += map[bool]int{true: 1}[done["extend"]]
				removed += map[bool]int{true: 1}[done[names[0]] && done[names[1]]]
			})
		}
		if extended == 0 || removed == 0 {
			t.Errorf("%v: %d extensions, %d of both", names, extended, removed)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func second(_ depot.Published, err error) error { return err }

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b := must.Get(json.Marshal(v))(t)
	return string(b)
}
