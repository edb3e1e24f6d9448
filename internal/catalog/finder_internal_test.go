// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// found is a finder with its own registry, and a clock that a test moves.
type found struct {
	*Finder
	depot  *depot.Depot
	layout addr.Layout
	client *oci.Client // not counted
	count  *ocitest.Count
	passed atomic.Int64
	start  time.Time
}

// newFinder starts a finder at a registry; faulty may break its requests, nil: no faults.
func newFinder(t testing.TB, host string, faulty http.RoundTripper) *found {
	t.Helper()
	f := &found{layout: addr.Layout{Prefix: "acme"}, count: &ocitest.Count{Base: faulty}, start: time.Now()}
	client := func(o oci.Options) *oci.Client {
		o.PlainHTTP, o.Retry = true, oci.Retry{MaxAttempts: 1}
		return must.Get(oci.New(host, o))(t)
	}
	f.client = client(oci.Options{})
	f.depot = depot.New(depot.Options{Client: f.client, Layout: f.layout})
	c := New(Options{
		Client: client(oci.Options{Transport: f.count}), Layout: f.layout, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return f.start.Add(time.Duration(f.passed.Load())) },
	})
	f.Finder = NewFinder(c, true)
	return f
}

func (f *found) module(t *testing.T, address, version string, files fstest.MapFS) {
	t.Helper()
	m := must.Get(addr.ParseModule(address))(t)
	v := must.Get(addr.ParseVersion(version))(t)
	must.Get(f.depot.PublishModule(t.Context(), files, addr.ModuleVersion{Module: m, Version: v}, depot.ModuleOptions{}))(t)
}

// hits returns the addresses that a text finds, or the error.
func (f *found) hits(t testing.TB, text string) string {
	t.Helper()
	v, complete, err := f.View(t.Context(), "all", func(string, string) bool { return true })
	if err != nil || !complete {
		t.Fatalf("complete: %v, %v", complete, err)
	}
	q := must.Get(search.ParseQuery(url.Values{"q": {text}}))(t)
	var list []string
	for _, e := range v.Search(q, nil) {
		list = append(list, e.Address)
	}
	return strings.Join(list, " ")
}

// settle takes steps until no step is due.
func (f *found) settle(t testing.TB) (waited time.Duration) {
	t.Helper()
	for range 1000 {
		wait := f.readNext(t.Context())
		if wait == lookEvery {
			return waited
		}
		waited += wait
	}
	t.Fatal("the sweep never ends")
	return 0
}

var described = fstest.MapFS{
	"main.tf":   {Data: []byte("variable \"cidr\" {}\nresource \"aws_vpc\" \"x\" {}\nmodule \"y\" { source = \"a/b/c\" }\n")},
	"README.md": {Data: []byte("# Network\n\n![badge](x)\n\nMakes a `private` [network](y).\n\nAnd more.\n")},
}

// TestFinder fills an index by refresh, publications and the stored one, within its requests.
func TestFinder(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	f := newFinder(t, host, nil)
	f.module(t, "net/vpc/aws", "1.9.0", fstest.MapFS{"main.tf": {Data: []byte(`variable "old" {}`)}})
	f.module(t, "net/vpc/aws", "1.10.0", described)
	f.module(t, "net/vpc/aws", "2.0.0-rc.1", fstest.MapFS{"main.tf": {Data: []byte(`variable "candidate" {}`)}})
	f.module(t, "app/site/aws", "1.0.0", fstest.MapFS{"main.tf": {Data: []byte(`output "x" { value = 1 }`)}})
	f.module(t, "app/queue/aws", "1.0.0", described)
	must.Succeed(t, artifact.AddCatalogEntry(t.Context(), f.repo(t), artifact.CatalogEntry{Kind: "module", Address: "gone/away/aws", Repository: f.layout.Module(addr.Module{Namespace: "gone", Name: "away", System: "aws"})}))

	// The list of the catalog is enough to find items by address.
	must.Equal(t, "before the sweep", f.hits(t, "site"), "app/site/aws")
	f.count.Take()
	f.keep = true // storing it is not part of the refresh
	waited := f.settle(t)
	if n := f.count.Total(); time.Duration(n)*refreshEach > waited {
		t.Errorf("%d requests in %v: more than three a second", n, waited)
	}
	f.count.Take()
	for text, want := range map[string]string{
		"aws_vpc": "app/queue/aws net/vpc/aws", "private": "app/queue/aws net/vpc/aws", "cidr": "app/queue/aws net/vpc/aws", "old": "", "candidate": "", "badge": "", "gone": "gone/away/aws",
	} {
		f.passed.Add(int64(showEvery))
		f.readNext(t.Context())
		must.Equal(t, text, f.hits(t, text), want)
	}
	v, _ := must.GetBoth(f.View(t.Context(), "all", func(string, string) bool { return true }))(t)
	e, ok := v.Has("module", "net/vpc/aws")
	if !ok || e.Version != "1.10.0" || e.Heading != "Network" || e.Description != "Makes a private network." || len(e.Calls) != 1 || e.Signed {
		t.Errorf("got %+v", e)
	}

	// Changes through this process are visible at once.
	f.module(t, "net/vpc/aws", "1.11.0", fstest.MapFS{"main.tf": {Data: []byte(`variable "brandnew" {}`)}})
	f.c.Changed("acme/modules/net/vpc/aws", "1.11.0")
	f.c.ChangedPublished()
	if f.readNext(t.Context()); f.hits(t, "brandnew") != "net/vpc/aws" {
		t.Errorf("after a publication: %q", f.hits(t, "brandnew"))
	}

	// An hour later each item is checked again, with one request if nothing changed.
	f.settle(t)
	f.module(t, "app/site/aws", "1.1.0", described)
	f.passed.Add(int64(refreshEvery + time.Minute))
	f.count.Take()
	waited = f.settle(t)
	if n := f.count.Total(); time.Duration(n-1)*refreshEach > waited { // minus the list of the catalog
		t.Errorf("%d requests in %v: more than three a second", n, waited)
	}
	f.passed.Add(int64(showEvery))
	if f.readNext(t.Context()); f.hits(t, "aws_vpc") != "app/queue/aws app/site/aws" {
		t.Errorf("after a round: %q", f.hits(t, "aws_vpc"))
	}

	// The index was stored: another process loads all of it with three requests.
	f.keep = false
	f.passed.Add(int64(writeEvery))
	f.settle(t)
	other := newFinder(t, host, nil)
	other.passed.Store(f.passed.Load())
	if got := other.hits(t, "aws_vpc"); got != "app/queue/aws app/site/aws" || other.count.Total() != 3 {
		t.Errorf("after a start: %q with %v", got, other.count.Take())
	}
	must.Equal(t, "what has no version", other.hits(t, "gone"), "gone/away/aws")
}

func (f *found) repo(t testing.TB) *oci.Repo {
	t.Helper()
	return must.Get(f.client.Repo(f.layout.CatalogRepo()))(t)
}

// TestFinderStored reads stored indexes that contradict the catalog.
//
// Shows: page-mistakes 14
func TestFinderStored(t *testing.T) {
	for name, document := range map[string]string{
		"nonsense":     "x",
		"not there":    `{"schemaVersion":1,"entries":[{"kind":"module","address":"evil/module/aws","listed":"2026-01-01T00:00:00Z"},{"kind":"module","address":"../x"}]}`,
		"wrong kind":   `{"schemaVersion":1,"entries":[{"kind":"provider","address":"net/vpc/aws","listed":"2026-01-01T00:00:00Z"}]}`,
		"times ahead":  `{"schemaVersion":1,"entries":[{"kind":"module","address":"net/vpc/aws","inputs":["evil"],"listed":"9026-01-01T00:00:00Z"}]}`,
		"newer format": `{"schemaVersion":9}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFinder(t, ocitest.New(t, ocitest.Quirks{}), nil)
			f.module(t, "net/vpc/aws", "1.0.0", described)
			must.Succeed(t, artifact.SearchIndex().Put(t.Context(), f.repo(t), nil, []byte(document)))
			if got := f.hits(t, ""); got != "net/vpc/aws" || f.hits(t, "evil") != "" {
				t.Errorf("found %q, evil: %q", got, f.hits(t, "evil"))
			}
			f.settle(t)
			f.passed.Add(int64(writeEvery))
			if f.settle(t); f.hits(t, "aws_vpc") != "net/vpc/aws" {
				t.Errorf("later: %q", f.hits(t, "aws_vpc"))
			}
		})
	}
}

// TestFinderReadOnly tries once to store the index in a registry that refuses: both blobs at once.
func TestFinderReadOnly(t *testing.T) {
	refuse := &ocitest.Fault{Times: -1, Do: ocitest.Status(http.StatusForbidden, -1), Match: func(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }}
	f := newFinder(t, ocitest.New(t, ocitest.Quirks{}), refuse)
	f.module(t, "net/vpc/aws", "1.0.0", described)
	first := 0
	for range 4 {
		f.settle(t)
		first = cmp.Or(first, refuse.Seen())
		f.passed.Add(int64(2 * refreshEvery))
	}
	if f.hits(t, "aws_vpc") != "net/vpc/aws" || first < 1 || first > 2 || refuse.Seen() != first {
		t.Errorf("found %q, %d requests to write, %d of the first try", f.hits(t, "aws_vpc"), refuse.Seen(), first)
	}
}

// large returns a registry with an index of 10,000 modules that nothing reads.
func large(t testing.TB, delay time.Duration) (*found, *atomic.Int64) {
	t.Helper()
	const modules = 10_000
	layout := addr.Layout{Prefix: "acme"}
	entries, tags := make([]search.Entry, 0, modules), make([]string, 0, modules)
	for i := range modules {
		m := addr.Module{Namespace: fmt.Sprint("team", i%100), Name: fmt.Sprint("thing", i), System: "aws"}
		entries = append(entries, search.Entry{
			Kind: addr.KindModule, Address: m.String(), Version: "1.0.0", Description: fmt.Sprint("Makes thing number ", i), Inputs: []string{"name", "tags"},
			Resources: []string{"aws_vpc"}, Listed: time.Now(), Read: time.Now(),
		})
		tags = append(tags, `"`+artifact.CatalogTag(layout.Module(m))+`"`)
	}
	document := must.Get(search.EncodeEntries(entries))(t)
	var asked atomic.Int64
	list := &ocitest.Fault{
		Times: -1, Match: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/tags/list") },
		Do: ocitest.Respond("application/json", `{"name":"acme/catalog","tags":[`+strings.Join(tags, ",")+`]}`),
	}
	slow := &ocitest.Fault{Base: list, Times: -1, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		asked.Add(1)
		time.Sleep(delay)
		return next.RoundTrip(r)
	}}
	f := newFinder(t, ocitest.New(t, ocitest.Quirks{}), slow)
	must.Succeed(t, artifact.SearchIndex().Put(t.Context(), f.repo(t), nil, document))
	return f, &asked
}

// TestFinderStart shows that after a restart the catalog must
// not be empty until everything was read.
//
// Shows: page-mistakes 14 | an empty catalog after a restart | -
func TestFinderStart(t *testing.T) {
	f, asked := large(t, 0)
	if got := f.hits(t, "thing7777"); got != "team77/thing7777/aws" || asked.Load() != 3 {
		t.Errorf("found %q with %d requests, want 3", got, asked.Load())
	}
	if got := f.hits(t, "number 4321"); got != "team21/thing4321/aws" || asked.Load() != 3 {
		t.Errorf("found %q with %d requests, want no more", got, asked.Load())
	}
}

// TestFinderSigned finds signatures without a tag, next to a report, at no further request.
func TestFinderSigned(t *testing.T) {
	f := newFinder(t, ocitest.New(t, ocitest.Quirks{}), nil)
	for _, name := range []string{"bundle", "reported", "bare"} {
		f.module(t, "net/"+name+"/aws", "1.0.0", described)
	}
	attach := func(name, mediaType string, scan *evidence.ScanSummary) {
		t.Helper()
		r := must.Get(f.client.Repo("acme/modules/net/" + name + "/aws"))(t)
		m := must.Get(r.Resolve(t.Context(), "1.0.0"))(t)
		must.Get(evidence.AttachReport(t.Context(), r, m, mediaType, []byte(mediaType), scan))(t)
	}
	critical := &evidence.ScanSummary{Tool: "test", Time: time.Now(), Critical: 1}
	attach("bundle", "application/vnd.dev.sigstore.bundle.v0.3+json", nil)
	attach("bundle", evidence.ReportSARIF, critical)
	attach("reported", evidence.ReportSARIF, critical)
	f.hits(t, "net")
	f.settle(t)
	f.passed.Add(int64(showEvery))
	f.readNext(t.Context())
	v, _ := must.GetBoth(f.View(t.Context(), "all", func(string, string) bool { return true }))(t)
	for name, want := range map[string]search.Entry{"bundle": {Signed: true, Scan: search.ScanCritical}, "reported": {Scan: search.ScanCritical}, "bare": {}} {
		e, ok := v.Has("module", "net/"+name+"/aws")
		if !ok || e.Signed != want.Signed || e.Scan != want.Scan {
			t.Errorf("%s: %v, signed %t, scan %q", name, ok, e.Signed, e.Scan)
		}
	}
}

// failing answers 500 to requests for a tag while it is set.
type failing struct{ tag atomic.Pointer[string] }

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if tag := f.tag.Load(); tag != nil && strings.HasSuffix(r.URL.Path, "/manifests/"+*tag) {
		return nil, fmt.Errorf("no answer for %s", *tag)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestFinderTriesAgain: a new version that could not be read at once is found a minute later, and one
// that others published as soon as somebody asks for the list.
func TestFinderTriesAgain(t *testing.T) {
	var faulty failing
	f := newFinder(t, ocitest.New(t, ocitest.Quirks{}), &faulty)
	f.module(t, "net/vpc/aws", "1.0.0", fstest.MapFS{"main.tf": {Data: []byte(`variable "old" {}`)}})
	f.settle(t)
	f.module(t, "net/vpc/aws", "1.1.0", fstest.MapFS{"main.tf": {Data: []byte(`variable "brandnew" {}`)}})
	tag := "1.1.0"
	faulty.tag.Store(&tag)
	f.c.Changed("acme/modules/net/vpc/aws", tag)
	f.settle(t)
	must.Equal(t, "while it cannot be read", f.hits(t, "brandnew"), "")
	faulty.tag.Store(nil)
	f.passed.Add(int64(planEvery + retryAfter))
	f.settle(t)
	must.Equal(t, "a minute later", f.hits(t, "brandnew"), "net/vpc/aws")

	f.module(t, "net/vpc/aws", "1.2.0", fstest.MapFS{"main.tf": {Data: []byte(`variable "newest" {}`)}})
	f.passed.Add(int64(6 * time.Minute)) // the cached list is too old, and not the entry
	must.Get(f.c.Versions(t.Context(), must.Get(addr.ParseModule("net/vpc/aws"))(t).Item()))(t)
	f.settle(t)
	must.Equal(t, "after a list", f.hits(t, "newest"), "net/vpc/aws")
}
