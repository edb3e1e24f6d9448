// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/rights"
)

// Screen keeps pages of other sites away from a server that asks for no token, or whose password a
// browser remembers; it must come before routing. Such a page can send requests where only the
// user's browser reaches, which tells in Origin and Sec-Fetch-Site; if the DNS of its site resolves
// to this machine (rebinding), it can read answers too: then Host names that site.
func (g *Guard) Screen(r *http.Request) error {
	if err := g.screenName(r, g.policy.Load()); err != nil {
		return err
	}
	if err := g.cross.Check(r); err != nil {
		g.logFor(r).Warn("cross-site request refused", "origin", clipText(r.Header.Get("Origin")))
		return &Refusal{Status: http.StatusForbidden, Text: "cross-site request denied"}
	}
	return nil
}

// ScreenOrigin refuses a request of a web page whose site has no name of this server, also one
// that DNS leads here.
func ScreenOrigin(g *Guard, r *http.Request) error {
	if origin := r.Header.Get("Origin"); origin == "" || isOwnHost(r, hostNames(g.o.Names)) {
		return nil
	}
	return &Refusal{Status: http.StatusForbidden, Text: "a web page of another site may not send this request"}
}

// screenName refuses requests to a Host that is no name of this server, if anonymous may write.
func (g *Guard) screenName(r *http.Request, p *activePolicy) error {
	if p.names == nil || isOwnHost(r, p.names) {
		return nil
	}
	g.logFor(r).Warn("request refused: unknown Host while anonymous callers may write", "host", r.Host)
	return &Refusal{Status: http.StatusMisdirectedRequest, Text: "unknown server name " + clipText(hostOf(r.Host)) +
		"; if anonymous callers may write, set hostname or public_url to the name that clients use"}
}

// ownNames returns the accepted host names if anonymous may write; nil: any.
func ownNames(p Policy, given []string) []string {
	if !slices.ContainsFunc(p.Anonymous, func(s rights.Scope) bool { return s.Action != rights.Read }) {
		return nil
	}
	return append(hostNames(given), "localhost")
}

// hostNames returns the hosts of names and URLs.
func hostNames(given []string) (names []string) {
	for _, name := range given {
		if name != "" {
			names = append(names, hostOf(name))
		}
	}
	return names
}

// isOwnHost reports whether Host is on loopback, a configured name, or the connection's local IP
// address, for which DNS is not asked.
func isOwnHost(r *http.Request, names []string) bool {
	host := hostOf(r.Host)
	if slices.Contains(names, host) || netaddr.IsLoopback(host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap().WithZone("") == ip.Unmap().WithZone("")
}

// Local keeps web pages from reading what h answers to this machine without a token: Host of a
// loopback request must be loopback or one of names, as in [Guard.Screen].
func Local(h http.Handler, names ...string) http.Handler {
	own := hostNames(names)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if local != nil && local.IP.IsLoopback() && !isOwnHost(r, own) {
			http.Error(w, "unknown server name "+clipText(hostOf(r.Host)), http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// hostOf returns the host name in HOST, HOST:PORT or a URL, normalized for comparison.
func hostOf(s string) string {
	if strings.Contains(s, "/") {
		if u, err := url.Parse(s); err == nil && u.Host != "" {
			s = u.Host
		}
	}
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(s, "[]"), "."))
}
