// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"strings"
	"testing"
	"time"
)

// TestImageHosts checks which host patterns are accepted.
//
// Shows: pages 3
func TestImageHosts(t *testing.T) {
	for _, c := range []struct {
		name, pattern string
		ok            bool
	}{
		{"a host", "img.shields.io", true},
		{"of one label", "badges", true},
		{"upper case", "IMG.example.com", true},
		{"all below a domain", "*.githubusercontent.com", true},
		{"with a port", "img.example.com:8443", true},
		{"nothing", "", false},
		{"everything", "*", false},
		{"all of a top domain", "*.com", false},
		{"a star in the middle", "img.*.example.com", false},
		{"part of a label", "img*.example.com", false},
		{"a scheme", "https://img.example.com", false},
		{"a path", "img.example.com/badges", false},
		{"an address", "192.0.2.1", false},
		{"an address of six", "[2001:db8::1]", false},
		{"a port of none", "img.example.com:", false},
		{"any port", "img.example.com:*", false},
		{"another directive", "img.example.com; script-src *", false},
		{"another source", "img.example.com 'unsafe-inline'", false},
		{"another line", "img.example.com\nX: y", false},
		{"a name of a user", "a@img.example.com", false},
		{"too long", strings.Repeat("abcdefg.", 40) + "com", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := CheckImageHosts([]string{c.pattern}); (err == nil) != c.ok {
				t.Errorf("%q: %v", c.pattern, err)
			}
		})
	}
	if err := CheckImageHosts(make([]string, maxImageHosts+1)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too many: %v", err)
	}
}

// TestImagesOfHosts shows images of listed hosts, only with https, and others as links.
func TestImagesOfHosts(t *testing.T) {
	hosts := ImageHosts{"Img.example.com", "*.cdn.example.com", "port.example.com:8443", "default.example.com:443"}
	for _, c := range []struct{ name, source, has, not string }{
		{"the host", "![text](https://img.example.com/x.png)", `<img src="https://img.example.com/x.png" alt="text">`, "<a"},
		{"a query", "![text](https://img.example.com/b?label=a&x=1)", `<img src="https://img.example.com/b?label=a&amp;x=1"`, "<a"},
		{"in a link", "[![text](https://img.example.com/x.svg)](https://ci.example.com/)", `<img src="https://img.example.com/x.svg"`, ""},
		{"upper case", "![text](HTTPS://IMG.EXAMPLE.COM/x.png)", "<img", "<a"},
		{"the port that all have", "![text](https://img.example.com:443/x.png)", "<img", "<a"},
		{"the port that all have, in the pattern", "![text](https://default.example.com/x.png)", "<img", "<a"},
		{"below a domain", "![text](https://a.b.cdn.example.com/x.png)", "<img", "<a"},
		{"a port", "![text](https://port.example.com:8443/x.png)", "<img", "<a"},
		{"the domain itself", "![text](https://cdn.example.com/x.png)", "<a", "<img"},
		{"another domain of that ending", "![text](https://evilcdn.example.com/x.png)", "<a", "<img"},
		{"the host as part of another", "![text](https://img.example.com.evil.example/x.png)", "<a", "<img"},
		{"the host as a user", "![text](https://img.example.com@evil.example/x.png)", "", "<img"},
		{"a user at the host", "![text](https://a:b@img.example.com/x.png)", "", "<img"},
		{"a backslash", `<img src="https://evil.example\.cdn.example.com/x.png">`, "", "<img"},
		{"another port", "![text](https://img.example.com:8443/x.png)", "<a", "<img"},
		{"without TLS", "![text](http://img.example.com/x.png)", "<a", "<img"},
		{"of whatever scheme", "![text](//img.example.com/x.png)", "", "<img"},
		{"a set of images", `<img src="https://img.example.com/x.png" srcset="https://evil.example/x.png 2x" onerror="x">`, "<img", "evil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(New(time.Now, hosts).renderSource(c.source, Location{}).HTML)
			if !strings.Contains(got, c.has) || strings.Contains(got, "onerror") || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("got %s, want %q and not %q", got, c.has, c.not)
			}
		})
	}
	if got, want := strings.Join(hosts.Policy(), " "), "https://img.example.com https://*.cdn.example.com https://port.example.com:8443 https://default.example.com:443"; got != want {
		t.Errorf("the policy has %q, want %q", got, want)
	}
}
