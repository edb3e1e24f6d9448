// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
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

// TestPublishTime: of all methods the first time counts, but for an edition's move.
func TestPublishTime(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, _ := depottest.NewDepot(t, host, oci.Options{})
		m := depottest.MustModule(t, "net/vpc/aws", "1.0.0")
		published := func(it addr.Item, v addr.Version) time.Time {
			t.Helper()
			l := must.Get(d.Versions(t.Context(), it))(t)
			return l.Published(v, nil)
		}
		recent := func(it addr.Item, v addr.Version, before time.Time) {
			t.Helper()
			if at := published(it, v); at.Before(before.Truncate(time.Millisecond)) || at.After(time.Now()) {
				t.Errorf("%s %s was published at %s, want after %s", it, v, at, before)
			}
		}
		module := func(text string, policy depot.Policy) {
			t.Helper()
			must.Get(d.PublishModule(t.Context(), depottest.NewModule(text), m, depot.ModuleOptions{Policy: policy}))(t)
		}
		start := time.Now()
		module("# 1", depot.PolicyImmutable)
		recent(m.Item(), m.Version, start)
		first := published(m.Item(), m.Version)
		module("# 1", depot.PolicyImmutable)
		for _, action := range []string{evidence.ActionYank, evidence.ActionUnyank} {
			an := depot.Announcement{Action: action, Version: "1.0.0", DeleteTag: action == evidence.ActionYank}
			if _, _, err := d.Announce(t.Context(), m.Item(), an); err != nil && !errors.Is(err, oci.ErrUnsupported) {
				t.Fatal(err)
			}
		}
		if again := published(m.Item(), m.Version); !again.Equal(first) {
			t.Errorf("published at %s, and then at %s", first, again)
		}
		moved := time.Now()
		module("# 2", depot.PolicyEditions)
		recent(m.Item(), m.Version, moved)

		template := addr.Item{Kind: addr.KindTemplate, Template: "sandbox/vpc"}
		must.Get(d.PublishTemplate(t.Context(), template.Template, m.Version, []byte("{}")))(t)
		recent(template, m.Version, moved)
		dns, v := depottest.DNS(), depottest.MustVersion(t, "1.2.3")
		dist := depottest.NewDist(t, "linux_amd64")
		must.Get(d.PublishProvider(t.Context(), dist, dns, v, depot.ProviderOptions{SignKey: mustKey(t)}))(t)
		recent(dns.Item(), v, moved)
	})
}

// timeTags returns the recorded times of a repository.
func timeTags(t *testing.T, r *oci.Repo) []string {
	t.Helper()
	l := must.Get(depot.ReadListing(t.Context(), r, addr.KindModule, nil))(t)
	return slices.DeleteFunc(slices.Clone(l.Tags), func(tag string) bool { return !strings.HasPrefix(tag, "okara-time-") })
}

// TestTimeOnce: each move between contents is recorded; removed versions have no time.
func TestTimeOnce(t *testing.T) {
	for name, q := range map[string]ocitest.Quirks{"by tag": {}, "by digest": {DigestDeleteOnly: true}} {
		t.Run(name, func(t *testing.T) {
			d, client := depottest.NewDepot(t, ocitest.New(t, q), oci.Options{})
			r := depottest.MustRepo(t, client, depottest.ModuleRepo)
			publish := func(version, text string, policy depot.Policy) {
				t.Helper()
				must.Get(d.PublishModule(t.Context(), depottest.NewModule(text), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{Policy: policy}))(t)
			}
			publish("1.0.0", "# 1", depot.PolicyEditions)
			publish("1.0.0", "# 2", depot.PolicyEditions)
			for _, text := range []string{"# 1", "# 2", "# 1"} {
				publish("1.0.0", text, depot.PolicyEditions)
			}
			if got := timeTags(t, r); len(got) != 5 {
				t.Errorf("times %v, want five", got)
			}
			publish("2.0.0", "# 3", depot.PolicyImmutable)
			l := must.Get(d.Versions(t.Context(), depottest.VPC().Item()))(t)
			must.Succeed(t, depot.PruneVersions(t.Context(), l, l.Prunable(depot.Retention{Keep: 1})))
			if got := timeTags(t, r); len(got) != 1 || !strings.HasSuffix(got[0], "-2.0.0") {
				t.Errorf("times %v after pruning, want that of 2.0.0", got)
			}
		})
	}
}

// TestUnyankRecordsNothing: an unyank makes no version younger.
func TestUnyankRecordsNothing(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	m := depottest.MustModule(t, "net/vpc/aws", "1.0.0")
	must.Get(d.PublishModule(t.Context(), depottest.NewModule(""), m, depot.ModuleOptions{}))(t)
	r := depottest.MustRepo(t, client, depottest.ModuleRepo)
	for _, tag := range timeTags(t, r) {
		must.Succeed(t, r.Untag(t.Context(), tag))
	}
	for _, action := range []string{evidence.ActionYank, evidence.ActionUnyank} {
		if _, _, err := d.Announce(t.Context(), m.Item(), depot.Announcement{Action: action, Version: "1.0.0", DeleteTag: action == evidence.ActionYank}); err != nil {
			t.Fatal(err)
		}
	}
	if got := timeTags(t, r); len(got) != 0 {
		t.Errorf("recorded %v", got)
	}
}

// TestTimesBeforehand has time tags for a version before it is published.
func TestTimesBeforehand(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	r := depottest.MustRepo(t, client, depottest.ModuleRepo)
	m := depottest.MustModule(t, "net/vpc/aws", "1.0.0")
	must.Get(d.PublishModule(t.Context(), depottest.NewModule(""), m, depot.ModuleOptions{}))(t)
	for _, tag := range []string{"okara-time-1000000000000-9.0.0", "okara-time-9999999999999-9.0.0", "okara-time-1000000000000-8.0.0"} {
		must.Succeed(t, r.PutTag(t.Context(), tag, depottest.MustFetch(t, r, "1.0.0")))
	}
	m = depottest.MustModule(t, "net/vpc/aws", "9.0.0")
	start := time.Now().Truncate(time.Millisecond)
	must.Get(d.PublishModule(t.Context(), depottest.NewModule(""), m, depot.ModuleOptions{}))(t)
	l := must.Get(d.Versions(t.Context(), m.Item()))(t)
	if at := l.Published(m.Version, nil); at.Before(start) || at.After(time.Now()) {
		t.Errorf("published at %s, want after %s", at, start)
	}
	made := map[string]string{artifact.AnnCreated: "2026-01-02T03:04:05Z"}
	if at := l.Published(depottest.MustVersion(t, "8.0.0"), made); at.Year() != 2026 {
		t.Errorf("published at %s, want no time before the manifest was made", at)
	}
}

// TestForeignTimes lists tags that are no publish times.
func TestForeignTimes(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	m := depottest.MustModule(t, "net/vpc/aws", "1.0.0")
	must.Get(d.PublishModule(t.Context(), depottest.NewModule(""), m, depot.ModuleOptions{}))(t)
	r := depottest.MustRepo(t, client, depottest.ModuleRepo)
	for _, tag := range []string{"okara-time-", "okara-time-1", "okara-time-12345678901234-1.0.0", "okara-time-123456789012x-1.0.0", "okara-time-1234567890123-"} {
		must.Succeed(t, r.PutTag(t.Context(), tag, depottest.MustFetch(t, r, "1.0.0")))
	}
	l := must.Get(d.Versions(t.Context(), m.Item()))(t)
	if at := l.Published(m.Version, nil); time.Since(at) > time.Hour || len(l.Versions) != 1 {
		t.Errorf("%s, %v", at, l.Versions)
	}
	long := depottest.MustVersion(t, "1.0.0-"+strings.Repeat("a", 110)) // as other tools publish it
	must.Succeed(t, r.PutTag(t.Context(), long.Tag(), depottest.MustFetch(t, r, "1.0.0")))
	l = must.Get(d.Versions(t.Context(), m.Item()))(t)
	if !slices.Contains(l.Versions, long) || !l.Published(long, nil).IsZero() {
		t.Errorf("%v", l)
	}
	if at := l.Published(long, map[string]string{artifact.AnnCreated: "2026-01-02T03:04:05Z"}); at.Year() != 2026 {
		t.Errorf("%s, want the time of the manifest where none is recorded", at)
	}
}

// TestAListThatStaysEqual: a future event counts when due; a cache is told of by the last answer.
func TestAListThatStaysEqual(t *testing.T) {
	withoutWaits(t, ocitest.Handler(t, ocitest.Quirks{}), func(t *testing.T, registry http.RoundTripper) {
		cached := false
		d, client := newDepot(t, oci.Options{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := registry.RoundTrip(r)
			if err == nil && cached {
				resp.Header.Set("Age", "30")
			}
			return resp, err
		})})
		m, r := depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depottest.MustRepo(t, client, depottest.ModuleRepo)
		must.Get(d.PublishModule(t.Context(), depottest.NewModule(""), m, depot.ModuleOptions{}))(t)
		must.Get(evidence.PutStatusEvent(t.Context(), r, evidence.StatusEvent{Action: evidence.ActionYank, Version: "1.0.0", Time: time.Now().Add(48 * time.Hour)}))(t)
		l := mustVersions(t, d, m.Item())
		for n, tt := range []struct {
			after          time.Duration
			cached, yanked bool
		}{{0, false, false}, {time.Hour, true, false}, {25 * time.Hour, true, true}, {0, false, true}} {
			passTime(tt.after)
			cached = tt.cached
			l = must.Get(depot.ListVersions(t.Context(), r, addr.KindModule, l))(t)
			if again := must.Get(depot.ListVersions(t.Context(), r, addr.KindModule, l))(t); again != l || l.Cached != tt.cached || (l.Status(m.Version).Yanked != nil) != tt.yanked {
				t.Errorf("%d: the same %t, cached %t, yanked %v", n, again == l, l.Cached, l.Status(m.Version).Yanked)
			}
		}
	})
}
