// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestExplain(t *testing.T) {
	const secret = "s3cr3t"
	m := newMachine(t, "linux")
	m.setenv(map[string]string{"XDG_RUNTIME_DIR": m.path("run"), "GITHUB_TOKEN": secret})
	m.helper("keys", helperScript{Answers: map[string][2]string{}})
	m.helper("more", helperScript{Answers: map[string][2]string{"registry.example.com": {"more", secret}}})
	m.file("home/.docker/config.json", `{"credsStore": "more", "credHelpers": {"registry.example.com": "keys"}, `+
		auths("registry.example.com/acme", "exact:"+secret, "other.example.com", "other:"+secret)[1:])
	m.file("home/.config/containers/auth.json", `{"auths": `+secret)
	m.file("home/.tofurc", rc(secret+"-user"))

	explain := func(repository string) []credentials.Candidate {
		t.Helper()
		list := must.Get(m.resolver().Explain(t.Context(), "registry.example.com", repository))(t)
		for i, c := range list {
			list[i].Location = strings.TrimPrefix(c.Location, m.root+"/")
		}
		return list
	}

	list := explain("acme")
	top := []credentials.Candidate{
		{Source: "docker configuration", Location: "home/.docker/config.json", Key: "registry.example.com/acme", Match: "repository",
			Kind: "password", Username: "exact", Secret: "********", Chosen: true, Reason: "the most specific match, from the first source with one"},
		{Source: "CLI configuration", Location: "home/.tofurc", Key: "oci_credentials registry.example.com", Match: "host",
			Kind: "password", Username: secret + "-user", Secret: "********", Reason: "a better match exists"},
		{Source: "docker configuration", Location: "home/.docker/config.json", Key: "registry.example.com", Match: "host",
			Helper: "keys", Reason: "not queried: a better match exists"},
		{Source: "docker configuration", Location: "home/.docker/config.json", Key: "credsStore", Match: "default",
			Helper: "more", Reason: "not queried: a better match exists"},
	}
	must.Match(t, "value", list[:len(top)], top)
	if calls := m.calls("keys"); len(calls) != 0 {
		t.Errorf("a helper that cannot win was asked: %q", calls)
	}
	want := map[string]string{
		"home/.config/containers/auth.json": "skipped: not valid JSON at byte 11",
		"run/containers/auth.json":          "not found",
		"variable CI_JOB_TOKEN":             "not found",
		"variable GITHUB_TOKEN":             "is for another registry or repository",
		"no credentials":                    "a source has credentials",
	}
	for _, c := range list[len(top):] {
		if w, ok := want[c.Location]; ok && w == c.Reason {
			delete(want, c.Location)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v in %+v", want, list)
	}
	if b, err := json.Marshal(list); err != nil || strings.Contains(strings.ReplaceAll(string(b), secret+"-user", ""), secret) {
		t.Errorf("the explanation has a secret: %s, %v", b, err)
	}

	m.file("home/.tofurc", "")
	list = explain("elsewhere")
	if list[0].Reason != "the helper has no entry for this registry" || !list[1].Chosen || list[1].Helper != "more" || list[1].Username != "more" {
		t.Errorf("got %+v", list[:2])
	}
	m.file("home/.docker/config.json", "{}")
	list = explain("elsewhere")
	if last := list[len(list)-1]; !last.Chosen || last.Source != credentials.Anonymous || last.Reason != "no source has credentials for registry.example.com/elsewhere" {
		t.Errorf("got %+v", last)
	}
}
