// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/bundle"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

const bundledModule = "modules/net/vpc/aws"

// bundleOf writes a bundle with everything of a module.
func bundleOf(t *testing.T, d *depot.Depot, m addr.Module) *bundle.File {
	t.Helper()
	item := must.Get(bundle.Select(t.Context(), d, addr.Selection{Item: m.Item()}))(t)
	file := filepath.Join(t.TempDir(), "b.tar")
	must.Get(bundle.Create(t.Context(), d, file, []bundle.Item{item}, bundle.CreateOptions{}))(t)
	return mustOpenBundle(t, file)
}

// uploads counts concurrent uploads, and blocks the first until there is a second.
type uploads struct {
	mu       sync.Mutex // guards the fields below
	now, max int
	puts     []string // path of each PUT that ended, in order
	two      chan struct{}
}

func (u *uploads) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/blobs/uploads/") {
		if err := u.start(r.Context()); err != nil {
			return nil, err
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if r.Method == http.MethodPut {
		u.end(r.URL.Path)
	}
	return resp, err
}

func (u *uploads) start(ctx context.Context) error {
	u.mu.Lock()
	if u.now++; u.now == 2 && u.max < 2 {
		close(u.two)
	}
	u.max = max(u.max, u.now)
	u.mu.Unlock()
	select {
	case <-u.two:
		return nil
	case <-ctx.Done():
		return errors.New("no second upload beside the first")
	}
}

func (u *uploads) end(path string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if strings.Contains(path, "/blobs/") {
		u.now--
	}
	u.puts = append(u.puts, path)
}

// TestLoadBundleInOrder loads signatures and status, and records the order of requests.
func TestLoadBundleInOrder(t *testing.T) {
	d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	publishVersions(t, d, 10)
	key, _ := depottest.NewCosignKey(t)
	must.Get(trust.SignCosign(t.Context(), depottest.MustSubject(t, d, depottest.VPC().Item(), depottest.MustVersion(t, "1.1.0")), key))(t)
	if _, _, err := d.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: evidence.ActionYank, Version: "1.2.0"}); err != nil {
		t.Fatal(err)
	}
	b := bundleOf(t, d, depottest.VPC())

	u := &uploads{two: make(chan struct{})}
	target := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{NoSinglePost: true}), oci.Options{Transport: u}))(t)
	inside := depot.New(depot.Options{Client: target, Layout: addr.Layout{Prefix: "inside"}})
	report := must.Get(bundle.Load(t.Context(), inside, b, bundle.LoadOptions{}))(t)
	const parallel = 8
	if u.max < 2 || u.max > parallel {
		t.Errorf("%d uploads at a time, want 2 to %d", u.max, parallel)
	}
	blobs, last := 0, 0
	for _, path := range u.puts {
		_, ref, isManifest := strings.Cut(path, "inside/"+bundledModule+"/manifests/")
		step := 0 // a blob
		_, version := addr.VersionFromTag(ref)
		switch {
		case strings.Contains(path, "inside/catalog/"):
			step = 4
		case version:
			step = 3
		case isManifest && (strings.Contains(ref, ":") || strings.HasPrefix(ref, "okara-publish-") || strings.HasPrefix(ref, "okara-time-") || ref == "latest"):
			step = last // by digest, or a publisher's bid, or a time: invisible; or latest
		case isManifest:
			step = 2
		default:
			blobs++
		}
		if step < last {
			t.Errorf("%s came too late, after step %d of %v", path, last, u.puts)
		}
		last = step
	}
	if blobs != report.Pushed || last < 3 {
		t.Errorf("%d blobs sent, %d reported, last step %d", blobs, report.Pushed, last)
	}
	if all := must.Get(inside.Catalog(t.Context()))(t); len(all) != 1 || all[0].Title != "Net/VPC/aws" {
		t.Errorf("catalog: %+v", all)
	}
	l, err := inside.Versions(t.Context(), depottest.VPC().Item())
	if err != nil || len(l.Versions) != 10 || l.Status(depottest.MustVersion(t, "1.2.0")).Yanked == nil {
		t.Errorf("loaded %+v, %v", l, err)
	}
}

// TestLoadBundleOfAWithdrawnVersion: an event in a bundle does not revert a withdrawal here.
func TestLoadBundleOfAWithdrawnVersion(t *testing.T) {
	d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	inside := newLoader(t, ocitest.New(t, ocitest.Quirks{}), "inside")
	announce := func(d *depot.Depot, an depot.Announcement) {
		t.Helper()
		if _, _, err := d.Announce(t.Context(), depottest.VPC().Item(), an); err != nil {
			t.Fatal(err)
		}
	}
	publishVersions(t, d, 2)
	must.Get(bundle.Load(t.Context(), inside, bundleOf(t, d, depottest.VPC()), bundle.LoadOptions{}))(t)
	announce(inside, depot.Announcement{Action: evidence.ActionYank, Version: "1.1.0", Message: "leaks", DeleteTag: true})
	announce(d, depot.Announcement{Action: evidence.ActionYank, Version: "1.1.0"})
	announce(d, depot.Announcement{Action: evidence.ActionUnyank, Version: "1.1.0"})
	publishVersions(t, d, 3)
	report := must.Get(bundle.Load(t.Context(), inside, bundleOf(t, d, depottest.VPC()), bundle.LoadOptions{}))(t)
	if len(report.Conflict) != 1 || !strings.Contains(report.Conflict[0], "1.1.0 was withdrawn: leaks") || len(report.Refused) > 0 {
		t.Errorf("%+v, want 1.1.0 as a conflict", report)
	}
	l, err := inside.Versions(t.Context(), depottest.VPC().Item())
	if err != nil || len(l.Versions) != 2 || l.Status(depottest.MustVersion(t, "1.1.0")).Yanked == nil {
		t.Errorf("loaded %+v, %v, want 1.0.0 and 1.2.0, and 1.1.0 still withdrawn", l, err)
	}
	if latest, want := depottest.MustFetch(t, l.Repository, "latest"), depottest.MustFetch(t, l.Repository, "1.2.0"); latest.Digest != want.Digest {
		t.Errorf("latest is %s, want 1.2.0", latest.Digest)
	}
}

// TestLoadBundleKeepsNumbers loads a signed bundle of a version that was removed, or restored: an
// unused number is withdrawn. Where it names other files nothing about it is loaded, and the rest
// is.
func TestLoadBundleKeepsNumbers(t *testing.T) {
	publish := func(t *testing.T, d *depot.Depot, version, text string) {
		must.Get(d.PublishModule(t.Context(), depottest.NewModule(text), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{}))(t)
	}
	announce := func(t *testing.T, d *depot.Depot, action string) {
		must.GetBoth(d.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: action, Version: "1.0.0", Message: "leaks", DeleteTag: true}))(t)
	}
	for _, restored := range []bool{false, true} {
		for name, prepare := range map[string]func(t *testing.T, d *depot.Depot){
			"never used": func(*testing.T, *depot.Depot) {},
			"same":       func(t *testing.T, d *depot.Depot) { publish(t, d, "1.0.0", "# b") },
			"other":      func(t *testing.T, d *depot.Depot) { publish(t, d, "1.0.0", "# a") },
			"pair":       func(t *testing.T, d *depot.Depot) { publish(t, d, "1.0.0+1", "# a") },
			"withdrawn": func(t *testing.T, d *depot.Depot) {
				publish(t, d, "1.0.0", "# a")
				announce(t, d, evidence.ActionYank)
			},
			"removed without okara": func(t *testing.T, d *depot.Depot) {
				publish(t, d, "1.0.0", "# a")
				must.Succeed(t, must.Get(d.Repo("inside/"+bundledModule))(t).Untag(t.Context(), "1.0.0"))
			},
		} {
			t.Run(fmt.Sprintf("%s/restored=%t", name, restored), func(t *testing.T) {
				d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
				inside := newLoader(t, ocitest.New(t, ocitest.Quirks{}), "inside")
				prepare(t, inside)
				publish(t, d, "1.0.0", "# b")
				publish(t, d, "1.1.0", "# b")
				announce(t, d, evidence.ActionYank)
				if restored {
					announce(t, d, evidence.ActionUnyank)
				}
				b := bundleOf(t, d, depottest.VPC())
				isOther := name != "never used" && name != "same"
				var first bundle.Report
				for i := range 2 {
					report := must.Get(bundle.Load(t.Context(), inside, b, bundle.LoadOptions{Trusted: true}))(t)
					if (len(report.Conflict) > 0) != isOther || len(report.Refused) > 0 || i > 0 && !slices.Equal(report.Conflict, first.Conflict) {
						t.Errorf("load %d: %+v, before %+v", i, report, first)
					}
					first = report
				}
				l := must.Get(inside.Versions(t.Context(), depottest.VPC().Item()))(t)
				s, err := inside.Subject(t.Context(), depottest.VPC().Item(), depottest.MustVersion(t, "1.0.0"))
				names := err == nil && must.Get(artifact.ParseModule(s.Manifest))(t).ContentDigest != must.Get(artifact.ParseModule(depottest.MustFetch(t, l.Repository, "1.1.0")))(t).ContentDigest
				if e := l.Status(depottest.MustVersion(t, "1.0.0")).Yanked; names != (name == "other") || (e != nil) != (name == "withdrawn" || !isOther && !restored) {
					t.Errorf("1.0.0 is %v, withdrawn: %v", err, e)
				}
			})
		}
	}
}

// TestLoadBundleRestores loads a bundle again after the registry lost a provider's zip.
func TestLoadBundleRestores(t *testing.T) {
	d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	host := ocitest.New(t, ocitest.Quirks{})
	inside, key := newLoader(t, host, "inside"), depottest.NewKey(t, signing.KeyOptions{ECC: true})
	must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: key}))(t)
	item := must.Get(bundle.Select(t.Context(), d, addr.Selection{Item: depottest.DNS().Item()}))(t)
	file := filepath.Join(t.TempDir(), "b.tar")
	must.Get(bundle.Create(t.Context(), d, file, []bundle.Item{item}, bundle.CreateOptions{}))(t)
	b := mustOpenBundle(t, file)
	must.Get(bundle.Load(t.Context(), inside, b, bundle.LoadOptions{}))(t)
	s := must.Get(inside.Subject(t.Context(), depottest.DNS().Item(), depottest.MustVersion(t, "1.2.3")))(t)
	zip := must.Get(artifact.ParseProviderIndex(s.Manifest))(t).Platforms[0].Zh
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+host+"/v2/"+s.Repository.Name()+"/blobs/sha256:"+zip, nil))(t)
	must.Get(http.DefaultClient.Do(req))(t).Body.Close()
	for _, want := range []int{1, 0} {
		if report, err := bundle.Load(t.Context(), newLoader(t, host, "inside"), b, bundle.LoadOptions{}); err != nil || report.Pushed != want {
			t.Errorf("%+v, %v, want %d blobs", report, err, want)
		}
	}

	// where parts have tags, they get those that they lack
	tagging := depot.New(depot.Options{Client: must.Get(oci.New(host, oci.Options{TagParts: true}))(t), Layout: inside.Options().Layout})
	must.Get(bundle.Load(t.Context(), tagging, b, bundle.LoadOptions{}))(t)
	for _, part := range must.Get(s.Manifest.Index())(t).Manifests {
		if m := depottest.MustFetch(t, s.Repository, oci.PartTag(part.Digest)); m.Digest != part.Digest {
			t.Errorf("the tag of %s is %s", part.Digest, m.Digest)
		}
	}
}

// TestLoadBundleAddsSignatures loads a bundle in which only a signature is new: both are valid.
func TestLoadBundleAddsSignatures(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
		publishVersions(t, d, 1)
		inside, v := newLoader(t, host, "inside"), depottest.MustVersion(t, "1.0.0")
		var trusted []*ecdsa.PublicKey
		for range 2 {
			key, public := depottest.NewCosignKey(t)
			must.Get(trust.SignCosign(t.Context(), depottest.MustSubject(t, d, depottest.VPC().Item(), v), key))(t)
			trusted = append(trusted, public)
			b := bundleOf(t, d, depottest.VPC())
			for range 2 { // the second time there is nothing to do
				must.Get(bundle.Load(t.Context(), inside, b, bundle.LoadOptions{}))(t)
			}
		}
		for i, key := range trusted {
			o := trust.Policy{Cosign: []*ecdsa.PublicKey{key}, Require: []string{trust.RequireCosign}}
			if _, err := inside.Verify(t.Context(), depottest.VPC().Item(), v, o); err != nil {
				t.Errorf("signature %d: %v", i+1, err)
			}
		}
	})
}

// TestBundleProgress adds up the reported progress: a run ends at its total.
func TestBundleProgress(t *testing.T) {
	var mu sync.Mutex // guards done and total
	done, total := map[string]int64{}, map[string]int64{}
	progress := func(e depot.Event) {
		mu.Lock()
		defer mu.Unlock()
		done[e.Item] += e.Bytes
		total[e.Item] = e.Total
	}
	client := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{}))(t)
	d := depot.New(depot.Options{Client: client, Layout: addr.Layout{Prefix: "p"}, TempDir: t.TempDir()})
	publishVersions(t, d, 3)
	d = depot.New(depot.Options{Client: client, Layout: addr.Layout{Prefix: "p"}, Progress: progress})
	ended := func(step string) {
		t.Helper()
		if done["b.tar"] == 0 || done["b.tar"] != total["b.tar"] || len(done) != 1 {
			t.Errorf("%s: %v of %v", step, done, total)
		}
		clear(done)
	}
	b := bundleOf(t, d, depottest.VPC())
	ended("create")
	inside := depot.New(depot.Options{Client: client, Layout: addr.Layout{Prefix: "inside"}, Progress: progress})
	must.Get(bundle.Load(t.Context(), inside, b, bundle.LoadOptions{}))(t)
	ended("load")
	if _, err := bundle.Load(t.Context(), inside, b, bundle.LoadOptions{}); err != nil || len(done) > 0 {
		t.Errorf("a run with nothing to do: %v, reported %v", err, done)
	}
}
