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

// Screen keeps web pages away from a server that asks for no token, or whose
// password a browser remembers; it is asked before any route. A page of any site
// may send requests to addresses that only this browser reaches; its browser
// says so in Origin and Sec-Fetch-Site. A name of the page's own site that its
// DNS suddenly resolves to this machine makes it read the answers as well; the
// name is in Host.
func (g *Guard) Screen(r *http.Request) error {
	if err := g.screenName(r, g.rules.Load()); err != nil {
		return err
	}
	if err := g.cross.Check(r); err != nil {
		g.logFor(r).Warn("request of a web page refused", "origin", clip(r.Header.Get("Origin")))
		return &Refusal{Status: http.StatusForbidden, Text: "a web page of another site may not do this"}
	}
	return nil
}

// screenName refuses what calls the server by a name of somebody else, where
// everybody may write.
func (g *Guard) screenName(r *http.Request, now *rules) error {
	if now.names == nil || called(r, now.names) {
		return nil
	}
	g.logFor(r).Warn("request refused: everybody may write here, and the name it calls is not of this server", "host", r.Host)
	return &Refusal{Status: http.StatusMisdirectedRequest, Text: "this server is not known as " + clip(hostOf(r.Host)) +
		"; where everybody may write, set hostname or public_url to the name that clients use"}
}

// ownNames are the names by which a server where everybody may write may be
// called; nil: any.
func ownNames(p Policy, given []string) []string {
	if !slices.ContainsFunc(p.Anonymous, func(s rights.Scope) bool { return s.Action != rights.Read }) {
		return nil
	}
	names := []string{"localhost"}
	for _, name := range given {
		if name != "" {
			names = append(names, hostOf(name))
		}
	}
	return names
}

// called reports whether Host is a loopback name or address, a configured name,
// or the very address that the connection came to: no DNS resolves to an
// address in digits.
func called(r *http.Request, names []string) bool {
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

// Local keeps web pages from reading what h answers to this machine without a
// token: a request that comes to a loopback address must call the server by a name
// or an address of this machine, or by one of names, as [Guard.Screen] has it.
func Local(h http.Handler, names ...string) http.Handler {
	var own []string
	for _, name := range names {
		if name != "" {
			own = append(own, hostOf(name))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if local != nil && local.IP.IsLoopback() && !called(r, own) {
			http.Error(w, "this server is not known as "+clip(hostOf(r.Host)), http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// hostOf is the name in HOST, HOST:PORT or an URL, as names are compared.
func hostOf(s string) string {
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		s = u.Host
	}
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(s, "[]"), "."))
}
