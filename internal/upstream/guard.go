// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/seed-141914ff/okara/oci"
)

// maxRedirects is what the clients of these protocols follow.
const maxRedirects = 5

// Guard keeps a server that fetches what its clients ask for away from hosts
// that only the server can reach: loopback, private, link-local and other
// addresses that no public origin has. Without it a client could have the
// server ask its neighbours, or the metadata service of its cloud.
//
// It looks at the address that is dialled, after the name was resolved, so a
// name that resolves to such an address, at once or later, and a redirect to
// one are refused alike. Behind an HTTP proxy, which resolves names itself, it
// sees only what is written as an address.
type Guard struct {
	private []string
}

// NewGuard returns a guard that exempts the hosts in private, each a HOST or
// HOST:PORT as a URL has it.
func NewGuard(private []string) *Guard { return &Guard{private: private} }

// Dial connects as a net.Dialer does. What it refuses is oci.ErrDenied.
func (g *Guard) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	if !g.exempt(address) {
		d.Control = func(_, address string, _ syscall.RawConn) error { return publicAddress(address) }
	}
	return d.DialContext(ctx, network, address)
}

// Client returns a client that follows few redirects, only to https, and sends
// nothing to an address that is not public. Its transport must connect by Dial.
func (g *Guard) Client(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: guarded{g, transport}, CheckRedirect: checkRedirect}
}

func (g *Guard) exempt(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return slices.Contains(g.private, address) || err == nil && slices.Contains(g.private, host)
}

// guarded checks what a proxy would hide from Dial.
type guarded struct {
	g    *Guard
	next http.RoundTripper
}

func (t guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Hostname()
	ip, err := netip.ParseAddr(host)
	if err == nil && !isPublic(ip) && !t.g.exempt(net.JoinHostPort(host, cmp.Or(r.URL.Port(), "443"))) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: notPublic(ip)}
	}
	return t.next.RoundTrip(r)
}

func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	if r.URL.Scheme != "https" && !isLoopback(r.URL.Hostname()) {
		return fmt.Errorf("redirected to %s: origins are read over https: %w", where(r.URL), oci.ErrUnsupported)
	}
	return nil
}

func publicAddress(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialling %s: %w", address, err)
	}
	if !isPublic(ap.Addr()) {
		return notPublic(ap.Addr())
	}
	return nil
}

func notPublic(ip netip.Addr) error {
	return fmt.Errorf("%s is not a public address, and not listed as private: %w", ip, oci.ErrDenied)
}

// isPublic follows the registries of special-purpose addresses (RFC 6890). An
// IPv6 address that carries an IPv4 one is as public as that.
func isPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip):
		return isPublic(netip.AddrFrom4([4]byte(b[12:])))
	case sixToFour.Contains(ip):
		return isPublic(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return !isSpecial(ip)
}

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// isSpecial reports whether the address is in a block that is routed nowhere,
// or only within one network.
func isSpecial(ip netip.Addr) bool {
	for _, block := range [...]string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "fec0::/10",
	} {
		if netip.MustParsePrefix(block).Contains(ip) {
			return true
		}
	}
	return false
}
