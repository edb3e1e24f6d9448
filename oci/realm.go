// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
)

// realms lets a registry inside a network name a token server inside that
// network, as GitLab does when registry.corp and gitlab.corp are both on
// 10.0.0.0/8. The library refuses every private address except the registry's
// own host name, which protects users of an untrusted registry on the internet.
// Here the registry itself is inside, so its token server may be inside too.
// Link-local addresses, where clouds serve their metadata, stay refused.
//
// The library has no setting for that. So its check is given a URL on the
// registry's own host, and the transport below it restores the real URL. A
// random part in the path prevents a registry from forging such URLs.
type realms struct {
	path   string
	shown  *regexp.Regexp // matches a disguised URL
	lookup func(ctx context.Context, host string) ([]net.IPAddr, error)
}

func newRealms() realms {
	path := "/.okara-token-server-" + rand.Text() + "/"
	return realms{
		path: path, lookup: net.DefaultResolver.LookupIPAddr,
		shown: regexp.MustCompile(`https?://[^/\s"]+` + path + `[A-Za-z0-9_-]+`),
	}
}

var realmParam = text.Pattern(`(?i)(\brealm=")([^"]+)"`)

// disguise replaces the realm in a challenge of the registry if both hosts are
// inside. Everything else is left to the library's check.
func (m realms) disguise(req *http.Request, resp *http.Response) {
	challenge := resp.Header.Get("WWW-Authenticate")
	match := realmParam().FindStringSubmatch(challenge)
	if resp.StatusCode != http.StatusUnauthorized || match == nil || !strings.HasPrefix(strings.ToLower(challenge), "bearer") {
		return
	}
	realm, err := url.Parse(match[2])
	if err != nil || realm.Scheme != "https" && (realm.Scheme != "http" || req.URL.Scheme == "https") {
		return
	}
	ctx := req.Context()
	if strings.EqualFold(realm.Hostname(), req.URL.Hostname()) || !m.inside(ctx, realm.Hostname()) || !m.inside(ctx, req.URL.Hostname()) {
		return
	}
	shown := url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: m.path + base64.RawURLEncoding.EncodeToString([]byte(match[2]))}
	resp.Header.Set("WWW-Authenticate", strings.Replace(challenge, match[0], match[1]+shown.String()+`"`, 1))
}

// restore returns the request for the real token server.
func (m realms) restore(req *http.Request) *http.Request {
	u, ok := m.real(req.URL)
	if !ok {
		return req
	}
	req = req.Clone(req.Context())
	req.URL = u
	req.Host = ""
	return req
}

// real returns the URL that a disguised URL stands for.
func (m realms) real(shown *url.URL) (*url.URL, bool) {
	code, ok := strings.CutPrefix(shown.Path, m.path)
	if !ok {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(code)
	if err != nil {
		return nil, false
	}
	u, err := url.Parse(string(raw))
	if err != nil {
		return nil, false
	}
	if u.RawQuery != "" && shown.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += shown.RawQuery
	return u, true
}

// restoreURLs puts the real URLs into the text of an error.
func (m realms) restoreURLs(text string) string {
	return m.shown.ReplaceAllStringFunc(text, func(shown string) string {
		if u, err := url.Parse(shown); err == nil {
			if u, ok := m.real(u); ok {
				return safeURL(u)
			}
		}
		return shown
	})
}

// inside is true for a host that has only private and loopback addresses.
func (m realms) inside(ctx context.Context, host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsPrivate() || ip.IsLoopback()
	}
	addrs, err := m.lookup(ctx, host)
	if err != nil || len(addrs) == 0 {
		return false
	}
	for _, a := range addrs {
		if !a.IP.IsPrivate() && !a.IP.IsLoopback() {
			return false
		}
	}
	return true
}
