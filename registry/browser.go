// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// browserGuard keeps web pages away from a server that asks for no token, or
// whose password a browser remembers. A page of any site may send requests to
// addresses that only this browser reaches; its browser says so in Origin and
// Sec-Fetch-Site. A name of the page's own site that its DNS suddenly resolves
// to this machine makes it read the answers as well; the name is in Host.
type browserGuard struct {
	s     *server
	names []string // by which the server may be called; nil: any
	cross *http.CrossOriginProtection
}

func newBrowserGuard(s *server) *browserGuard {
	g := &browserGuard{s: s, cross: http.NewCrossOriginProtection()}
	if slices.ContainsFunc(s.o.Access.Anonymous, func(c Scope) bool { return c.Action != "read" }) {
		g.names = []string{"localhost"}
		for _, name := range []string{s.o.Hostname, s.o.PublicURL} {
			if name != "" {
				g.names = append(g.names, hostOf(name))
			}
		}
	}
	return g
}

// around is in front of all routes.
func (g *browserGuard) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(noSniff, "nosniff")
		if err := g.check(r); err != nil {
			g.s.wrap(func(http.ResponseWriter, *http.Request) error { return err }).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// noSniff is the header that keeps browsers from taking an answer for a page or
// a script. It is on every answer.
const noSniff = "X-Content-Type-Options"

func (g *browserGuard) check(r *http.Request) error {
	if g.names != nil && !g.called(r) {
		g.s.logFor(r).Warn("request refused: everybody may write here, and the name it calls is not of this server", "host", r.Host)
		return &httpError{status: http.StatusMisdirectedRequest, text: "this server is not known as " + shorten(hostOf(r.Host), maxAgent) +
			"; where everybody may write, set hostname or public_url to the name that clients use"}
	}
	if err := g.cross.Check(r); err != nil {
		g.s.logFor(r).Warn("request of a web page refused", "origin", shorten(r.Header.Get("Origin"), maxAgent))
		return &httpError{status: http.StatusForbidden, text: "a web page of another site may not do this"}
	}
	return nil
}

// called reports whether Host is a loopback name or address, a configured name,
// or the very address that the connection came to: no DNS resolves to an
// address in digits.
func (g *browserGuard) called(r *http.Request) bool {
	host := hostOf(r.Host)
	if slices.Contains(g.names, host) || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if ip.Unmap().IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap().WithZone("") == ip.Unmap().WithZone("")
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
