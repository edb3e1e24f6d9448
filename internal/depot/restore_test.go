// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestPublishAgainRestores: what a collection removed comes back by publishing or mirroring the
// same bytes.
func TestPublishAgainRestores(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	all := numbers(t)
	mirrored := number{"mirrored module", depottest.VPC().Item(), func(d *depot.Depot, version, _ string) (depot.Published, error) {
		fetch := func(_ context.Context, dir string, _ bool) (depot.Fetched, error) {
			return depot.Fetched{Package: dir}, os.CopyFS(dir, depottest.NewModule("# one"))
		}
		return d.MirrorModule(t.Context(), depottest.MustModule(t, "net/vpc/aws", version), fetch, depot.ModuleOptions{})
	}}
	for _, tt := range []number{all[0], all[2], all[3], mirrored} {
		for _, manifests := range []bool{true, false} {
			t.Run(fmt.Sprint(tt.name, manifests), func(t *testing.T) {
				d, client := depottest.NewDepot(t, host, oci.Options{})
				first := must.Get(tt.publish(d, "1.2.3", "# one"))(t)
				r := depottest.MustRepo(t, client, tt.item.Repository(d.Options().Layout))
				m := depottest.MustFetch(t, r, "1.2.3")
				gone := 0
				remove := func(path string, parts []oci.Descriptor) {
					for _, part := range parts {
						req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+host+"/v2/"+r.Name()+"/"+path+"/"+part.Digest.String(), nil))(t)
						resp, err := http.DefaultClient.Do(req)
						if err != nil || resp.StatusCode != http.StatusAccepted && gone == 0 {
							t.Fatal(resp, err)
						}
						resp.Body.Close()
						if part.Data == nil || path == "manifests" {
							gone++
						}
					}
				}
				lose := func() {
					if index, err := m.Index(); err == nil {
						for _, part := range index.Manifests {
							image := must.Get(depottest.MustFetch(t, r, part.Digest.String()).Image())(t)
							remove("blobs", image.Layers)
						}
						if manifests {
							remove("manifests", index.Manifests)
						}
					} else if image, err := m.Image(); err == nil {
						remove("blobs", image.Layers[:2])
					}
				}
				lose()
				d, client = depottest.NewDepot(t, host, oci.Options{}) // another process
				r = depottest.MustRepo(t, client, r.Name())
				if lost, err := depot.LostParts(t.Context(), r, m); err != nil || len(lost) != gone {
					t.Fatalf("%d of %d parts are lost, %v", len(lost), gone, err)
				}
				again, err := tt.publish(d, "1.2.3", "# one")
				if err != nil || again.Digest != first.Digest || !again.Existing || !strings.Contains(strings.Join(again.Warnings, "\n"), "pushed again") {
					t.Errorf("got %+v, %v", again, err)
				}
				if lost, err := depot.LostParts(t.Context(), r, m); err != nil || len(lost) > 0 {
					t.Errorf("%d parts are lost, %v", len(lost), err)
				}
				if _, err := d.Verify(t.Context(), tt.item, depottest.MustVersion(t, "1.2.3"), trust.Policy{Deep: true}); err != nil {
					t.Error(err)
				}

				// What is taken back comes back with its parts.
				announce := func(action string) []string {
					_, warnings := must.GetBoth(d.Announce(t.Context(), tt.item, depot.Announcement{Action: action, Version: "1.2.3", DeleteTag: true}))(t)
					return warnings
				}
				announce(evidence.ActionYank)
				lose()
				d, _ = depottest.NewDepot(t, host, oci.Options{})
				if warnings := announce(evidence.ActionUnyank); len(warnings) != 1 || !strings.Contains(warnings[0], "publish the same files again") {
					t.Errorf("undo: %q", warnings)
				}
				d, _ = depottest.NewDepot(t, host, oci.Options{})
				must.Get(tt.publish(d, "1.2.3", "# one"))(t)
				if _, err := d.Verify(t.Context(), tt.item, depottest.MustVersion(t, "1.2.3"), trust.Policy{Deep: true}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestTagParts: parts get tags when published again, and keep them while a version names them.
func TestTagParts(t *testing.T) {
	for _, q := range []ocitest.Quirks{{}, {DigestDeleteOnly: true}} {
		host := ocitest.New(t, q)
		for _, name := range []string{"provider", "mirror"} {
			t.Run(fmt.Sprint(name, q.DigestDeleteOnly), func(t *testing.T) {
				publish := numbers(t)[slices.IndexFunc(numbers(t), func(n number) bool { return n.name == name })]
				plain, client := depottest.NewDepot(t, host, oci.Options{})
				d, _ := depottest.NewDepot(t, host, oci.Options{TagParts: true})
				r := depottest.MustRepo(t, client, publish.item.Repository(d.Options().Layout))
				check := func(when string, want int) {
					t.Helper()
					isNoPart := func(tag string) bool { return !strings.HasPrefix(tag, oci.PartPrefix) }
					tags := slices.DeleteFunc(depottest.MustTags(t, r), isNoPart)
					if len(tags) != want {
						t.Errorf("%s: %d parts have tags: %q", when, len(tags), tags)
					}
					for _, tag := range tags {
						if m := depottest.MustFetch(t, r, tag); oci.PartTag(m.Digest) != tag {
							t.Errorf("%s: %s is %s", when, tag, m.Digest)
						}
					}
				}
				must.Get(publish.publish(plain, "1.2.3", ""))(t)
				check("without", 0)
				again := must.Get(publish.publish(d, "1.2.3", ""))(t)
				check("again", 2)
				if again.Added != nil || !again.Existing {
					t.Errorf("got %+v", again)
				}
				x := must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, r, "1.2.3")))(t)
				zip := must.Get(artifact.ResolveProviderZip(t.Context(), r, x.Platforms[0]))(t).Digest.String()
				req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+host+"/v2/"+r.Name()+"/blobs/"+zip, nil))(t)
				must.Get(http.DefaultClient.Do(req))(t).Body.Close()
				strict, _ := depottest.NewDepot(t, host, oci.Options{TagParts: true, Transport: &ocitest.Fault{Times: -1, Match: func(r *http.Request) bool {
					return strings.HasSuffix(r.URL.Path, "/manifests/"+zip)
				}, Do: ocitest.Status(http.StatusBadRequest, -1)}})
				if restored, err := publish.publish(strict, "1.2.3", ""); err != nil || !strings.Contains(strings.Join(restored.Warnings, "\n"), "pushed again") {
					t.Errorf("without a zip: %+v, %v", restored, err)
				}
				announce := func(action, version string) {
					must.GetBoth(d.Announce(t.Context(), publish.item, depot.Announcement{Action: action, Version: version, DeleteTag: true}))(t)
				}
				if !q.DigestDeleteOnly {
					must.Succeed(t, r.PutTag(t.Context(), "1.2.4", depottest.MustFetch(t, r, "1.2.3")))
					announce(evidence.ActionYank, "1.2.3")
					check("another version needs them", 2)
					announce(evidence.ActionYank, "1.2.4")
					check("no version needs them", 0)
					announce(evidence.ActionUnyank, "1.2.3")
					check("undone", 2)
				}
				l := mustVersions(t, d, publish.item)
				must.Succeed(t, depot.PruneVersions(t.Context(), l, l.Versions))
				check("pruned", 0)
			})
		}
	}
	for value, want := range map[string]bool{"": false, "true": true, "0": false} {
		if got, err := depot.TagParts(func(string) string { return value }); got != want || err != nil {
			t.Errorf("%q: got %t, %v", value, got, err)
		}
	}
	if _, err := depot.TagParts(func(string) string { return "yes" }); err == nil || !strings.Contains(err.Error(), `OKARA_TAG_PARTS is "yes", must be true or false`) {
		t.Error(err)
	}
	if r := must.Get(oci.OpenRepo("ghcr.io/acme/dns", oci.Options{}))(t); !r.TagsParts() {
		t.Error("parts have no tags at ghcr.io")
	}
}

// collector deletes, before request n, what was pushed by digest: no tag needs it yet.
type collector struct {
	before
	t      *testing.T
	tag    string
	mu     sync.Mutex // guards pushed and tagged
	pushed []string   // paths below the repository
	tagged bool
	ran    bool
}

func (c *collector) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.before.RoundTrip(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ref, isManifest := strings.Cut(r.URL.Path, "/manifests/")
	switch digest := r.URL.Query().Get("digest"); {
	case err != nil || r.Method != http.MethodPut && r.Method != http.MethodPost:
	case digest != "" && digest != oci.EmptyBlob().Digest.String():
		c.pushed = append(c.pushed, "blobs/"+digest)
	case isManifest && strings.HasPrefix(ref, "sha256:"):
		c.pushed = append(c.pushed, "manifests/"+ref)
	case isManifest && ref == c.tag:
		c.tagged = true
	}
	return resp, err
}

func (c *collector) collect(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran = true
	if c.tagged {
		return
	}
	for _, path := range c.pushed {
		req := must.Get(http.NewRequestWithContext(c.t.Context(), http.MethodDelete, "http://registry.test/v2/"+name+"/"+path, nil))(c.t)
		must.Get(c.base.RoundTrip(req))(c.t).Body.Close()
	}
}

// TestCollectionBesideAPublication collects garbage before each request of a
// publication: it fails, or the version is whole after it is published again.
func TestCollectionBesideAPublication(t *testing.T) {
	for _, kind := range []string{"module", "provider"} {
		t.Run(kind, func(t *testing.T) {
			ran := true
			for n := 0; ran && !t.Failed(); n++ {
				withoutWaits(t, ocitest.Handler(t, ocitest.Quirks{}), func(t *testing.T, registry http.RoundTripper) {
					publish := contestants(t)[kind]
					c := &collector{before: before{base: registry}, t: t, tag: "1.2.3"}
					c.do = func() { c.collect(repositoryOf(kind)) }
					c.n.Store(int64(n))
					d, _ := newDepot(t, oci.Options{Transport: c})
					_, err := publish(d, 0)
					ran = c.ran
					d, client := newDepot(t, oci.Options{Transport: registry})
					if _, again := publish(d, 0); again != nil {
						t.Errorf("before request %d: %v, then %v", n, err, again)
						return
					}
					m := depottest.MustFetch(t, depottest.MustRepo(t, client, repositoryOf(kind)), "1.2.3")
					if lost, err := depot.LostParts(t.Context(), depottest.MustRepo(t, client, repositoryOf(kind)), m); err != nil || len(lost) > 0 {
						t.Errorf("before request %d: %d parts are lost, %v", n, len(lost), err)
					}
					it := map[string]addr.Item{"module": depottest.VPC().Item(), "provider": depottest.DNS().Item()}[kind]
					if _, err := d.Verify(t.Context(), it, depottest.MustVersion(t, "1.2.3"), trust.Policy{Deep: true}); err != nil {
						t.Errorf("before request %d: %v", n, err)
					}
				})
			}
		})
	}
}
