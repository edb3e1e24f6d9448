// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestServeRulesFile changes the rules file of a running server: a new rule applies, a broken
// file keeps the old rules and is reported, and tokens of a subject from before a given time
// are void.
//
// Shows: opendepot 14
func TestServeRulesFile(t *testing.T) {
	t.Parallel()
	issuer := webtest.NewIssuer(t)
	dir := t.TempDir()
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		must.Succeed(t, os.WriteFile(file+".new", []byte(text), 0o600))
		must.Succeed(t, os.Rename(file+".new", file))
		return file
	}
	rules := put("rules.json", "{}")
	config := put("okara.hcl", fmt.Sprintf(`rules_file = %q
issuer %q {
  audiences = ["okara"]
}
rule "named" {
  groups = ["named"]
  allow  = ["read:module:{team}/**"]
}
rule "operators" {
  groups = ["operators"]
  allow  = ["admin:*:**"]
}
`, rules, issuer.URL))
	url, notes, _ := newServer(t, "--storage", t.TempDir(), "--config", config)
	now := time.Now()
	token := func(subject, team string, groups ...string) string {
		return issuer.Sign(t, map[string]any{
			"iss": issuer.URL, "aud": "okara", "sub": subject, "team": team, "groups": groups,
			"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		})
	}
	ask := func(namespace, token string) int {
		return status(t, http.DefaultClient, http.MethodGet, url+"/v1/modules/"+namespace+"/x/aws/versions", token)
	}
	named, admin, alice := token("bob", "net", "named"), token("root", "", "operators"), token("alice", "", "people")
	if may, other := ask("net", named), ask("dns", named); may != http.StatusNotFound || other != http.StatusForbidden {
		t.Fatalf("a rule of the configuration that names a claim: %d and %d", may, other)
	}
	must.Equal(t, "a claim that is a glob", ask("net", token("eve", "**", "named")), http.StatusForbidden)
	if got := ask("net", alice); got != http.StatusForbidden {
		t.Fatalf("before there is a rule: %d", got)
	}

	rule := fmt.Sprintf(`{"name": "people", "issuer": %q, "groups": ["people"], "allow": ["read:module:net/**"]}`, issuer.URL)
	put("rules.json", `{"rules": [`+rule+`]}`)
	waitFor(t, "a new rule", func() bool { return ask("net", alice) == http.StatusNotFound })
	must.Equal(t, "what the rule does not give", ask("dns", alice), http.StatusForbidden)
	metric := func(want string) bool { return strings.Contains(get(t, url+"/metrics", admin), want) }
	if doctor := get(t, url+"/ui/doctor", admin); !metric("okara_rules_errors_total 0") || !strings.Contains(doctor, "1 rule, read") {
		t.Errorf("the doctor says %s", doctor)
	}

	put("rules.json", `{"rules": [{"name": "all", "allow": ["admin:*:**"]}`)
	waitFor(t, "a broken file", func() bool { return strings.Contains(notes(), "the rules file was not reloaded") })
	if may, other := ask("net", alice), ask("dns", alice); may != http.StatusNotFound || other != http.StatusForbidden {
		t.Errorf("a broken file: %d and %d, want the old rules", may, other)
	}
	if doctor := get(t, url+"/ui/doctor", admin); !metric("okara_rules_errors_total 1") || !strings.Contains(doctor, "rules.json: the rules are not valid JSON") {
		t.Errorf("the doctor says %s", doctor)
	}
	must.Succeed(t, os.Remove(rules))
	waitFor(t, "no file", func() bool { return metric("okara_rules_errors_total 2") })
	must.Equal(t, "without the file, the old rules", ask("net", alice), http.StatusNotFound)

	void := fmt.Sprintf(`{"issuer": %q, "subject": "alice", "time": %q}`, issuer.URL, now.Add(time.Minute).UTC().Format(time.RFC3339))
	put("rules.json", `{"rules": [`+rule+`], "not_before": [`+void+`]}`)
	waitFor(t, "a subject whose tokens are void", func() bool { return ask("net", alice) == http.StatusUnauthorized })
	must.Equal(t, "another subject", ask("net", token("carol", "", "people")), http.StatusNotFound)
	put("rules.json", "{}")
	waitFor(t, "a rule that is gone", func() bool { return ask("net", token("carol", "", "people")) == http.StatusForbidden })
}
