// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// number publishes one version of an item, with other content each time.
type number struct {
	name    string
	item    addr.Item
	publish func(d *depot.Depot, version, text string) (depot.Published, error)
}

func numbers(t *testing.T) []number {
	key := mustKey(t)
	return []number{
		{"module", depottest.VPC().Item(), func(d *depot.Depot, version, text string) (depot.Published, error) {
			return d.PublishModule(t.Context(), depottest.NewModule(text), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{})
		}},
		{"editions", depottest.VPC().Item(), func(d *depot.Depot, version, text string) (depot.Published, error) {
			return d.PublishModule(t.Context(), depottest.NewModule(text), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{Policy: depot.PolicyEditions})
		}},
		{"provider", depottest.DNS().Item(), func(d *depot.Depot, _, text string) (depot.Published, error) {
			platform := "linux_amd64"
			if strings.Contains(text, "other") {
				platform = "windows_amd64"
			}
			dist := depottest.NewDist(t, platform)
			return d.PublishProvider(t.Context(), dist, depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: key})
		}},
		{"mirror", depottest.UpstreamDNS().Item(), func(d *depot.Depot, _, _ string) (depot.Published, error) {
			return d.MirrorProvider(t.Context(), depottest.NewRelease(t, key, "linux_amd64"), depottest.UpstreamDNS(), depottest.MustVersion(t, "1.2.3"), depot.MirrorOptions{})
		}},
	}
}

// TestANumberIsUsedOnce publishes a removed number again: other, same, after an unyank.
func TestANumberIsUsedOnce(t *testing.T) {
	for _, tt := range numbers(t) {
		t.Run(tt.name, func(t *testing.T) {
			d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
			first := must.Get(tt.publish(d, "1.2.3", "# one"))(t)
			announce := func(action string) error {
				_, _, err := d.Announce(t.Context(), tt.item, depot.Announcement{
					Action: action, Version: "1.2.3", Message: "leaks the key", DeleteTag: true,
				})
				return err
			}
			must.Succeed(t, announce(evidence.ActionYank))
			for _, text := range []string{"# one", "# other"} {
				_, err := tt.publish(d, "1.2.3", text)
				conflict, ok := errors.AsType[*depot.ConflictError](err)
				if !ok || !errors.Is(err, oci.ErrExists) || (conflict.Next.String() == "1.2.4") != (tt.name != "mirror") || !strings.Contains(err.Error(), "was withdrawn: leaks the key") {
					t.Errorf("%s: got %v", text, err)
				}
			}
			if tags := depottest.MustTags(t, depottest.MustRepo(t, client, tt.item.Repository(d.Options().Layout))); strings.Contains(strings.Join(tags, " "), "1.2.3 ") {
				t.Errorf("the tag is back: %v", tags)
			}
			must.Succeed(t, announce(evidence.ActionUnyank))
			again, err := tt.publish(d, "1.2.3", "# one")
			if err != nil || !again.Existing || again.Digest != first.Digest {
				t.Errorf("unyanked: got %+v, %v, want %s", again, err, first.Digest)
			}
		})
	}
}

// TestANumberWhoseTagIsGone: without its tag, or with a dangling one, a number takes its own
// content only.
func TestANumberWhoseTagIsGone(t *testing.T) {
	for _, tt := range numbers(t) {
		for _, listed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/listed=%t", tt.name, listed), func(t *testing.T) {
				registry := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
				server := httptest.NewServer(registry)
				t.Cleanup(server.Close)
				d, client := depottest.NewDepot(t, strings.TrimPrefix(server.URL, "http://"), oci.Options{})
				must.Get(tt.publish(d, "1.2.3", "# one"))(t)
				repo := depottest.MustRepo(t, client, tt.item.Repository(d.Options().Layout))
				must.Succeed(t, repo.Untag(t.Context(), "1.2.3"))
				if listed {
					registry.Add(repo.Name(), "1.2.3")
				}
				_, err := tt.publish(d, "1.2.3", "# other")
				allowed := map[string]bool{"editions": true, "mirror": true} // whose number moves, and whose content is the origin's
				if errors.Is(err, oci.ErrExists) == allowed[tt.name] || err != nil && !errors.Is(err, oci.ErrExists) {
					t.Errorf("other content: %v", err)
				}
				if _, err := tt.publish(d, "1.2.3", "# one"); err != nil {
					t.Errorf("the same content: %v", err)
				}
			})
		}
	}
}

// TestTheFolderIsContent: the installed folder belongs to a number; an older record does not name
// it, the manifest does.
func TestTheFolderIsContent(t *testing.T) {
	tree := fstest.MapFS{"main.tf": {}, "modules/one/main.tf": {}, "modules/two/main.tf": {}}
	for _, first := range []string{"", "modules/one"} {
		for _, record := range []string{"a time", "a removal", "an older removal", "an older removal, and gone"} {
			d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
			r := depottest.MustRepo(t, client, depottest.ModuleRepo)
			publish := func(dir string) (depot.Published, error) {
				return d.PublishModule(t.Context(), tree, depottest.MustModule(t, "net/vpc/aws", "1.2.3"), depot.ModuleOptions{Dir: dir, Annotations: map[string]string{artifact.AnnModulePath: dir}})
			}
			m := depottest.MustFetch(t, r, must.Get(publish(first))(t).Digest)
			e := evidence.StatusEvent{Action: evidence.ActionYank, Version: "1.2.3", Subject: m.Digest, Content: []string{must.Get(artifact.ParseModule(m))(t).ContentDigest}, Time: time.Now()}
			switch {
			case record == "a removal":
				must.GetBoth(d.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: evidence.ActionYank, Version: "1.2.3", DeleteTag: true}))(t)
			case record != "a time":
				must.Get(evidence.PutStatusEvent(t.Context(), r, e))(t)
			}
			if record != "a time" {
				must.Get(evidence.PutStatusEvent(t.Context(), r, evidence.StatusEvent{Action: evidence.ActionUnyank, Version: "1.2.3", Time: time.Now().Add(time.Second)}))(t)
			}
			if err := r.Untag(t.Context(), "1.2.3"); err != nil && !errors.Is(err, oci.ErrNotFound) {
				t.Fatal(err)
			}
			isKnown := record != "an older removal, and gone"
			if !isKnown {
				must.Succeed(t, r.Delete(t.Context(), m.Descriptor))
			}
			if _, err := publish("modules/two"); errors.Is(err, oci.ErrExists) != isKnown || err != nil && !isKnown {
				t.Errorf("%q after %s: another folder: %v", first, record, err)
			}
			if _, err := publish(first); isKnown && err != nil {
				t.Errorf("%q after %s: the same folder: %v", first, record, err)
			}
		}
	}
}

// TestWhatWasRecordedAtPublishing removes tags after a growth, a kill before the time, and beside a
// version of another tool that differs after "+".
func TestWhatWasRecordedAtPublishing(t *testing.T) {
	key, host := mustKey(t), ocitest.New(t, ocitest.Quirks{})
	d, client := depottest.NewDepot(t, host, oci.Options{})
	modules, providers := depottest.MustRepo(t, client, depottest.ModuleRepo), depottest.MustRepo(t, client, depottest.ProviderRepo)
	provider := func(text string, platforms ...string) error {
		dist := depottest.NewDist(t, platforms...)
		dist[depottest.Stem+"linux_amd64.zip"].Data = depottest.NewZip(t, depottest.File("terraform-provider-dns", "", 0o755))
		dist[depottest.Stem+platforms[len(platforms)-1]+".zip"].Data = depottest.NewZip(t, depottest.File("terraform-provider-dns", text, 0o755))
		_, err := d.PublishProvider(t.Context(), dist, depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: key, Extend: true})
		return err
	}
	must.Succeed(t, provider("", "linux_amd64"))
	before := mustVersions(t, d, depottest.DNS().Item()).Times["1.2.3"]
	must.Succeed(t, provider("", "linux_amd64", "darwin_arm64"))
	if at := mustVersions(t, d, depottest.DNS().Item()).Times["1.2.3"]; at.Sub(before) < time.Millisecond || at.Sub(before) > 5*time.Second {
		t.Errorf("published at %s, and with a further platform at %s", before, at)
	}
	must.Succeed(t, providers.Untag(t.Context(), "1.2.3"))
	if err := provider("other", "linux_amd64", "darwin_arm64"); !errors.Is(err, oci.ErrExists) {
		t.Errorf("another platform: %v", err)
	}
	module := numbers(t)[0]
	dead, _ := depottest.NewDepot(t, host, oci.Options{Retry: oci.Retry{MaxAttempts: 1}, Transport: &ocitest.Fault{
		Match: func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/okara-time-") }, Times: -1, Do: ocitest.FailBefore,
	}})
	must.Get(module.publish(dead, "1.0.0", "# one"))(t) // with a warning
	must.Get(module.publish(d, "1.0.0", "# one"))(t)
	must.Succeed(t, modules.Untag(t.Context(), "1.0.0"))
	if _, err := module.publish(d, "1.0.0", "# other"); !errors.Is(err, oci.ErrExists) {
		t.Errorf("after a killed publisher: %v", err)
	}
	must.Get(module.publish(d, "1.0.0", "# one"))(t)
	must.Succeed(t, modules.PutTag(t.Context(), "1.0.0_1", depottest.MustFetch(t, modules, "1.0.0")))
	must.Succeed(t, modules.Untag(t.Context(), "1.0.0"))
	if l := must.Get(depot.ReadListing(t.Context(), modules, addr.KindModule, nil))(t); len(l.Versions) != 0 || len(l.Hidden) != 1 {
		t.Errorf("%v is offered, %v hidden", l.Versions, l.Hidden)
	}
	if _, err := module.publish(d, "1.0.0-"+strings.Repeat("a", 98), ""); !errors.Is(err, oci.ErrTooLarge) || !strings.Contains(err.Error(), "at most 103") {
		t.Errorf("a long version: %v", err)
	}
}

// TestAYankedVersionSaysSo publishes again a version that exists and is yanked.
func TestAYankedVersionSaysSo(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, _ := depottest.NewDepot(t, host, oci.Options{})
		for _, tt := range numbers(t)[:3] {
			must.Get(tt.publish(d, "1.2.3", "# one"))(t)
			if _, _, err := d.Announce(t.Context(), tt.item, depot.Announcement{Action: evidence.ActionYank, Version: "1.2.3", Message: "leaks"}); err != nil {
				t.Fatal(err)
			}
			out, err := tt.publish(d, "1.2.3", "# one")
			if err != nil || !out.Existing || !strings.Contains(strings.Join(out.Warnings, "\n"), "1.2.3 was withdrawn: leaks") {
				t.Errorf("%s: got %+v, %v", tt.name, out, err)
			}
			_, err = tt.publish(d, "1.2.3", "# other")
			if !errors.Is(err, oci.ErrExists) || !strings.Contains(err.Error(), "and withdrawn: leaks") {
				t.Errorf("%s: got %v", tt.name, err)
			}
		}
	})
}

// TestAllVersionsAreYanked: a version after a yank of all is not withdrawn, unless an older okara
// wrote the event: then it is refused.
func TestAllVersionsAreYanked(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	module := numbers(t)[0]
	must.Get(module.publish(d, "1.2.3", "# one"))(t)
	if _, _, err := d.Announce(t.Context(), module.item, depot.Announcement{Action: evidence.ActionYank, Version: evidence.AllVersions}); err != nil {
		t.Fatal(err)
	}
	must.Get(module.publish(d, "1.2.4", "# later"))(t)
	if l := mustVersions(t, d, module.item); l.Status(l.Versions[0]).Yanked != nil || l.Status(l.Versions[1]).Yanked == nil {
		t.Errorf("of %v: %+v", l.Versions, l.Events)
	}
	r := depottest.MustRepo(t, client, depottest.ModuleRepo)
	must.Get(evidence.PutStatusEvent(t.Context(), r, evidence.StatusEvent{Action: evidence.ActionYank, Version: evidence.AllVersions, Time: time.Now()}))(t)
	_, err := module.publish(d, "2.0.0", "# two")
	conflict, ok := errors.AsType[*depot.ConflictError](err)
	if !ok || conflict.Next != (addr.Version{}) {
		t.Errorf("got %v", err)
	}
}

// TestUndoOfAllLiftsWhatAllDid, not what retention removed or was yanked by itself.
func TestUndoOfAllLiftsWhatAllDid(t *testing.T) {
	d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	module := numbers(t)[0]
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"} {
		must.Get(module.publish(d, v, "# one"))(t)
	}
	announce := func(action, version string) []string {
		t.Helper()
		_, warnings := must.GetBoth(d.Announce(t.Context(), module.item, depot.Announcement{Action: action, Version: version, Message: "why"}))(t)
		return warnings
	}
	announce(evidence.ActionYank, "1.2.0")
	l := mustVersions(t, d, module.item)
	must.Succeed(t, depot.PruneVersions(t.Context(), l, l.Prunable(depot.Retention{Keep: 1})))
	announce(evidence.ActionYank, evidence.AllVersions)
	warnings := announce(evidence.ActionUnyank, evidence.AllVersions)
	if got := strings.Join(warnings, "\n"); !strings.Contains(got, "3 versions kept their own status") || !strings.Contains(got, "1.0.0 1.1.0 1.2.0") {
		t.Errorf("warnings: %s", got)
	}
	if l := mustVersions(t, d, module.item); len(l.Versions) != 1 || l.Status(l.Versions[0]).Yanked != nil {
		t.Errorf("1.3.0 is yanked, or others are back: %v", l.Versions)
	}
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		if _, err := module.publish(d, v, "# other"); !errors.Is(err, oci.ErrExists) {
			t.Errorf("%s was published again with other content: %v", v, err)
		}
	}
	if _, err := d.Subject(t.Context(), module.item, depottest.MustVersion(t, "1.0.0")); !errors.Is(err, oci.ErrNotFound) || !strings.Contains(err.Error(), "was withdrawn and removed") {
		t.Errorf("reading what was pruned: %v", err)
	}
}

func mustVersions(t *testing.T, d *depot.Depot, it addr.Item) *depot.Listing {
	t.Helper()
	return must.Get(d.Versions(t.Context(), it))(t)
}

// TestPlusIsNoNumber: what differs only after "+" is one number of a module, two of a provider.
func TestPlusIsNoNumber(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{CachedList: true}), oci.Options{})
	module := numbers(t)[0]
	publish := func(version string) error {
		_, err := module.publish(d, version, "# "+version)
		return err
	}
	must.Succeed(t, publish("1.0.0+2"))
	for range 2 { // the second time it is withdrawn
		for _, version := range []string{"1.0.0", "1.0.0+10"} {
			conflict, ok := errors.AsType[*depot.ConflictError](publish(version))
			if !ok || conflict.Duplicate.String() != "1.0.0+2" || conflict.Next.String() != "1.0.1" {
				t.Errorf("%s: %v", version, conflict)
			}
		}
		if _, _, err := d.Announce(t.Context(), module.item, depot.Announcement{Action: evidence.ActionYank, Version: "1.0.0+2", DeleteTag: true}); err != nil {
			break
		}
	}

	// A tag that somebody removed without okara.
	must.Succeed(t, publish("1.5.0+1"))
	must.Succeed(t, depottest.MustRepo(t, client, depottest.ModuleRepo).Untag(t.Context(), "1.5.0_1"))
	if conflict, ok := errors.AsType[*depot.ConflictError](publish("1.5.0")); !ok || conflict.Duplicate.String() != "1.5.0+1" {
		t.Errorf("1.5.0: %v", conflict)
	}

	// Another tool published a pair: the one is offered whose time is known and earlier.
	r := depottest.MustRepo(t, client, depottest.ModuleRepo)
	must.Succeed(t, publish("2.0.0+2"))
	m := depottest.MustFetch(t, r, "2.0.0_2")
	first, second := depottest.MustVersion(t, "2.0.0+2"), depottest.MustVersion(t, "2.0.0")
	for _, tag := range []string{"2.0.0", "okara-time-1000000000000-2.0.0"} { // the second makes it the earlier one
		must.Succeed(t, r.PutTag(t.Context(), tag, m))
		if l := mustVersions(t, d, module.item); l.Versions[0] != first || l.Hidden[second] != first || len(l.Versions) != 1 {
			t.Errorf("%v is offered, %v hidden", l.Versions, l.Hidden)
		} else if w := l.Warnings(); len(w) != 2 || !strings.Contains(w[0], second.String()+" is not available") || !strings.Contains(w[1], "a cache") {
			t.Errorf("warnings: %q", w)
		}
		first, second = second, first
	}
	if _, err := d.Subject(t.Context(), module.item, first); !errors.Is(err, oci.ErrNotFound) || !strings.Contains(err.Error(), "published first") {
		t.Errorf("reading the other one: %v", err)
	}

	must.Succeed(t, publish("3.0.0")) // what retention removes still hides the other one
	l := mustVersions(t, d, module.item)
	must.Succeed(t, depot.PruneVersions(t.Context(), l, l.Prunable(depot.Retention{Keep: 1})))
	if l = mustVersions(t, d, module.item); len(l.Versions) != 1 || l.Hidden[first] != second {
		t.Errorf("after pruning %v is offered, %v hidden", l.Versions, l.Hidden)
	}
	for _, tag := range []string{"4.0.0", "4.0.0_1"} { // concurrent editions, whose times are not those of the version
		must.Succeed(t, r.PutTag(t.Context(), tag, m))
	}
	gone, other := depottest.MustVersion(t, "4.0.0"), depottest.MustVersion(t, "4.0.0+1")
	must.Succeed(t, depot.PruneVersions(t.Context(), mustVersions(t, d, module.item), []addr.Version{gone}))
	if l = mustVersions(t, d, module.item); l.Hidden[other] != gone {
		t.Errorf("after pruning an edition %v is offered, %v hidden", l.Versions, l.Hidden)
	}

	provider := depottest.MustRepo(t, client, depottest.ProviderRepo)
	must.Get(numbers(t)[2].publish(d, "", ""))(t)
	must.Succeed(t, provider.PutTag(t.Context(), "1.2.3_2", depottest.MustFetch(t, provider, "1.2.3")))
	if l := mustVersions(t, d, depottest.DNS().Item()); len(l.Versions) != 2 {
		t.Errorf("a provider's versions are compared completely: %v", l.Versions)
	}
}
