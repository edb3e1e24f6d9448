// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// mustUse writes a state that was made of a module in a version.
func mustUse(t *testing.T, c *oci.Client, name, version string, o statebackend.Options) {
	t.Helper()
	mustRecord(t, c, name, o, version, &usage.Document{Recorded: usage.Complete, Modules: []usage.Module{{Source: "okara.test/net/vpc/aws", Version: version}}})
}

func mustRecord(t *testing.T, c *oci.Client, name string, o statebackend.Options, version string, d *usage.Document) {
	t.Helper()
	o.Usage = func(_, _ []byte) []byte { return d.Encode() }
	putWith(t, c, name, o, fmt.Sprintf(`{"version":4,"serial":1,"lineage":%q}`, name+version))
}

// users returns who uses the module, as STATE=VERSION.
func users(t *testing.T, u *states.Uses, query string, may func(string, string) bool) string {
	t.Helper()
	var all []string
	a := u.Ask(must.Get(usage.ParseQuery(query, false))(t), may)
	for _, s := range a.States {
		all = append(all, s.State+"="+s.Version)
	}
	if a.Others > 0 {
		all = append(all, fmt.Sprint("+", a.Others))
	}
	if a.Some {
		all = append(all, "+few")
	}
	return strings.Join(all, " ")
}

func everyone(string, string) bool { return true }

// TestUses: one request for each list and each new version, none for a question; what was deleted is
// gone, and what is sealed needs the key.
func TestUses(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	quiet := mustClient(t, ocitest.Direct{Handler: h})
	count := &ocitest.Count{Base: ocitest.Direct{Handler: h}}
	sealer := statebackend.Options{Sealer: mustSealer(t, "k")}
	for i := range 6 {
		mustUse(t, quiet, fmt.Sprint("s", i), fmt.Sprintf("5.%d.0", i), sealer)
	}
	put(t, quiet, "old", `{"version":4,"serial":1,"lineage":"x"}`)
	made := mustStates(t, states.Options{Client: mustClient(t, count), State: sealer})
	u := made.Uses()
	must.Succeed(t, u.Refresh(t.Context()))
	count.Take()
	must.Equal(t, "all", users(t, u, "net/vpc/aws", everyone), "s0=5.0.0 s1=5.1.0 s2=5.2.0 s3=5.3.0 s4=5.4.0 s5=5.5.0")
	must.Equal(t, "constraint", users(t, u, "net/vpc/aws@< 5.2", everyone), "s0=5.0.0 s1=5.1.0")
	must.Equal(t, "not recorded", u.Ask(must.Get(usage.ParseQuery("net/vpc/aws", false))(t), everyone).Bare, 1)
	must.Equal(t, "not recorded, to others", u.Ask(must.Get(usage.ParseQuery("net/vpc/aws", false))(t), func(string, string) bool { return false }).Bare, 0)
	must.Equal(t, "host", users(t, u, "other.test/net/vpc/aws", everyone), "")
	for n, want := range map[int]string{0: "+6", 1: "s0=5.0.0 +5", 2: "s0=5.0.0 s1=5.1.0 +few", 6: "s0=5.0.0 s1=5.1.0 s2=5.2.0 s3=5.3.0 s4=5.4.0 s5=5.5.0"} {
		may := func(state, _ string) bool { return state < fmt.Sprint("s", n) }
		must.Equal(t, fmt.Sprint("may read ", n), users(t, u, "net/vpc/aws", may), want)
		others := strings.TrimPrefix(want, "s0=5.0.0 ") // the same number under each constraint
		if n == 1 {
			must.Equal(t, "of another version", users(t, u, "net/vpc/aws@5.3.0", may), others)
		}
	}
	must.Equal(t, "requests of questions", count.Total(), 0)

	mustUse(t, quiet, "s1", "6.0.0", sealer)
	store := must.Get(states.Open(quiet, layout, "s2", sealer))(t)
	must.Succeed(t, store.Hold(t.Context(), "default", statebackend.LockInfo{ID: "d"}, func(l *statebackend.Lock) error { return l.Delete(t.Context()) }))
	for range 2 { // what was deleted is read once
		count.Take()
		made.Uses().Note("s1")
		must.Succeed(t, u.Refresh(t.Context()))
	}
	must.Equal(t, "again, only lists", count.Take()["GET manifest"], 0)
	const now = "s0=5.0.0 s1=6.0.0 s3=5.3.0 s4=5.4.0 s5=5.5.0"
	must.Equal(t, "after changes", users(t, u, "net/vpc/aws", everyone), now)

	blind := mustStates(t, states.Options{Client: quiet}).Uses()
	must.Succeed(t, blind.Refresh(t.Context()))
	must.Equal(t, "without the key", users(t, blind, "net/vpc/aws", everyone), "")
}

// TestInUse: a version is unused only if every state was read, in the last round too, and has a record of
// it. One that lists only providers says nothing about modules.
func TestInUse(t *testing.T) {
	partial := false
	registry := ocitest.Handler(t, ocitest.Quirks{})
	base := ocitest.Direct{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if partial && strings.HasSuffix(r.URL.Path, "/_catalog") {
			w.Header().Set(oci.PartialHeader, "states")
		}
		registry.ServeHTTP(w, r)
	})}
	fault := &ocitest.Fault{Base: base, Nth: 1 << 30, Times: -1, Do: ocitest.Refuse}
	c := mustClient(t, fault)
	u := mustStates(t, states.Options{Client: c}).Uses()
	check := func(what, address, unused string, known bool) {
		t.Helper()
		used, got := u.InUse(address)
		must.Equal(t, what+": known", got, known)
		must.Equal(t, what+": "+unused, used(must.Get(addr.ParseVersion(unused))(t)), !known)
	}
	mustUse(t, c, "s", "1.0.0", statebackend.Options{})
	must.Succeed(t, u.Refresh(t.Context()))
	check("complete", "net/vpc/aws", "0.9.0", true)
	if used, _ := u.InUse("net/vpc/aws"); !used(must.Get(addr.ParseVersion("1.1.0"))(t)) {
		t.Error("a run without changes may use a higher version, and has recorded nothing")
	}
	fault.Nth = 1
	if u.Refresh(t.Context()) == nil {
		t.Fatal("the round succeeds")
	}
	check("after a round that failed", "net/vpc/aws", "0.9.0", false)
	fault.Nth = 1 << 30
	must.Succeed(t, u.Refresh(t.Context()))
	check("after the next", "net/vpc/aws", "0.9.0", true)
	partial = true // the caller may not read all states
	blind := mustStates(t, states.Options{Client: c}).Uses()
	must.Succeed(t, blind.Refresh(t.Context()))
	_, known := blind.InUse("net/vpc/aws")
	must.Equal(t, "where the list leaves out states", known, false)
	partial = false
	mustRecord(t, c, "s", statebackend.Options{}, "x", &usage.Document{Providers: []usage.Provider{{Source: "okara.test/acme/dns", Version: "2.0.0"}}})
	must.Succeed(t, u.Refresh(t.Context()))
	check("partial", "net/vpc/aws", "0.9.0", false)
	check("providers of a partial record", "acme/dns", "1.9.0", true)
}

// TestUsesRun: a server sees what it wrote at once, and what others wrote in the next round. Another
// process starts from what it has stored.
func TestUsesRun(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		c := mustClient(t, ocitest.Direct{Handler: h})
		mustUse(t, c, "one", "1.0.0", statebackend.Options{})
		made := mustStates(t, states.Options{Client: c})
		go made.Uses().Run(t.Context())
		<-time.After(time.Second)
		must.Equal(t, "at the start", users(t, made.Uses(), "net/vpc/aws", everyone), "one=1.0.0")
		mustUse(t, c, "one", "1.1.0", statebackend.Options{})
		made.Uses().Note("one")
		<-time.After(time.Second)
		must.Equal(t, "noted", users(t, made.Uses(), "net/vpc/aws", everyone), "one=1.1.0")
		mustUse(t, c, "two", "1.2.0", statebackend.Options{})
		<-time.After(time.Hour)
		must.Equal(t, "of another server", users(t, made.Uses(), "net/vpc/aws", everyone), "one=1.1.0 two=1.2.0")

		count := &ocitest.Count{Base: ocitest.Direct{Handler: h}}
		next := mustStates(t, states.Options{Client: mustClient(t, count)}).Uses()
		must.Succeed(t, next.Refresh(t.Context()))
		must.Equal(t, "from the stored index", users(t, next, "net/vpc/aws", everyone), "one=1.1.0 two=1.2.0")
		must.Equal(t, "manifests that are read", count.Take()["GET manifest"], 1)
	})
}

// BenchmarkUses: 50,000 states with 15 uses each, from their stored form, and a question.
func BenchmarkUses(b *testing.B) {
	x := usage.NewIndex()
	for i := range 50_000 {
		d := &usage.Document{Recorded: usage.Complete}
		for k := range 15 {
			d.Modules = append(d.Modules, usage.Module{Source: fmt.Sprintf("okara.test/net/m%d/aws", (i+k)%40), Version: fmt.Sprintf("1.%d.0", i%7), Since: time.Unix(1_800_000_000, 0)})
		}
		x.PutEntry(usage.Entry{State: fmt.Sprint("state-", i), Workspace: "default", N: 3, Written: time.Unix(1_800_000_000, 0), By: "ci@runner"}, d)
	}
	document := must.Get(usage.EncodeIndex(x))(b)
	b.Run("decode", func(b *testing.B) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var kept *usage.Index
		for b.Loop() {
			kept = must.Get(usage.DecodeIndex(document))(b)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc), "live-B")
		runtime.KeepAlive(kept)
	})
	q := must.Get(usage.ParseQuery("net/m7/aws@1.3.0", false))(b)
	x.Ask(q, everyone)
	b.Run("ask", func(b *testing.B) {
		for b.Loop() {
			x.Ask(q, everyone)
		}
	})
}
