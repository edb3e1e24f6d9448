// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
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
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// contestants returns functions that publish 1.2.3 with different contents.
func contestants(t *testing.T) map[string]func(d *depot.Depot, content int) (depot.Published, error) {
	dists := []fs.FS{depottest.NewDist(t, "linux_amd64"), depottest.NewDist(t, "darwin_arm64"), depottest.NewDist(t, "windows_amd64")}
	key, v, m := depottest.NewKey(t, signing.KeyOptions{}), depottest.MustVersion(t, "1.2.3"), depottest.MustModule(t, "net/vpc/aws", "1.2.3")
	return map[string]func(d *depot.Depot, content int) (depot.Published, error){
		"module": func(d *depot.Depot, content int) (depot.Published, error) {
			return d.PublishModule(t.Context(), depottest.NewModule(fmt.Sprintf("locals { a = %d }\n", content)), m, depot.ModuleOptions{})
		},
		"provider": func(d *depot.Depot, content int) (depot.Published, error) {
			return d.PublishProvider(t.Context(), dists[content], depottest.DNS(), v, depot.ProviderOptions{SignKey: key})
		},
	}
}

func repositoryOf(kind string) string {
	return map[string]string{"module": depottest.ModuleRepo, "provider": depottest.ProviderRepo}[kind]
}

// refused reports whether a publisher got the error with both digests.
func refused(err error) bool {
	return errors.Is(err, oci.ErrExists) && strings.Count(err.Error(), "sha256:") >= 2
}

// withoutWaits runs a test in a bubble, with a registry without connection.
func withoutWaits(t *testing.T, h http.Handler, f func(t *testing.T, registry http.RoundTripper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, ocitest.Direct{Handler: h}) })
}

// eachWithoutWaits is withoutWaits for each kind of registry.
func eachWithoutWaits(t *testing.T, f func(t *testing.T, registry http.RoundTripper)) {
	t.Helper()
	ocitest.EachHandler(t, func(t *testing.T, h http.Handler) { withoutWaits(t, h, f) })
}

// passTime lets time pass in the bubble of withoutWaits.
func passTime(d time.Duration) { time.Sleep(d) }

func newDepot(t *testing.T, o oci.Options) (*depot.Depot, *oci.Client) {
	t.Helper()
	return depottest.NewDepot(t, "registry.test", o)
}

// TestTwoPublishOneVersion: of two publishers of different contents exactly one succeeds.
//
// Shows: opendepot-defects 10
// Shows: rules 8 | of two concurrent publishers of a version one succeeds, the other is refused;
// leftovers are pruned
func TestTwoPublishOneVersion(t *testing.T) {
	for _, kind := range []string{"module", "provider"} {
		t.Run(kind, func(t *testing.T) {
			eachWithoutWaits(t, func(t *testing.T, registry http.RoundTripper) {
				publish := contestants(t)[kind]
				reached, goOn := make(chan struct{}), make(chan struct{})
				stops := &ocitest.Fault{
					Base: registry,
					Match: func(r *http.Request) bool {
						return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/1.2.3")
					},
					Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
						close(reached)
						<-goOn
						return next.RoundTrip(r)
					},
				}
				slow, client := newDepot(t, oci.Options{Transport: stops, Retry: oci.Retry{MaxAttempts: 1}})
				quick, _ := newDepot(t, oci.Options{Transport: registry})
				var first depot.Published
				var firstErr error
				var done sync.WaitGroup
				done.Go(func() { first, firstErr = publish(slow, 0) })
				<-reached
				second, secondErr := publish(quick, 1)
				close(goOn)
				done.Wait()
				won, lost := first, secondErr
				if firstErr != nil {
					won, lost = second, firstErr
				}
				if firstErr == nil == (secondErr == nil) || !refused(lost) {
					t.Fatalf("the first got %v, the second %v; want one success, and a refusal with both digests", firstErr, secondErr)
				}
				if is := depottest.MustFetch(t, depottest.MustRepo(t, client, repositoryOf(kind)), "1.2.3"); is.Digest.String() != won.Digest {
					t.Errorf("the version is %s, and %s was told to be there", is.Digest, won.Digest)
				}
				if _, err := publish(quick, 2); !refused(err) {
					t.Errorf("a third one later: %v", err)
				}
			})
		})
	}
}

// TestPublisherDiesBeforeItsVersion leaves a bid: the same content can be published, other is
// refused, with a hint.
//
// Shows: rules 8
func TestPublisherDiesBeforeItsVersion(t *testing.T) {
	for name, q := range map[string]ocitest.Quirks{"deletes": {}, "deletes nothing": {NoDelete: true}} {
		t.Run(name, func(t *testing.T) { withoutWaits(t, ocitest.Handler(t, q), publisherDies) })
	}
}

func publisherDies(t *testing.T, registry http.RoundTripper) {
	publish := contestants(t)["module"]
	killed := false
	dies := &ocitest.Fault{
		Base: registry,
		Match: func(r *http.Request) bool {
			killed = killed || r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/1.2.3")
			return killed
		},
		Times: -1, Do: ocitest.FailBefore,
	}
	dead, _ := newDepot(t, oci.Options{Transport: dies, Retry: oci.Retry{MaxAttempts: 1}})
	if _, err := publish(dead, 0); err == nil {
		t.Fatal("it came through")
	}
	d, client := newDepot(t, oci.Options{Transport: registry})
	if _, err := publish(d, 1); !refused(err) || !strings.Contains(err.Error(), "an earlier publication did not finish") {
		t.Errorf("other content: %v", err)
	}
	_, err := d.PublishModule(t.Context(), depottest.NewModule("# 1"), depottest.MustModule(t, "net/vpc/aws", "1.2.3"), depot.ModuleOptions{Policy: depot.PolicyEditions})
	if tags := strings.Join(depottest.MustTags(t, depottest.MustRepo(t, client, depottest.ModuleRepo)), " "); !refused(err) || strings.Contains(tags, "1.2.3-e") {
		t.Errorf("other content as an edition: %v, and the tags are %s", err, tags)
	}
	out, err := publish(d, 0)
	if err != nil {
		t.Fatalf("the same content: %v", err)
	}
	if is := depottest.MustFetch(t, depottest.MustRepo(t, client, depottest.ModuleRepo), "1.2.3"); is.Digest.String() != out.Digest {
		t.Errorf("the version is %s, want %s", is.Digest, out.Digest)
	}
	if _, err := publish(d, 1); !refused(err) {
		t.Errorf("other content, later: %v", err)
	}
}

// TestBegunIsFinished kills publishers before they write the version: who publishes the same files
// again, from another commit, finishes it.
func TestBegunIsFinished(t *testing.T) {
	dist, v := depottest.NewDist(t, "linux_amd64"), depottest.MustVersion(t, "1.2.3")
	for n := range 8 { // each digest may be the smaller one
		withoutWaits(t, ocitest.Handler(t, ocitest.Quirks{}), func(t *testing.T, registry http.RoundTripper) {
			key := depottest.NewKey(t, signing.KeyOptions{}) // with the time of the bubble
			start := time.Now()
			commit := func(i int) map[string]string {
				return map[string]string{artifact.AnnRevision: strconv.Itoa(10*n + i)}
			}
			for repository, publish := range map[string]func(d *depot.Depot, i int) (depot.Published, error){
				depottest.ModuleRepo: func(d *depot.Depot, i int) (depot.Published, error) {
					return d.PublishModule(t.Context(), depottest.NewModule(""), addr.ModuleVersion{Module: depottest.VPC(), Version: v}, depot.ModuleOptions{Annotations: commit(i)})
				},
				"p/modules/net/edited/aws": func(d *depot.Depot, i int) (depot.Published, error) {
					return d.PublishModule(t.Context(), depottest.NewModule(""), depottest.MustModule(t, "net/edited/aws", "1.2.3"), depot.ModuleOptions{Annotations: commit(i), Policy: depot.PolicyEditions})
				},
				depottest.ProviderRepo: func(d *depot.Depot, i int) (depot.Published, error) {
					return d.PublishProvider(t.Context(), dist, depottest.DNS(), v, depot.ProviderOptions{SignKey: key, Now: start.Add(time.Duration(i) * time.Second), Annotations: commit(i)})
				},
			} {
				for i := range 1 + n%2 {
					dies := &ocitest.Fault{
						Base: registry,
						Match: func(r *http.Request) bool {
							return r.Method != http.MethodGet && r.Method != http.MethodHead && strings.HasSuffix(r.URL.Path, "/manifests/1.2.3")
						},
						Times: -1, Do: ocitest.FailBefore,
					}
					d, _ := newDepot(t, oci.Options{Transport: dies, Retry: oci.Retry{MaxAttempts: 1}})
					if _, err := publish(d, i); err == nil {
						t.Fatal("it came through")
					}
				}
				d, client := newDepot(t, oci.Options{Transport: registry})
				out := must.Get(publish(d, 9))(t)
				is := depottest.MustFetch(t, depottest.MustRepo(t, client, repository), "1.2.3")
				if is.Digest.String() != out.Digest || out.Existing || artifact.AnnotationsOf(is)[artifact.AnnRevision] == strconv.Itoa(10*n+9) {
					t.Errorf("%s: the version is %s of %v, want %+v", repository, is.Digest, artifact.AnnotationsOf(is), out)
				}
				for _, tag := range depottest.MustTags(t, depottest.MustRepo(t, client, repository)) {
					if v, ok := addr.VersionFromTag(tag); ok && v.Edition() && tag != "1.2.3-e"+is.Digest.Encoded()[:12] {
						t.Errorf("%s is listed, the version is %s", tag, is.Digest)
					}
				}
			}
		})
	}
}

// TestKilledPublishers kills one or two publishers of different contents at each request. What was
// begun is finished at once if nothing else was; ten minutes later anybody can publish.
func TestKilledPublishers(t *testing.T) {
	for _, kind := range []string{"module", "provider"} {
		for _, order := range []string{"one", "two", "beside"} {
			for n, done := 1, false; !done; n++ {
				for _, after := range []bool{false, true} {
					withoutWaits(t, ocitest.Handler(t, ocitest.Quirks{}), func(t *testing.T, registry http.RoundTripper) {
						done = publishKilled(t, registry, kind, order, n, after)
					})
					if t.Failed() {
						t.Fatalf("%s, %s: killed at request %d, which took effect: %v", kind, order, n, after)
					}
				}
			}
		}
	}
}

// publishKilled reports whether the nth request does not exist.
func publishKilled(t *testing.T, registry http.RoundTripper, kind, order string, n int, after bool) (done bool) {
	t.Helper()
	publish := contestants(t)[kind]
	kill := func(content int) bool {
		broken := died(n, after, registry).(*ocitest.Fault)
		dead, _ := newDepot(t, oci.Options{Transport: broken, Retry: oci.Retry{MaxAttempts: 1}})
		_, _ = publish(dead, content) // whatever became of it
		return broken.Seen() < n
	}
	d, client := newDepot(t, oci.Options{Transport: registry})
	repo := depottest.MustRepo(t, client, repositoryOf(kind))
	there := func() bool {
		_, err := repo.Resolve(t.Context(), "1.2.3")
		return err == nil
	}
	if order == "beside" {
		held, _ := newDepot(t, oci.Options{Transport: &ocitest.Fault{Base: registry, Nth: 1, Match: func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/1.2.3")
		}, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			done = kill(1)
			return next.RoundTrip(r)
		}}})
		must.Get(publish(held, 0))(t)
	} else if done = kill(0); order == "two" {
		kill(1)
	}
	switch {
	case order == "one":
		must.Get(publish(d, 0))(t)
	case !there():
		time.Sleep(11 * time.Minute) // of the bubble
		must.Get(publish(d, 2))(t)
	}
	if _, err := publish(d, 1); order == "one" && !refused(err) {
		t.Errorf("other content: %v", err)
	}
	if kind == "provider" && order == "one" {
		time.Sleep(11 * time.Minute) // what was killed may still write the index from before
		dist := depottest.NewDist(t, "linux_amd64", "darwin_arm64")
		must.Get(d.PublishProvider(t.Context(), dist, depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: depottest.NewKey(t, signing.KeyOptions{}), Extend: true}))(t)
	}
	was := depottest.MustFetch(t, repo, "1.2.3").Digest
	item := map[string]addr.Item{"module": depottest.VPC().Item(), "provider": depottest.DNS().Item()}[kind]
	for _, action := range []string{evidence.ActionYank, evidence.ActionUnyank} {
		_, _, err := d.Announce(t.Context(), item, depot.Announcement{Action: action, Version: "1.2.3", DeleteTag: true})
		must.Succeed(t, err)
		if there() != (action == evidence.ActionUnyank) {
			t.Errorf("after %s the version is there: %v", action, there())
		}
	}
	if is := depottest.MustFetch(t, repo, "1.2.3").Digest; is != was {
		t.Errorf("the version is %s, and was %s", is, was)
	}
	return done
}

// TestALateVersion stops a publisher before it writes the version, for longer than its bid.
func TestALateVersion(t *testing.T) {
	withoutWaits(t, ocitest.Handler(t, ocitest.Quirks{}), func(t *testing.T, registry http.RoundTripper) {
		publish := contestants(t)["provider"]
		bid := false
		stops := &ocitest.Fault{
			Base: registry, Times: 2, // after the first it bids again, by the clock of the answer
			Match: func(r *http.Request) bool {
				bid = bid || strings.HasPrefix(path.Base(r.URL.Path), "okara-publish-")
				return bid && strings.HasSuffix(r.URL.Path, "/tags/list")
			},
			Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				time.Sleep(3 * time.Minute) // as a process that is stopped
				return resp, err
			},
		}
		slow, _ := newDepot(t, oci.Options{Transport: stops, Retry: oci.Retry{MaxAttempts: 1}})
		if _, err := publish(slow, 0); err == nil || !strings.Contains(err.Error(), "was not published within 2m0s; publish it again") {
			t.Errorf("late: %v", err)
		}
		must.Get(publish(slow, 1))(t)
	})
}

// TestRequestsOfAModule counts a publication's requests: list, blobs, PUT and DELETE of the bid, a
// check that it is served, list, existence, version, latest, time, the catalog's entry. The first
// of a repository also sends the empty blob; blobs not taken by POST are one PUT more each.
func TestRequestsOfAModule(t *testing.T) {
	for name, tt := range map[string]struct {
		q           ocitest.Quirks
		cold, first int // the first version of a process; the first of all
		warm        map[string]int
	}{
		"by digest":   {ocitest.Quirks{DigestDeleteOnly: true}, 14, 21, map[string]int{"GET tags": 2, "POST upload": 3, "HEAD manifest": 2, "PUT manifest": 4, "DELETE manifest": 2}},
		"single post": {ocitest.Quirks{}, 13, 20, map[string]int{"GET tags": 2, "POST upload": 3, "HEAD manifest": 2, "PUT manifest": 4, "DELETE manifest": 1}},
		"no single post": {ocitest.Quirks{NoSinglePost: true}, 16, 23, map[string]int{
			"GET tags": 2, "POST upload": 3, "PUT upload": 3, "HEAD manifest": 2, "PUT manifest": 4, "DELETE manifest": 1,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			count, host := &ocitest.Count{}, ocitest.New(t, tt.q)
			d, _ := depottest.NewDepot(t, host, oci.Options{Transport: count})
			publish := func(version string) map[string]int {
				t.Helper()
				out, err := d.PublishModule(t.Context(), depottest.NewModule("# "+version), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{})
				if err != nil || len(out.Warnings) > 0 {
					t.Fatal(out.Warnings, err)
				}
				return count.Take()
			}
			if n := publish("1.0.0"); total(n) > tt.first {
				t.Errorf("the first version of all took %v, at most %d", n, tt.first)
			}
			if diff := cmp.Diff(tt.warm, publish("1.1.0")); diff != "" {
				t.Errorf("requests of a version (-want +got):\n%s", diff)
			}
			d, _ = depottest.NewDepot(t, host, oci.Options{Transport: count})
			if n := publish("1.2.0"); total(n) > tt.cold {
				t.Errorf("a version by a new process took %v, at most %d", n, tt.cold)
			}
		})
	}
}

// TestRequestsOfVerbs bounds the requests of other verbs, each in its own process. An existing
// provider of two platforms takes a HEAD for three manifests and two zips.
func TestRequestsOfVerbs(t *testing.T) {
	key := mustKey(t)
	count, hosts := &ocitest.Count{}, []string{ocitest.New(t, ocitest.Quirks{}), ocitest.New(t, ocitest.Quirks{})}
	publish := func(platforms ...string) func(*depot.Depot) error {
		return func(d *depot.Depot) error {
			return second(d.PublishProvider(t.Context(), depottest.NewDist(t, platforms...), depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: key, Extend: true}))
		}
	}
	mirror := func(d *depot.Depot) error {
		return second(d.MirrorProvider(t.Context(), depottest.NewRelease(t, key, "linux_amd64"), depottest.UpstreamDNS(), depottest.MustVersion(t, "1.2.3"), depot.MirrorOptions{}))
	}
	module := func(version string) func(*depot.Depot) error {
		return func(d *depot.Depot) error {
			return second(d.PublishModule(t.Context(), depottest.NewModule("# "+version), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{}))
		}
	}
	announce := func(action string) func(*depot.Depot) error {
		return func(d *depot.Depot) error {
			_, _, err := d.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: action, Version: "1.0.0"})
			return err
		}
	}
	prune := func(d *depot.Depot) error {
		l := mustVersions(t, d, depottest.VPC().Item())
		return depot.PruneVersions(t.Context(), l, l.Prunable(depot.Retention{Keep: 1}))
	}
	for _, step := range []struct {
		name string
		do   func(*depot.Depot) error
		most int
	}{
		{"publish", publish("linux_amd64"), 28}, {"publish again", publish("linux_amd64"), 6},
		{"extend", publish("linux_amd64", "darwin_arm64"), 26}, {"extend again", publish("linux_amd64", "darwin_arm64"), 8},
		{"mirror", mirror, 27}, {"mirror again", mirror, 4},
		{"module", module("1.0.0"), 20}, {"module", module("1.1.0"), 13}, {"yank", announce(evidence.ActionYank), 8}, {"undo", announce(evidence.ActionUnyank), 9}, {"prune", prune, 13},
	} {
		for host, o := range map[string]oci.Options{hosts[0]: {Transport: count}, hosts[1]: {Transport: count, TagParts: true}} {
			d, _ := depottest.NewDepot(t, host, o)
			must.Succeed(t, step.do(d))
			if n := count.Take(); total(n) > step.most {
				t.Errorf("%s took %d requests, at most %d: %v (%t)", step.name, total(n), step.most, n, o.TagParts)
			}
		}
	}
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// TestSinglePostLost: a version is pushed again if a blob sent with POST is reported missing.
func TestSinglePostLost(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	lost := &ocitest.Fault{Match: ocitest.On(http.MethodPost, "upload"), Nth: 1, Do: func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		return ocitest.Status(http.StatusCreated, 0)(r, nil)
	}}
	d, client := depottest.NewDepot(t, host, oci.Options{Transport: lost})
	must.Get(d.PublishModule(t.Context(), depottest.NewModule(""), depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{}))(t)
	mustBeComplete(t, depottest.MustRepo(t, client, depottest.ModuleRepo), "1.0.0")
}

// TestLatestBesideAnother: a publisher that sees another publication lists again before it moves
// latest, and after.
func TestLatestBesideAnother(t *testing.T) {
	count, host := &ocitest.Count{}, ocitest.New(t, ocitest.Quirks{})
	d, client := depottest.NewDepot(t, host, oci.Options{Transport: count})
	publish := func(version string) {
		t.Helper()
		must.Get(d.PublishModule(t.Context(), depottest.NewModule("# "+version), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{}))(t)
	}
	publish("1.0.0")
	r := depottest.MustRepo(t, client, depottest.ModuleRepo)
	bid := "okara-publish-0123456789abcdef-" + strings.Repeat("0", 64) + "-01234567"
	must.Succeed(t, r.PutTag(t.Context(), bid, depottest.MustFetch(t, r, "1.0.0")))
	count.Take()
	publish("1.1.0")
	if n := count.Take()["GET tags"]; n != 4 {
		t.Errorf("%d lists, want one before latest is moved, and one after", n)
	}
	publish("1.0.1")
	if latest, want := depottest.MustFetch(t, r, "latest"), depottest.MustFetch(t, r, "1.1.0"); latest.Digest != want.Digest {
		t.Errorf("latest is %s, want %s", latest.Digest, want.Digest)
	}
}

// TestBidsArePruned checks that pruning removes remaining bids for existing
// versions, but none for a version that may still be written.
//
// Shows: rules 8
func TestBidsArePruned(t *testing.T) {
	for name, rules := range map[string]ocitest.Refusals{"by tag": {}, "by digest": {NoUntag: true}} {
		t.Run(name, func(t *testing.T) {
			g := ocitest.NewRefusing(t, ocitest.Refusals{NoDelete: true})
			d, client := depottest.NewDepot(t, g.Host, oci.Options{})
			for _, version := range []string{"1.0.0", "1.1.0"} {
				must.Get(d.PublishModule(t.Context(), depottest.NewModule("# "+version), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{}))(t)
			}
			r := depottest.MustRepo(t, client, depottest.ModuleRepo)
			bids := func() (found []string) {
				t.Helper()
				tags := must.Get(r.Snapshot(t.Context()))(t)
				return slices.DeleteFunc(tags.Tags, func(tag string) bool { return !strings.HasPrefix(tag, "okara-publish-") })
			}
			if len(bids()) != 2 {
				t.Fatalf("bids: %q", bids())
			}
			begun, planted := "okara-publish-0123456789abcdef-"+strings.Repeat("0", 64)+"-01234567", bids()[0]+"-x"
			must.Succeed(t, r.PutTag(t.Context(), begun, depottest.MustFetch(t, r, bids()[0])))
			g.Refuse(rules)
			l := must.Get(d.Versions(t.Context(), depottest.VPC().Item()))(t)
			want := []string{begun}
			if name == "by digest" { // with a unique manifest, as every bid has
				must.Succeed(t, r.PutTag(t.Context(), begun, depottest.MustFetch(t, r, "1.1.0")))
				must.Succeed(t, r.PutTag(t.Context(), planted, depottest.MustFetch(t, r, "1.1.0")))
				l = mustVersions(t, d, depottest.VPC().Item())
				want = slices.Sorted(slices.Values([]string{begun, planted}))
			}
			must.Succeed(t, depot.PruneVersions(t.Context(), l, l.Prunable(depot.Retention{Keep: 1})))
			if left := bids(); !slices.Equal(left, want) {
				t.Errorf("left: %q", left)
			}
			depottest.MustFetch(t, r, "1.1.0")
		})
	}
}

// TestWithdrawnSincePlan withdraws a version between the list of a plan and its publication: latest
// does not move to it, and its number is not used again.
func TestWithdrawnSincePlan(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
		mirror := func(version string, l *depot.Listing) error {
			fetch := func(_ context.Context, dir string, _ bool) (depot.Fetched, error) {
				return depot.Fetched{Package: dir}, os.CopyFS(dir, depottest.NewModule("# "+version))
			}
			_, err := d.MirrorModule(t.Context(), depottest.MustModule(t, "net/vpc/aws", version), fetch, depot.ModuleOptions{Compare: true, Listed: l, More: l != nil})
			return err
		}
		must.Succeed(t, mirror("1.0.0", nil))
		item := depottest.VPC().Item()
		r := depottest.MustRepo(t, client, item.Repository(d.Options().Layout))
		plan := must.Get(depot.ReadListing(t.Context(), r, addr.KindModule, nil))(t)
		must.Succeed(t, mirror("1.2.3", nil))
		must.GetBoth(d.Announce(t.Context(), item, depot.Announcement{Action: evidence.ActionYank, Version: "1.2.3", DeleteTag: deleted}))(t)

		_, isConflict := errors.AsType[*depot.ConflictError](mirror("1.2.3", plan))
		must.Equal(t, fmt.Sprintf("refused, with its tag deleted %t", deleted), isConflict, deleted)
		latest, first := must.Get(r.Resolve(t.Context(), artifact.TagLatest))(t), must.Get(r.Resolve(t.Context(), "1.0.0"))(t)
		must.Equal(t, "latest", latest.Digest, first.Digest)
	}
}
