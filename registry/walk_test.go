// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/mutant"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/registry"
)

// A walk lets publishers change one item at random; each number names its first content, or
// nothing.
type walk struct {
	t      *testing.T
	rnd    *rand.Rand
	item   addr.Item
	repo   *oci.Repo
	depots [2]*depot.Depot // of two publishers, the first through between
	server *client.Client
	key    *signing.Key
	dir    string // of bundles
	done   map[string]int

	origins map[string]*depot.Depot // of modules, by content

	list    *depot.Listing               // as last read
	wrote   atomic.Bool                  // some request since then may have changed something
	undid   bool                         // a withdrawal was taken back since then
	named   map[string]string            // content by number, of a provider by number and platform
	now     map[string]string            // what is offered of that
	known   map[string]map[string]string // parts by version and digest
	number  addr.Version                 // of the last action
	isReal  bool                         // the registry has a clock and connections
	ruled   bool                         // the registry itself protects versions
	trail   []string
	between func()                // called once before some request of the first publisher
	after   int                   // how many requests come first
	moved   map[string]bool       // the numbers that editions moved; false: only if in this step
	stored  string                // bundle of this registry
	carried map[addr.Version]bool // versions that some bundle has with their withdrawal, which it brings back
}

// maxWalkSteps is how many are made at most on one registry, whose lists grow.
const maxWalkSteps = 24

// walkStart is when the key is made: a bubble begins in the year 2000.
var walkStart = time.Date(1999, time.December, 31, 0, 0, 0, 0, time.UTC)

// TestWalkOfNumbers walks for modules, providers and mirrors, in memory, one in 16 on the built-in
// registry. OKARA_TEST_STEPS makes more, OKARA_TEST_SEED one, OKARA_TEST_REGISTRY on a running one.
func TestWalkOfNumbers(t *testing.T) {
	steps := 1200
	if s := os.Getenv("OKARA_TEST_STEPS"); s != "" {
		steps = must.Fixed(strconv.Atoi(s))
	}
	key := depottest.NewKey(t, signing.KeyOptions{Lifetime: 100 * 365 * 24 * time.Hour, Now: func() time.Time { return walkStart }})
	var found atomic.Bool // a violation
	for i, it := range []addr.Item{depottest.VPC().Item(), depottest.DNS().Item(), depottest.UpstreamDNS().Item()} {
		t.Run(it.Kind, func(t *testing.T) {
			t.Parallel()
			done := map[string]int{}
			dir := t.TempDir()
			foreign := newForeign(t, it, key)
			n, made := 0, 0
			on := map[string]int{} // steps by registry
			for ; made < steps/3 && !found.Load(); n++ {
				seed := uint64(n*3 + i)
				rnd := rand.New(rand.NewPCG(seed, 1))
				length := 4 + rnd.IntN(maxWalkSteps-3)
				made += length
				if only := os.Getenv("OKARA_TEST_SEED"); only != "" && only != strconv.FormatUint(seed, 10) {
					continue
				}
				var rule *depot.VersionRule
				name, isReal := "in memory", false
				run := func(t *testing.T, transport http.RoundTripper) {
					w := newWalk(t, it, key, transport, dir, strconv.Itoa(n))
					w.rnd = rnd
					w.done = done
					w.stored = foreign
					w.isReal = isReal
					if w.ruled = rule != nil; w.ruled {
						rule.Depot = w.depots[1]
					}
					w.run(length)
					on[name] += length
					if t.Failed() {
						found.Store(true)
						t.Logf("seed %d: %s", seed, strings.Join(w.trail, "; "))
					}
				}
				if host := os.Getenv("OKARA_TEST_REGISTRY"); host != "" {
					name = host
					isReal = true
					run(t, redirected{host})
					continue
				}
				h := ocitest.Memory()
				if n%16 == 7 {
					name, rule = "built-in", &depot.VersionRule{}
					h = must.Fixed(embedded.New("", embedded.Options{Rule: rule}))
				}
				synctest.Test(t, func(t *testing.T) { run(t, ocitest.Direct{Handler: h}) })
			}
			t.Logf("%s: steps %v, seeds %d to %d in threes", it.Kind, on, i, (n-1)*3+i)
			if steps >= 10_000 && os.Getenv("OKARA_TEST_SEED") == "" {
				for name := range verbs(it.Kind) {
					if done[name] == 0 {
						t.Errorf("%s never succeeded: %v", name, done)
					}
				}
			}
		})
	}
}

// redirected sends all requests to one host.
type redirected struct{ host string }

func (r redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.URL.Host = r.host
	out.Host = r.host
	return http.DefaultTransport.RoundTrip(out)
}

// waitForBids lets time pass until no bid counts, in the bubble of a walk.
func waitForBids() { time.Sleep(11 * time.Minute) }

func newWalk(t *testing.T, it addr.Item, key *signing.Key, transport http.RoundTripper, dir, name string) *walk {
	w := &walk{t: t, item: it, key: key, dir: dir, done: map[string]int{}, origins: map[string]*depot.Depot{}, named: map[string]string{}, moved: map[string]bool{}, known: map[string]map[string]string{}, carried: map[addr.Version]bool{}}
	transport = watched{w, transport}
	o := oci.Options{Transport: transport, PlainHTTP: true}
	layout := addr.Layout{Prefix: "walk-" + strings.ToLower(filepath.Base(filepath.Dir(dir))) + "-" + name}
	w.depots[1] = depot.New(depot.Options{Client: newClient(t, "registry.test", o), Layout: layout, TempDir: dir})
	front := must.Fixed(registry.New(registry.Options{
		Kit:  service.New(service.Options{Guard: must.Fixed(access.New(access.Options{Policy: access.Policy{Anonymous: rights.AnonymousAll()}, Keyring: walkKeys()}))}),
		Keys: walkKeys(), Client: newClient(t, "registry.test", o), Layout: layout,
	}))
	w.server = client.New(client.Options{Server: must.Fixed(url.Parse("http://okara.test")), Transport: ocitest.Direct{Handler: front}})
	o.Transport = &interrupted{w: w, base: transport}
	w.depots[0] = depot.New(depot.Options{Client: newClient(t, "registry.test", o), Layout: layout, TempDir: dir})
	w.repo = must.Fixed(w.depots[1].Repo(it.Repository(layout)))
	return w
}

func walkKeys() *keyring.Ring {
	return must.Fixed(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}))
}

// interrupted calls between before the request that is due.
type interrupted struct {
	w    *walk
	base http.RoundTripper
	mu   sync.Mutex // guards between and after of the walk
}

func (i *interrupted) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock() // several requests of one publisher run at once
	f := i.w.between
	if f != nil {
		if i.w.after--; i.w.after < 0 {
			i.w.between = nil
		} else {
			f = nil
		}
	}
	i.mu.Unlock()
	if f != nil {
		f()
	}
	return i.base.RoundTrip(r)
}

// watched notes requests that may change something.
type watched struct {
	w    *walk
	base http.RoundTripper
}

func (x watched) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		x.w.wrote.Store(true)
		if !x.w.isReal {
			time.Sleep(time.Millisecond) // no two writes are of one time
		}
	}
	return x.base.RoundTrip(r)
}

// newForeign writes a bundle in which numbers name other content.
func newForeign(t *testing.T, it addr.Item, key *signing.Key) string {
	dir := t.TempDir()
	w := newWalk(t, it, key, ocitest.Direct{Handler: ocitest.Memory()}, dir, "foreign")
	w.rnd = rand.New(rand.NewPCG(1, 1))
	publish := map[string]func(*depot.Depot, addr.Version, string) error{addr.KindModule: w.publishModule, addr.KindProvider: w.publishProvider, addr.KindMirror: w.mirror}[it.Kind]
	for _, v := range []string{"1.0.0", "1.1.0"} {
		must.Succeed(t, publish(w.depots[1], depottest.MustVersion(t, v), "b"))
	}
	for _, verb := range []string{"remove", "undo"} { // what a number named is said beside it
		must.Succeed(t, verbs(it.Kind)[verb](w, w.depots[1], depottest.MustVersion(t, "1.0.0"), ""))
	}
	file := filepath.Join(dir, "foreign")
	must.Succeed(t, w.save(file))
	return file
}

func (w *walk) run(steps int) {
	all := verbs(w.item.Kind)
	names := slices.Sorted(maps.Keys(all))
	if w.item.Kind == addr.KindModule && !w.ruled && w.rnd.IntN(8) == 0 {
		w.publishPair()
		w.check()
	}
	for range steps {
		name := names[w.rnd.IntN(len(names))]
		if name == "yank all" && w.rnd.IntN(3) > 0 {
			name = "undo all" // or hardly anything could be published
		}
		if w.rnd.IntN(4) == 0 { // another publisher comes between
			other := names[w.rnd.IntN(len(names))]
			w.after = w.rnd.IntN(16)
			w.between = func() { w.do(other, all[other], w.depots[1]) }
		}
		w.do(name, all[name], w.depots[0])
		w.between = nil
		if w.check(); w.t.Failed() {
			return
		}
	}
}

func (w *walk) do(name string, verb verb, d *depot.Depot) {
	if w.number == (addr.Version{}) || w.rnd.IntN(2) == 0 { // else what happened before matters
		w.number = depottest.MustVersion(w.t, []string{"1.0.0", "1.0.0+1", "1.1.0"}[w.rnd.IntN(3)])
	}
	v := w.number
	text := []string{"a", "b"}[w.rnd.IntN(2)]
	err := verb(w, d, v, text)
	if number := v.Number().String(); name == "edition" {
		w.moved[number] = w.moved[number] || err == nil
	}
	w.undid = w.undid || strings.HasPrefix(name, "undo") || name == "yank --server" || name == "copy"
	outcome := "done"
	if err != nil {
		outcome = "refused: " + err.Error()
	} else {
		w.done[name]++
	}
	w.trail = append(w.trail, fmt.Sprintf("%s %s %s %s", name, v, text, outcome))
}

// check compares what the registry offers with what it offered before.
func (w *walk) check() {
	w.t.Helper()
	if w.wrote.Swap(false) {
		w.compare()
	}
	w.undid = false
	maps.DeleteFunc(w.moved, func(number string, until bool) bool { return !until || w.now[number] != "" })
}

func (w *walk) compare() {
	w.t.Helper()
	l := must.Get(depot.ReadListing(w.t.Context(), w.repo, w.item.Kind, w.list))(w.t)
	before := w.list
	w.list = l
	w.now = map[string]string{}
	for _, v := range l.Versions {
		parts := w.parts(v)
		if before != nil && !v.Edition() && !w.undid && !w.carried[v] && !slices.Contains(before.Versions, v) && before.Status(v).Yanked != nil && l.Status(v).Yanked != nil {
			w.t.Errorf("%s was withdrawn and removed, and names %v again", v, parts)
		}
		for part, content := range parts {
			if before, ok := w.now[part]; ok && before != content {
				w.t.Errorf("%s names two contents at once: %s and %s", part, before, content)
			}
			w.now[part] = content
		}
	}
	for part, content := range w.now {
		_, moved := w.moved[part]
		if before, ok := w.named[part]; ok && before != content && !moved {
			w.t.Errorf("%s named %s and names %s", part, before, content)
		}
		w.named[part] = content
	}
}

// parts returns what must never change in a listed version.
func (w *walk) parts(v addr.Version) map[string]string {
	d, err := w.repo.Resolve(w.t.Context(), v.Tag())
	key := v.Tag() + "@" + d.Digest.String()
	if parts, ok := w.known[key]; ok && err == nil {
		return parts
	}
	m, err := w.repo.Fetch(w.t.Context(), v.Tag())
	if err != nil {
		w.t.Errorf("%s is listed: %v", v, err)
		return nil
	}
	w.known[key] = partsOf(w.item.Kind, v, m)
	return w.known[key]
}

func partsOf(kind string, v addr.Version, m oci.Manifest) map[string]string {
	if kind == addr.KindModule {
		return map[string]string{v.Number().String(): must.Fixed(artifact.ParseModule(m)).ContentDigest}
	}
	parts := map[string]string{}
	for _, p := range must.Fixed(artifact.ParseProviderIndex(m)).Platforms {
		parts[v.String()+" "+p.Platform.String()] = p.Zh
	}
	return parts
}

// TestWalkFindsMutants takes one guard after another away: a walk must find it.
func TestWalkFindsMutants(t *testing.T) {
	for name, g := range map[string]mutant.Guard{
		"undo without looking":     {File: "../internal/depot/number.go", Old: "if o, ok := removedVersion(e); ok && o == v {", New: "if e.Action == evidence.ActionUnyank {\nreturn nil\n}\nif o, ok := removedVersion(e); ok && o == v {"},
		"+ ignored":                {File: "../internal/depot/number.go", Old: "if kind == addr.KindModule {", New: "if false {"},
		"pairs offered":            {File: "../internal/depot/number.go", Old: "if l.Kind != addr.KindModule {", New: "if true {"},
		"a prune that forgets":     {File: "../internal/depot/status.go", Old: "e.Subject = m.Digest\n", New: "e.Subject = \"\"\n"},
		"no look before the write": {File: "../internal/depot/contest.go", Old: "if err := b.list.checkNumber(ctx, b.version, b.root, b.moves); err != nil", New: "if false"},
		"a rule that believes":     {File: "../internal/depot/rule.go", Old: "if err == nil && now.Digest == next.Digest {", New: "if err == nil {"},
		"a bundle is believed":     {File: "../internal/bundle/root.go", Old: "if is && !included.explain(x, taken.Withdrawn)", New: "if is && false"},
	} {
		t.Run(name, func(t *testing.T) {
			g.Says = "names"
			t.Setenv("OKARA_TEST_STEPS", "30000")
			g.Check(t, "-run", "TestWalkOfNumbers", ".")
		})
	}
}
