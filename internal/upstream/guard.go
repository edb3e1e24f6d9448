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
// sees only what is written as an address, and names of loopback.
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
	if isInternalHost(host) && !t.g.exempt(net.JoinHostPort(host, cmp.Or(r.URL.Port(), "443"))) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: notPublic(host)}
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
	if !IsPublic(ap.Addr()) {
		return notPublic(ap.Addr().String())
	}
	return nil
}

func notPublic(host string) error {
	return fmt.Errorf("%s is not a public address, and not listed as private: %w", host, oci.ErrDenied)
}
