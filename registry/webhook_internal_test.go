// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/hex"
	"io/fs"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
)

// FuzzHookSignature accepts the canonical form only.
func FuzzHookSignature(f *testing.F) {
	for _, s := range []string{"sha256=" + strings.Repeat("0a", 32), "sha1=" + strings.Repeat("0a", 20), "sha256=", "", "sha256=sha256=", "SHA256=" + strings.Repeat("00", 32)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		sum, ok := hookSignature(header)
		if ok && (len(sum) != 32 || strings.ToLower(header) != "sha256="+hex.EncodeToString(sum)) {
			t.Errorf("%q was read as %x", header, sum)
		}
	})
}

// FuzzHook parses arbitrary bodies of all events: an accepted one names one
// repository and one tag, and leads only to a module that can be stored, in a
// directory that the tag or the configuration names.
func FuzzHook(f *testing.F) {
	const repository = `"repository":{"full_name":"acme/terraform-aws-vpc","html_url":"https://github.com/acme/terraform-aws-vpc"}`
	for _, s := range [][2]string{
		{"push", `{"ref":"refs/tags/v1.0.0","head_commit":{"id":"0123456789012345678901234567890123456789"},` + repository + `}`},
		{"push", `{"ref":"refs/tags/a/b/v1","deleted":true,"head_commit":null,` + repository + `}`},
		{"create", `{"ref":"v1.0.0","ref_type":"tag","repository":{"full_name":"acme/many"}}`},
		{"create", `{"ref":"a/../b/v1.0.0","ref_type":"tag","repository":{"full_name":"acme/many"}}`},
		{"release", `{"action":"published","release":{"tag_name":"1.0.0+b","draft":false},` + repository + `}`},
		{"release", `[]`},
	} {
		f.Add(s[0], []byte(s[1]))
	}
	g := GitHub{Owner: "acme", Modules: []GitHubModule{{Repository: "many", Address: "net/{name}/{system}"}, {Repository: "one", Address: "a/b/c", Dir: "d"}}}
	f.Fuzz(func(t *testing.T, event string, body []byte) {
		e, err := parseHook(event, body)
		if err != nil {
			return
		}
		if e.owner == "" || e.repository == "" || strings.Contains(e.repository, "/") || e.tag == "" || e.commit != "" && len(e.commit) != 40 {
			t.Fatalf("%s %s was read as %+v", event, body, e)
		}
		must.Equal(t, "recorded as", hookEventOf(e.publishJob("id")), e)
		to, err := g.target(e.repository, e.tag)
		if err != nil {
			return
		}
		m, dir := to.Module, to.Dir
		if err := m.Validate(); err != nil || m.Version == (addr.Version{}) || dir != "" && !fs.ValidPath(dir) || dir != "" && dir != "d" && !strings.HasPrefix(e.tag, dir+"/") {
			t.Errorf("%s leads to %s %s in %q, %v", e, m.Module, m.Version, dir, err)
		}
	})
}
