// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
)

const modulesJSON = `{"Modules":[
 {"Key":"","Source":"","Dir":"."},
 {"Key":"vpc","Source":"registry.example.com/net/vpc/aws","Version":"5.0.1","Dir":".terraform/modules/vpc"},
 {"Key":"vpc.subnets","Source":"./modules/subnets","Dir":".terraform/modules/vpc/modules/subnets"},
 {"Key":"vpc2","Source":"registry.example.com/net/vpc/aws","Version":"5.0.1","Dir":".terraform/modules/vpc2"},
 {"Key":"own","Source":"./modules/own","Dir":"modules/own"},
 {"Key":"own.deep","Source":"../deep","Dir":"modules/deep"},
 {"Key":"shared","Source":"../shared","Dir":"../shared"},
 {"Key":"abs","Source":"/home/alice/mod","Dir":"/home/alice/mod"},
 {"Key":"file","Source":"git::file:///home/alice/mod","Dir":".terraform/modules/file"},
 {"Key":"git","Source":"git::https://alice:s3cret@git.example.com/infra/dns.git//sub?ref=v1.2.0&sshkey=c2VjcmV0","Dir":".terraform/modules/git/sub"},
 {"Key":"oci","Source":"oci://registry.example.com/okara/modules/app/site/aws?tag=2.0.0&digest=sha256:abc","Dir":".terraform/modules/oci"}
]}`

const lockText = "provider \"registry.opentofu.org/hashicorp/null\" {\n"

func rootOf(list string) Root {
	return Root{
		Dir: "root", DataDir: "root/.terraform", Getenv: func(name string) string {
			return map[string]string{"GITHUB_SERVER_URL": "https://git.example.com", "GITHUB_REPOSITORY": "infra/shop", "GITHUB_SHA": "0123abc"}[name]
		},
		ParseLock: func([]byte) ([]Provider, error) {
			return []Provider{{Source: "registry.opentofu.org/hashicorp/null", Version: "3.2.0", Constraints: "~> 3.0", Hash: "h1:x"}, {Source: "not a provider"}}, nil
		},
		ParseModules: func([]byte) (map[string]string, error) {
			return map[string]string{"vpc": "sha256:v", "vpc2": "sha256:v", "oci": "h1:less"}, nil
		},
		Read: func(name string, _ int64) ([]byte, error) {
			switch {
			case strings.HasSuffix(name, "modules.json"):
				return []byte(list), nil
			case strings.HasSuffix(name, ".lock.hcl"):
				return []byte(lockText), nil
			}
			return nil, fs.ErrNotExist
		},
	}
}

// TestCollect: no secret and no path of the machine is in a document.
func TestCollect(t *testing.T) {
	b := rootOf(modulesJSON).Record()(nil, nil)
	for _, secret := range []string{"alice", "s3cret", "sshkey", "c2VjcmV0", "home", "shared"} {
		if strings.Contains(string(b), secret) {
			t.Errorf("%q is in %s", secret, b)
		}
	}
	d := must.Get(Parse(b))(t)
	var got []string
	for _, m := range d.Modules {
		got = append(got, m.Source+" "+m.Version+" "+m.Digest+" "+strings.Join(m.Paths, ","))
	}
	must.Equal(t, "modules", strings.Join(got, "\n"), strings.Join([]string{
		"./modules/deep   own.deep",
		"./modules/own   own",
		"git::https://git.example.com/infra/dns.git//sub?ref=v1.2.0   git",
		"oci://registry.example.com/okara/modules/app/site/aws?digest=sha256%3Aabc&tag=2.0.0  sha256:abc oci",
		"registry.example.com/net/vpc/aws 5.0.1 sha256:v vpc,vpc2",
	}, "\n"))
	must.Equal(t, "providers", fmt.Sprint(len(d.Providers))+d.Providers[0].Version+d.Providers[0].Hash, "13.2.0h1:x")
	must.Equal(t, "commit", d.Repository+"@"+d.Commit, "https://git.example.com/infra/shop@0123abc")
	must.Equal(t, "recorded", d.Recorded, Partial) // some modules are left out
	must.Equal(t, "oci", d.Modules[3].Address(), "app/site/aws")
}

// TestSince: what stays in use keeps its date; what comes anew gets another.
func TestSince(t *testing.T) {
	first := must.Get(Parse(rootOf(`{"Modules":[{"Key":"a","Source":"h.example/n/a/x","Version":"1.0.0"}]}`).Record()(nil, nil)))(t)
	must.Equal(t, "recorded", first.Recorded, Complete)
	old := first.Modules[0].Since.AddDate(0, -1, 0)
	first.Modules[0].Since = old
	next := must.Get(Parse(rootOf(`{"Modules":[{"Key":"b","Source":"h.example/n/a/x","Version":"1.0.0"},{"Key":"c","Source":"h.example/n/a/x","Version":"1.1.0"}]}`).Record()(nil, first.Encode())))(t)
	first.Modules[0].Digest = "h1:x" // of the first lock
	first.KeepSince(next, time.Now())
	if !first.Modules[0].Since.Equal(old) || !next.Modules[0].Since.Equal(old) || !next.Modules[1].Since.After(old) {
		t.Errorf("since: %+v", next.Modules)
	}
}

// TestUnchanged: a run that changed nothing is recorded if another version is used, also where the list is not whole.
func TestUnchanged(t *testing.T) {
	list := func(version, more string) string {
		return `{"Modules":[{"Key":"a","Source":"h.example/n/a/x","Version":"` + version + `"}` + more + `]}`
	}
	const shared = `,{"Key":"l","Source":"../shared","Dir":"../shared"}`
	was := rootOf(list("2.0.0", "")).Record()(nil, nil)
	for name, tt := range map[string]struct {
		list string
		want string
	}{
		"the same": {list("2.0.0", ""), ""}, "another": {list("1.0.0", ""), "1.0.0 complete"},
		"only less known": {list("2.0.0", shared), ""}, "another, and less known": {list("1.0.0", shared), "1.0.0 partial"},
	} {
		got := ""
		if d, err := Parse(Unchanged(rootOf(tt.list).Record())(was)); err == nil {
			got = d.Modules[0].Version + " " + d.Recorded
		}
		must.Equal(t, name, got, tt.want)
	}
	r := rootOf(list("2.0.0", ""))
	parse := r.ParseLock
	r.ParseLock = func(b []byte) ([]Provider, error) {
		all, err := parse(b)
		all[0].Constraints = ">= 3.0"
		return all, err
	}
	if Unchanged(r.Record())(was) == nil {
		t.Error("another constraint is not recorded")
	}
	part := rootOf(list("1.0.0", ""))
	part.Part = true
	d := must.Get(Parse(part.Record()(nil, was)))(t)
	must.Equal(t, "of a part", fmt.Sprint(d.Recorded, d.listVersions()[:2]), "partial[h.example/n/a/x 1.0.0 h.example/n/a/x 2.0.0]")
	must.Equal(t, "of a part, after an unknown one", must.Get(Parse(part.Record()(nil, nil)))(t).Recorded, Partial)
}

// TestHostile: a list that somebody prepared makes no large, and no unreadable document.
func TestHostile(t *testing.T) {
	var many []string
	for i := range 20_000 {
		many = append(many, fmt.Sprintf(`{"Key":"k%d.%s","Source":"h.example/n/m%d/x%d//%s","Version":"1.0.%d"}`, i, strings.Repeat("a.", 100), i, i, strings.Repeat("d", 150), i))
	}
	for name, list := range map[string]string{
		"many": `{"Modules":[` + strings.Join(many, ",") + `]}`, "not json": `{"Modules":[`, "numbers": `{"Modules":[{"Key":1}]}`,
		"deep":      strings.Repeat("[", 100_000),
		"escapes":   `{"Modules":[{"Key":"a\u001b[31m\u202e","Source":"h.example/n/m/x//\u001b]0;x\u0007","Version":"1\n2"}]}`,
		"traversal": `{"Modules":[{"Key":"a","Source":"./x","Dir":"x/../../../etc"}]}`,
		"windows":   `{"Modules":[{"Key":"a","Source":"C:\\Users\\alice","Dir":"C:\\Users\\alice"}]}`,
		"long":      `{"Modules":[{"Key":"` + strings.Repeat("a.", 500_000) + `","Source":"./x","Dir":"x"}]}`,
	} {
		b := rootOf(list).Record()(nil, nil)
		d := must.Get(Parse(b))(t)
		if len(b) > maxDocument || d.Recorded != Partial && name != "escapes" {
			t.Errorf("%s: %d bytes, %s", name, len(b), d.Recorded)
		}
		if s := string(b); strings.ContainsAny(s, "\x1b\a\u202e") || strings.Contains(s, "alice") || strings.Contains(s, "etc") {
			t.Errorf("%s: %q", name, s)
		}
	}
}

// TestFromState: providers' addresses and nothing else are taken from a state, whatever it contains.
func TestFromState(t *testing.T) {
	state := `{"version":4,"resources":[
 {"mode":"managed","type":"x","provider":"provider[\"registry.opentofu.org/hashicorp/null\"]","instances":[{"attributes":{"a":"\"provider\": \"provider[\\\"evil.example/x/y\\\"]"}}]},
 {"provider": "module.a.provider[\"registry.example.com/acme/dns\"].west"},{"provider":5},{"provider":"provider[\"` + strings.Repeat("x", 2000) + `\"]"}]}`
	d := FromState([]byte(state))
	var got []string
	for _, p := range d.Providers {
		got = append(got, p.Source)
	}
	must.Match(t, "providers", got, []string{"registry.example.com/acme/dns", "registry.opentofu.org/hashicorp/null"})
	must.Equal(t, "recorded", d.Recorded, Partial)
	if RecordState(func(string) string { return "off" }) != nil {
		t.Error("it is turned off")
	}
}

// FuzzParse: whatever is read can be written and read again, within the bounds.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":1,"recorded":"complete","modules":[{"source":"h.example/n/m/x","version":"1.0.0","paths":["a","b"]}],"providers":[{"source":"hashicorp/null"}]}`))
	f.Add(rootOf(modulesJSON).Record()(nil, nil))
	f.Add([]byte(`{"schemaVersion":1,"modules":[{"source":"git::ssh://x@h/p?ref=%zz"},{"source":"./a/../../b"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Parse(b)
		if err != nil {
			return
		}
		first := d.Encode()
		again, err := Parse(first)
		if err != nil || len(first) > maxDocument || len(again.Modules) > maxItems {
			t.Fatalf("%d bytes, %v", len(first), err)
		}
		if second := again.Encode(); !slices.Equal(first, second) {
			t.Errorf("first  %s\nsecond %s", first, second)
		}
		x := NewIndex()
		x.PutEntry(Entry{State: "s", Workspace: "w"}, again)
	})
}

// TestQuery: a question finds a module by its address with and without host, and by its source.
func TestQuery(t *testing.T) {
	x := NewIndex()
	d := must.Get(Parse(rootOf(modulesJSON).Record()(nil, nil)))(t)
	x.PutEntry(Entry{State: "a", Workspace: "w", N: 1, Written: time.Unix(100, 0)}, d)
	x.PutEntry(Entry{State: "a", Workspace: "w", N: 2, Written: time.Unix(200, 0)}, d) // in its place
	x.PutEntry(Entry{State: "b", Workspace: "w", N: 1}, nil)
	for query, want := range map[string]string{
		"net/vpc/aws": "5.0.1", "registry.example.com/net/vpc/aws@~> 5.0": "5.0.1", "net/vpc/aws@< 5": "", "net/vpc/gcp": "",
		"oci://registry.example.com/okara/modules/app/site/aws": "2.0.0", "app/site/aws@2.0.0": "2.0.0", "./modules/own": "-",
		"git::https://git.example.com/infra/dns.git": "1.2.0", "git::https://bob@git.example.com/infra/dns.git//sub@1.2.0": "1.2.0",
		"git::https://git.example.com/infra/dns": "", "hashicorp/null": "3.2.0", "registry.opentofu.org/hashicorp/null@3.2.0": "3.2.0",
	} {
		a := x.Ask(must.Get(ParseQuery(query, false))(t), func(string, string) bool { return true })
		var got strings.Builder
		for _, s := range a.States {
			got.WriteString(cmp.Or(s.Version, "-"))
			must.Equal(t, query+": since", s.Since.Unix(), int64(100))
		}
		must.Equal(t, query, got.String(), want)
	}
	for _, wrong := range []string{"", "a", "a/b/c/d/e", "net/vpc/aws@x", "../up", "file:///etc"} {
		if q, err := ParseQuery(wrong, false); err == nil {
			t.Errorf("%q: %+v", wrong, q)
		}
	}
	x.PutEntry(Entry{State: "a", Workspace: "w", N: 3}, &Document{Modules: []Module{{Source: "h.example/n/m/x//a", Version: "1.0.0"}, {Source: "h.example/n/m/x//b", Version: "1.0.0"}}})
	must.Equal(t, "counted", fmt.Sprint(x.CountModules(1)), "[{n/m/x 1.0.0 1}]") // once for two folders
	x.Remove("a", func(*Entry) bool { return true })
	must.Equal(t, "left", fmt.Sprint(x.States(), len(x.items), len(x.users)), "[b] 0 0")
}
