// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
	"github.com/seed-141914ff/okara/registry"
	"github.com/seed-141914ff/okara/statebackend"
)

// usesFixture is a server with states over 40 modules and 10 providers, and what they were made of.
type usesFixture struct {
	*testing.T
	front  *Front
	client *oci.Client
	sealer statebackend.Options
	want   map[string][]string // SOURCE@VERSION by state; nil: not recorded
}

func fixtureVersions() []string { return []string{"1.0.0", "1.1.0", "2.0.0"} }

// fixtureStatus returns what was said about a version of module k.
func fixtureStatus(k int, version string) string {
	switch {
	case k%4 == 0 && version == "1.0.0":
		return catalog.StatusWithdrawn
	case k%4 == 1 && version == "1.1.0":
		return catalog.StatusDeprecated
	}
	return ""
}

func newUsesFixture(t *testing.T) *usesFixture {
	f := &usesFixture{T: t, want: map[string][]string{}}
	key := must.Get(envelope.New(envelope.Options{Keys: []string{"base64key://" + base64.URLEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))}}))(t)
	f.sealer.Sealer = key
	h := ocitest.Handler(t, ocitest.Quirks{})
	f.client = must.Get(oci.New("registry.test", oci.Options{PlainHTTP: true, Transport: ocitest.Direct{Handler: h}}))(t)
	d := depot.New(depot.Options{Client: f.client})
	for k := range 40 {
		for _, version := range fixtureVersions() {
			m := depottest.MustModule(t, fmt.Sprintf("net/m%d/aws", k), version)
			must.Get(d.PublishModule(t.Context(), depottest.NewModule("# "+version), m, depot.ModuleOptions{}))(t)
			action := map[string]string{catalog.StatusWithdrawn: evidence.ActionYank, catalog.StatusDeprecated: evidence.ActionDeprecate}[fixtureStatus(k, version)]
			if action == "" {
				continue
			}
			if _, _, err := d.Announce(t.Context(), m.Module.Item(), depot.Announcement{Action: action, Version: version}); err != nil {
				t.Fatal(err)
			}
		}
	}
	known := must.Get(states.New(states.Options{Client: f.client, State: f.sealer}))(t)
	o := statebackend.Options{Usage: usage.RecordState(func(string) string { return "" })}
	f.front = must.Get(New(Options{
		Options: registry.Options{Client: f.client, Hostname: "okara.test"}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("s"), 32)}}, States: known,
		Stores: newStateStores(backend{client: f.client}, o, slog.New(slog.DiscardHandler)).storeNamed,
	}))(t)
	id, hash := must.GetBoth(statictoken.Hash(rightsToken))(t)
	token := statictoken.Token{ID: id, Hash: hash, Scopes: []rights.Scope{must.Get(rights.ParseScope("read:module:**"))(t), must.Get(rights.ParseScope("write:state:**"))(t)}}
	must.Succeed(t, f.front.kit.Guard.Replace(access.Policy{Tokens: []statictoken.Token{token}}))
	return f
}

// mustAsk sends a request to the server; a nil out reads no answer.
func (f *usesFixture) mustAsk(method, path string, body []byte, out any) {
	f.Helper()
	r := httptest.NewRequestWithContext(f.Context(), method, "http://localhost"+path, bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+rightsToken)
	w := httptest.NewRecorder()
	f.front.ServeHTTP(w, r)
	if w.Code != 200 {
		f.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	if out != nil {
		must.Succeed(f.T, json.Unmarshal(w.Body.Bytes(), out))
	}
}

// project is a root module after init: the modules of its list, and the provider in its lock file.
type project struct {
	modules          []string // SOURCE@VERSION
	provider, number string
}

// projectOf returns what state i is made of; the next round's has other versions.
func projectOf(i, round int) project {
	var p project
	for n, k := range []int{i % 40, (7*i + 3) % 40} {
		p.modules = append(p.modules, fmt.Sprintf("okara.test/net/m%d/aws@%s", k, fixtureVersions()[(i/40+i+n+round)%3]))
	}
	p.provider = fmt.Sprintf("registry.opentofu.org/acme/p%d", i%10)
	p.number = fmt.Sprintf("%d.%d.0", 1+(i/10+round)%2, i%10)
	return p
}

// all returns what is to be known; without the lock file, the provider has no version.
func (p project) all(locked bool) []string {
	number := p.number
	if !locked {
		number = ""
	}
	return append(slices.Clone(p.modules), p.provider+"@"+number)
}

func (p project) record(locked bool) func(state, before []byte) []byte {
	list := []map[string]string{{"Key": "", "Dir": "."}}
	for n, m := range p.modules {
		source, version, _ := strings.Cut(m, "@")
		for _, key := range []string{"a", "b"} { // called twice
			list = append(list, map[string]string{"Key": fmt.Sprint(key, n), "Source": source, "Version": version, "Dir": ".terraform/modules/x"})
		}
	}
	r := usage.Root{Dir: "r", DataDir: "r/.terraform", Getenv: func(string) string { return "" }, Read: func(name string, _ int64) ([]byte, error) {
		switch {
		case strings.HasSuffix(name, "modules.json"):
			return json.Marshal(map[string]any{"Modules": list})
		case strings.HasSuffix(name, ".lock.hcl"):
			return fmt.Appendf(nil, "provider %q {\n  version = %q\n  hashes = [\"h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"]\n}\n", p.provider, p.number), nil
		}
		return nil, fs.ErrNotExist
	}}
	if locked {
		r.ParseLock = bridge.ParseLock
	}
	return r.Record()
}

func (p project) state(serial int, lineage string) []byte {
	return fmt.Appendf(nil, `{"version":4,"serial":%d,"lineage":%q,"resources":[{"mode":"managed","type":"x","name":"x","provider":"provider[\"%s\"]","instances":[]}]}`, serial, lineage, p.provider)
}

// hold works on a state under its lock.
func (f *usesFixture) hold(name string, o statebackend.Options, do func(s *statebackend.Store, l *statebackend.Lock) error) *statebackend.Store {
	f.Helper()
	s := must.Get(states.Open(f.client, addr.Layout{}, name, o))(f.T)
	must.Succeed(f.T, s.Hold(f.Context(), "default", statebackend.LockInfo{ID: name}, func(l *statebackend.Lock) error { return do(s, l) }))
	return s
}

// write writes state i by one of ten ways, some of which end with another state.
func (f *usesFixture) write(i int) {
	f.Helper()
	name := fmt.Sprintf("s%03d", i)
	p, o, locked := projectOf(i, 0), statebackend.Options{}, true
	put := func(p project, serial int, locked bool) func(*statebackend.Store, *statebackend.Lock) error {
		return func(_ *statebackend.Store, l *statebackend.Lock) error {
			_, err := l.Put(statebackend.WithUsage(f.Context(), p.record(locked)), p.state(serial, name))
			return err
		}
	}
	way := i % 10
	if way == 1 {
		o = f.sealer
	}
	switch way {
	case 2: // backend http
		f.mustAsk("POST", "/state/"+name+"/default", p.state(1, name), nil)
		f.want[name] = []string{p.provider + "@"}
		return
	case 3: // as the provider's state store, which reads no lock file
		locked = false
	case 9: // by an okara of before
		f.hold(name, o, func(_ *statebackend.Store, l *statebackend.Lock) error {
			_, err := l.Put(f.Context(), p.state(1, name))
			return err
		})
		f.want[name] = nil
		return
	}
	s := f.hold(name, o, put(p, 1, locked))
	f.want[name] = p.all(locked)
	switch way {
	case 4: // pushed
		f.hold(name, o, func(_ *statebackend.Store, l *statebackend.Lock) error {
			_, err := l.Push(statebackend.WithUsage(f.Context(), usage.RecordPush(func(string) string { return "" })), p.state(7, name), false)
			return err
		})
	case 5: // restored
		f.hold(name, o, put(projectOf(i, 1), 2, true))
		f.hold(name, o, func(s *statebackend.Store, l *statebackend.Lock) error {
			_, err := l.Restore(statebackend.WithUsageOf(f.Context(), s, "default", 1), p.state(1, name), false)
			return err
		})
	case 6: // deleted, or moved
		f.hold(name, o, func(_ *statebackend.Store, l *statebackend.Lock) error { return l.Delete(f.Context()) })
		delete(f.want, name)
		if i%20 == 6 {
			f.hold("moved-"+name, o, put(p, 1, true))
			f.want["moved-"+name] = p.all(true)
		}
	case 7: // replicated
		copied := must.Get(states.Open(f.client, addr.Layout{}, "copy-"+name, o))(f.T)
		must.Get(s.Replicas().Replicate(f.Context(), copied, "default"))(f.T)
		f.want["copy-"+name] = p.all(true)
	case 8: // written again
		f.hold(name, o, put(projectOf(i, 1), 2, true))
		f.want[name] = projectOf(i, 1).all(true)
	}
}

// TestUsesFixture: 200 states over 40 modules and 10 providers, written in every way; each answer is
// what was written.
func TestUsesFixture(t *testing.T) {
	f := newUsesFixture(t)
	for i := range 200 {
		f.write(i)
	}
	must.Succeed(t, f.front.uses.Uses.Refresh(t.Context()))
	bare := 0
	for name, items := range f.want {
		if items == nil {
			bare++
		}
		s := must.Get(states.Open(f.client, addr.Layout{}, name, f.sealer))(t)
		v := must.Get(s.Current(t.Context(), "default"))(t)
		var got []string
		if d, err := usage.Parse(must.Get(statebackend.ReadUsage(t.Context(), s, "default", v.N))(t)); err == nil {
			got = listDocument(d)
		}
		must.Match(t, "state uses "+name, got, slices.Sorted(slices.Values(items)))
	}
	var queries []string
	for k := range 40 {
		for _, constraint := range []string{"", "@1.0.0", "@< 1.1", "@~> 1.0", "@>= 1.1", "@> 9"} {
			queries = append(queries, fmt.Sprintf("okara.test/net/m%d/aws%s", k, constraint))
		}
	}
	for k := range 10 {
		for _, constraint := range []string{"", "@< 2", fmt.Sprintf("@1.%d.0", k)} {
			queries = append(queries, fmt.Sprintf("registry.opentofu.org/acme/p%d%s", k, constraint))
		}
	}
	seen := 0
	for _, q := range queries {
		var a usage.Answer
		f.mustAsk("GET", "/v1/used-by?address="+url.QueryEscape(q), nil, &a)
		var got []string
		for _, s := range a.States {
			got = append(got, s.State+" "+s.Version)
		}
		want, loose := f.users(q)
		must.Match(t, q, got, want)
		must.Equal(t, q+": unknown versions", a.Loose, loose)
		must.Equal(t, q+": not recorded", a.Bare, bare)
		must.Equal(t, q+": complete", a.Complete, true)
		seen += len(got)
	}
	if seen < 500 {
		t.Errorf("only %d answers", seen)
	}
	all := prometheus.NewRegistry()
	all.MustRegister(newUsesCollector(f.front.uses.Uses))
	families := must.Get(all.Gather())(t)
	distinct := map[string]bool{}
	for _, items := range f.want {
		for _, item := range items {
			if strings.Contains(item, "/net/") {
				distinct[item] = true
			}
		}
	}
	must.Equal(t, "series", len(families[0].Metric), len(distinct))
	for _, m := range families[0].Metric {
		want, _ := f.users("okara.test/" + m.Label[0].GetValue() + "@" + m.Label[1].GetValue())
		must.Equal(t, m.String(), int(m.Gauge.GetValue()), len(want))
	}
	few := f.front.uses.Uses.CountModules(10)
	must.Equal(t, "rest", len(few) == 11 && few[10].Module == "other" && few[10].States > 100, true)
	var old outdatedDoc
	f.mustAsk("GET", "/v1/outdated", nil, &old)
	var got []string
	for _, o := range old.States {
		got = append(got, strings.Join([]string{o.State, o.Source, o.Version, o.Status, o.Newest, o.Better}, " "))
	}
	must.Match(t, "outdated", got, f.outdated())
}

func listDocument(d *usage.Document) (all []string) {
	for _, m := range d.Modules {
		all = append(all, m.Source+"@"+m.Version)
	}
	for _, p := range d.Providers {
		all = append(all, p.Source+"@"+p.Version)
	}
	slices.Sort(all)
	return all
}

// users returns which states were made with what a query asks for, and how many say no version.
func (f *usesFixture) users(query string) (all []string, loose int) {
	source, constraint, _ := strings.Cut(query, "@")
	allow := must.Get(addr.ParseConstraint(constraint))(f.T)
	for _, name := range slices.Sorted(maps.Keys(f.want)) {
		for _, item := range slices.Sorted(slices.Values(f.want[name])) {
			at, version, _ := strings.Cut(item, "@")
			v, err := addr.ParseVersion(version)
			switch {
			case at != source:
			case constraint == "" || err == nil && allow.Allows(v):
				all = append(all, name+" "+version)
			case version == "":
				loose++
			}
		}
	}
	return all, loose
}

func (f *usesFixture) outdated() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(f.want)) {
		for _, item := range slices.Sorted(slices.Values(f.want[name])) {
			source, version, _ := strings.Cut(item, "@")
			var k int
			if _, err := fmt.Sscanf(source, "okara.test/net/m%d/aws", &k); err != nil || version == "2.0.0" {
				continue
			}
			better := "2.0.0"
			if version == "1.0.0" && fixtureStatus(k, "1.1.0") == "" {
				better = "1.1.0"
			}
			all = append(all, strings.Join([]string{name, source, version, fixtureStatus(k, version), "2.0.0", better}, " "))
		}
	}
	return all
}
