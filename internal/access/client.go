// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientIP returns the address of the client: that of the connection or, if it comes
// from a listed proxy, the last address in X-Forwarded-For that is not a listed proxy.
func (g *Guard) ClientIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if !g.isProxy(host) {
		return host
	}
	forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(forwarded) {
		if hop = strings.TrimSpace(hop); hop == "" || !g.isProxy(host) {
			break
		}
		host = hop
		if ap, err := netip.ParseAddrPort(hop); err == nil { // some proxies add the port
			host = ap.Addr().String()
		}
	}
	return host
}

// Scheme returns how the client reached the server: "https" over TLS, or X-Forwarded-Proto of a
// listed proxy; "" if unknown.
func (g *Guard) Scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	if !g.IsProxied(r) {
		return ""
	}
	switch proto := strings.ToLower(strings.TrimSpace(r.Header.Get("X-Forwarded-Proto"))); proto {
	case "http", "https":
		return proto
	}
	return ""
}

// Host returns the host by which the client came: Host, or X-Forwarded-Host of a listed proxy,
// unless that lacks only a port, which some omit.
func (g *Guard) Host(r *http.Request) string {
	said := strings.Join(r.Header.Values("X-Forwarded-Host"), ",")
	if said == "" || !g.IsProxied(r) || strings.HasPrefix(r.Host, said+":") {
		return r.Host
	}
	return said
}

// IsProxied reports whether the connection comes from a listed proxy.
func (g *Guard) IsProxied(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && g.isProxy(host)
}

func (g *Guard) isProxy(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(g.o.Proxies, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
}
