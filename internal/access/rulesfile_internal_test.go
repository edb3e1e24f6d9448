// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

const rulesJSON = `{
 "rules": [
  {"name": "net", "issuer": "https://k8s.test", "groups": ["net", "ops"], "allow": ["publish:module:net/**", "read:mirror:**"]},
  {"name": "runs", "issuer": "okara-operator.prod", "claims": {"namespace": "*"},
   "allow": ["write:state:prod.{namespace}/{workspace}", "read:module:{module...}"]}],
 "not_before": [{"issuer": "https://k8s.test", "subject": "alice", "time": "2027-01-31T00:00:00Z"}]
}`

func TestReadRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.json")
	must.Succeed(t, os.WriteFile(file, []byte(rulesJSON), 0o600))
	got := must.Get(ReadRules(file))(t)
	want := RulesFile{
		Rules: []Rule{
			{Name: "net", Issuer: "https://k8s.test", Groups: []string{"net", "ops"}, Allow: []rights.Scope{{Action: rights.Publish, Kind: "module", Glob: "net/**"}, {Action: rights.Read, Kind: "mirror", Glob: "**"}}},
			{
				Name: "runs", Issuer: "okara-operator.prod", Claims: map[string]string{"namespace": "*"},
				Allow: []rights.Scope{{Action: rights.Write, Kind: "state", Glob: "prod.{namespace}/{workspace}"}, {Action: rights.Read, Kind: "module", Glob: "{module...}"}},
			},
		},
		NotBefore: []NotBefore{{"https://k8s.test", "alice", time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)}},
	}
	must.Match(t, "value", got, want)
	written := must.Get(json.Marshal(got))(t)
	if again, err := ParseRules(written); err != nil || !cmp.Equal(got, again) {
		t.Errorf("what was written reads as %+v, %v", again, err)
	}
}

// TestUnconditional names the rules that every accepted token fulfils.
func TestUnconditional(t *testing.T) {
	p := Policy{Rules: []Rule{
		{Name: "all"}, {Name: "issuer", Issuer: "https://i.example"}, {Name: "group", Groups: []string{"team"}},
		{Name: "claim", Claims: map[string]string{"sub": "x"}}, {Name: "also"},
	}}
	if got := p.Unconditional(); !slices.Equal(got, []string{"all", "also"}) {
		t.Errorf("%v", got)
	}
}

func TestReadRulesRefuses(t *testing.T) {
	rule := func(more string) string { return `{"rules": [{"name": "a", ` + more + `}]}` }
	for name, test := range map[string]struct{ text, want string }{
		"nothing":           {"", "not valid JSON"},
		"half":              {`{"rules": [`, "not valid JSON"},
		"unknown":           {`{"rulez": []}`, "rulez"},
		"unknown in rule":   {rule(`"allow": ["read:module:**"], "deny": []`), "deny"},
		"more":              {`{} {}`, "unexpected data after the rules"},
		"no name":           {`{"rules": [{"allow": ["read:module:**"]}]}`, "rules[0]"},
		"no right":          {rule(`"groups": ["x"]`), "grants nothing"},
		"no scope":          {rule(`"allow": ["everything"]`), "ACTION:KIND:GLOB"},
		"open brace":        {rule(`"allow": ["read:module:{a"]`), "enclose the name of a claim"},
		"close brace":       {rule(`"allow": ["read:module:a}"]`), "enclose the name of a claim"},
		"empty claim":       {rule(`"allow": ["read:module:{}/x"]`), "enclose the name of a claim"},
		"empty claims":      {rule(`"allow": ["read:module:{...}"]`), "enclose the name of a claim"},
		"nested":            {rule(`"allow": ["read:module:{a{b}}"]`), "enclose the name of a claim"},
		"many rights":       {rule(`"allow": [` + strings.Repeat(`"read:module:a",`, 100) + `"read:module:a"]`), "more than 100 groups, claims or rights"},
		"long":              {rule(`"allow": ["read:module:` + strings.Repeat("a", 2000) + `"]`), "longer than 1024 bytes"},
		"large":             {`{"rules": [` + strings.Repeat(" ", 1<<20) + `]}`, "larger than 1048576 bytes"},
		"no subject":        {`{"not_before": [{"issuer": "x", "time": "2027-01-31T00:00:00Z"}]}`, "not_before[0]"},
		"no time":           {`{"not_before": [{"issuer": "x", "subject": "a"}]}`, "not_before[0]"},
		"a time of its own": {`{"not_before": [{"issuer": "x", "subject": "a", "time": "soon"}]}`, "not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRules([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %+v, %v, want %q", got, err, test.want)
			}
		})
	}
}

// TestClaimsInRights checks that claims are inserted literally, and that a claim that is
// not a name disables the whole rule.
//
// Shows: opendepot 14
func TestClaimsInRights(t *testing.T) {
	parsed := must.Get(ParseRules([]byte(rulesJSON)))(t)
	claims := func(namespace, workspace, module any) map[string]any {
		return map[string]any{"namespace": namespace, "workspace": workspace, "module": module}
	}
	for name, test := range map[string]struct {
		claims map[string]any
		want   []string
	}{
		"names":            {claims("team-a", "vpcs.prod", "net/vpc/aws"), []string{"write:state:prod.team-a/vpcs.prod", "read:module:net/vpc/aws"}},
		"one name for all": {claims("team-a", "w", "net"), []string{"write:state:prod.team-a/w", "read:module:net"}},
		"star":             {claims("*", "w", "net/vpc/aws"), nil},
		"star within":      {claims("team-*", "w", "net/vpc/aws"), nil},
		"two stars":        {claims("a", "w", "net/**"), nil},
		"slash":            {claims("a/b", "w", "net/vpc/aws"), nil},
		"up":               {claims("a", "..", "net/vpc/aws"), nil},
		"up within":        {claims("a", "w", "net/../other"), nil},
		"empty":            {claims("a", "", "net/vpc/aws"), nil},
		"slash at the end": {claims("a", "w", "net/vpc/"), nil},
		"capitals":         {claims("A", "w", "net/vpc/aws"), nil},
		"line":             {claims("a\n", "w", "net/vpc/aws"), nil},
		"number":           {claims("a", 1.0, "net/vpc/aws"), nil},
		"true":             {claims("a", true, "net/vpc/aws"), nil},
		"list":             {claims("a", []any{"w"}, "net/vpc/aws"), nil},
		"none":             {map[string]any{"namespace": "a", "workspace": "w"}, nil},
		"long":             {claims("a", strings.Repeat("w", 256), "net/vpc/aws"), nil},
		"brace":            {claims("a", "{namespace}", "net/vpc/aws"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			scopes, names := identity{Issuer: "okara-operator.prod", Claims: test.claims}.scopes(parsed.Rules)
			var got []string
			for _, s := range scopes {
				got = append(got, s.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" || len(names) != len(scopes) {
				t.Errorf("%s, rules %v", diff, names)
			}
		})
	}
	if _, err := rights.ParseScope("read:module:{namespace}/**"); err == nil {
		t.Error("the right of a token names a claim")
	}
}

// TestNotBeforeOfAFile checks that a revocation affects one subject of one issuer only.
func TestNotBeforeOfAFile(t *testing.T) {
	parsed := must.Get(ParseRules([]byte(rulesJSON)))(t)
	p := Policy{Rules: []Rule{{Name: "before"}}}.Add(parsed)
	at := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		issuer, subject string
		issued          time.Time
		want            bool
	}{
		{"https://k8s.test", "alice", at.Add(-time.Second), true},
		{"https://k8s.test", "alice", at, false},
		{"https://k8s.test", "bob", at.Add(-time.Second), false},
		{"https://else.test", "alice", at.Add(-time.Second), false},
	} {
		if got := p.void.isVoid(test.issuer, test.subject, test.issued); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
	if len(p.Rules) != 3 || p.Rules[0].Name != "before" {
		t.Errorf("rules: %+v", p.Rules)
	}
}

// FuzzRules checks that for any rules file and any token no right is wider than its rule.
func FuzzRules(f *testing.F) {
	f.Add(rulesJSON, "team-a", "vpcs.prod", "net/vpc/aws")
	f.Add(`{"rules":[{"name":"x","allow":["write:state:{namespace}/{workspace...}"]}]}`, "a", "b/c", "a/b/c")
	f.Add(`{"rules":[{"name":"x","allow":["read:module:{workspace}*/**"]}]}`, "*", "**", "x")
	f.Add(`{"rules":[{"name":"x","allow":["read:module:net/a{workspace...}/*"]}]}`, "a", "b/c", "net/ab/c/aws")
	f.Fuzz(func(t *testing.T, text, namespace, workspace, address string) {
		parsed, err := ParseRules([]byte(text))
		if err != nil {
			return
		}
		id := identity{Claims: map[string]any{"namespace": namespace, "workspace": workspace}}
		for _, r := range parsed.Rules {
			scopes, ok := r.fillRights(id)
			if !ok {
				continue
			}
			for i, s := range scopes {
				if strings.Count(s.Glob, "*") != strings.Count(stripClaims(r.Allow[i].Glob), "*") || strings.ContainsAny(s.Glob, "{}") {
					t.Errorf("%s became %s", r.Allow[i], s)
				}
				for _, glob := range []string{"net/**", "net/*/aws", "a*/**/c", "**/aws", "*"} {
					if r.Allow[i].Within(glob) && addr.Match(s.Glob, address) && !addr.Match(glob, address) {
						t.Errorf("%s is within %s, but %s gives %s", r.Allow[i], glob, s, address)
					}
				}
			}
		}
	})
}

// stripClaims removes the names of claims, which may contain asterisks.
func stripClaims(glob string) string {
	var b strings.Builder
	for glob != "" {
		before, after, _ := strings.Cut(glob, "{")
		b.WriteString(before)
		_, glob, _ = strings.Cut(after, "}")
	}
	return b.String()
}

// TestMayNot names the right that is missing, and where states have rights of their own.
func TestMayNot(t *testing.T) {
	for right, want := range map[rights.Right][]string{
		rights.Server(): {rights.Lacks + "admin:*:**", "write:state:NAME, and is at state/NAME"},
		{Action: rights.Write, Kind: rights.Kind("state"), Address: "shop"}:   {"may not write state shop: " + rights.Lacks + "write:state:shop"},
		rights.AnyStateRight(addr.Layout{}, rights.Read, "shop"):              {"may not read state shop: " + rights.Lacks + "read:state:shop"},
		{Action: rights.Run, Kind: addr.KindState, Address: rights.Somewhere}: {"may not run state NAME: " + rights.Lacks + "run:state:NAME"},
		{Action: rights.Use, Kind: addr.KindInstance, Address: "sandbox/net"}: {rights.Lacks + "use:instance:sandbox/net"},
	} {
		if s, err := rights.ParseScope(right.String()); err != nil || !s.Allows(right) {
			t.Errorf("%s: %v", right, err)
		}
		for _, part := range want {
			if got := mayNot(right); !strings.Contains(got, part) {
				t.Errorf("%q lacks %q", got, part)
			}
		}
	}
}
