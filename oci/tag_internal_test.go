// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"net/url"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

func TestNextPage(t *testing.T) {
	base := must.Get(url.Parse("https://registry.example.com/v2/a/tags/list"))(t)
	for _, test := range []struct {
		name, link string
		want       string // "!" is an error
	}{
		{"none", "", ""},
		{"relative", `</v2/a/tags/list?last=b&n=2>; rel="next"`, "https://registry.example.com/v2/a/tags/list?last=b&n=2"},
		{"query only", `<?last=b>; rel="next"`, "https://registry.example.com/v2/a/tags/list?last=b"},
		{"absolute", `<https://registry.example.com/v2/a/tags/list?last=b>; rel="next"`, "https://registry.example.com/v2/a/tags/list?last=b"},
		{"scheme and port of a proxy", `<http://registry.example.com:8080/v2/a/tags/list?last=b>; rel="next"`, "https://registry.example.com/v2/a/tags/list?last=b"},
		{"unquoted", `</x>; rel=next`, "https://registry.example.com/x"},
		{"upper case", `</x>; REL="NEXT"`, "https://registry.example.com/x"},
		{"second of two", `</first>; rel="prev", </x>; rel="next"`, "https://registry.example.com/x"},
		{"two relations", `</x>; title="a"; rel="last next"`, "https://registry.example.com/x"},
		{"a longer relation", `</x>; rel=next-page, </y>; rel="up-next"`, ""},
		{"another relation", `</x>; rel="prev"`, ""},
		{"another host", `<https://evil.example.com/x>; rel="next"`, "!"},
		{"another scheme", `<file:///etc/passwd>; rel="next"`, "!"},
		{"userinfo is dropped", `<https://u:p@registry.example.com/x>; rel="next"`, "https://registry.example.com/x"},
		{"not closed", `</x; rel="next"`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			u, err := nextPage(base, test.link)
			got := ""
			if err != nil {
				got = "!"
			} else if u != nil {
				got = u.String()
			}
			if got != test.want {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

// FuzzLink checks that a Link header never leads to another host.
func FuzzLink(f *testing.F) {
	base := &url.URL{Scheme: "https", Host: "registry.example.com", Path: "/v2/a/tags/list"}
	f.Add(`</v2/a/tags/list?last=b&n=2>; rel="next"`)
	f.Add(`<https://registry.example.com/x>; rel=next, <>; rel="next"`)
	f.Add(`<//evil.example.com/x>; rel="next"`)
	f.Fuzz(func(t *testing.T, link string) {
		if u, err := nextPage(base, link); err == nil && u != nil && (u.Host != base.Host || u.Scheme != base.Scheme || u.User != nil) {
			t.Errorf("%q leads to %s", link, u)
		}
	})
}

func TestCovers(t *testing.T) {
	for _, test := range []struct {
		have, want string
		ok         bool
	}{
		{"repository:a:pull,push", "repository:a:pull", true},
		{"repository:a:pull", "repository:a:pull,push", false},
		{"repository:a:pull,push", "repository:b:pull", false},
		{"repository:a:delete,pull,push repository:b:pull", "repository:a:pull repository:b:pull", true},
		{"", "repository:a:pull", false},
		{"repository:a:pull", "nonsense", false},
	} {
		if got := coversScopes(test.have, test.want); got != test.ok {
			t.Errorf("covers(%q, %q) = %v", test.have, test.want, got)
		}
	}
}

func TestRedact(t *testing.T) {
	var s secrets
	s.add("opaque-secret", "abc") // a secret of three letters is too short to blank
	for _, test := range []struct{ in, want string }{
		{"nothing to hide: abc", "nothing to hide: abc"},
		{"token opaque-secret refused", "token *** refused"},
		{"Authorization: Bearer abcdef.123", "Authorization: ***"},
		{`"Authorization":["Basic dXNlcjpwYXNz"]`, `"Authorization":["***"]`},
		{"map[Authorization:[Basic dXNlcjpwYXNz]]", "map[Authorization:[***]]"},
		{"got eyJhbGciOi.eyJzdWIi.c2ln", "got ***"},
		{"https://user:pass@host/x", "https://***@host/x"},
		{"https://host/x?X-Amz-Signature=abcdef&n=1", "https://host/x?X-Amz-Signature=***&n=1"},
		{"basic rules apply", "basic rules apply"},
	} {
		if got := s.redact(test.in); got != test.want {
			t.Errorf("redact(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}
