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
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/oci"
)

// maxRedirects is the limit of the clients of these protocols.
const maxRedirects = 5

// Guard keeps a server that fetches on behalf of its clients away from hosts that only the server
// can reach: loopback, private, link-local and other addresses that no public origin has. Without
// it a client could make the server send requests to its neighbours, or to the metadata service of
// its cloud.
//
// It checks the dialled address after the name was resolved, so a name that resolves to such an
// address, immediately or later, and a redirect to one are refused. Behind an HTTP proxy, which
// resolves names itself, it can check only literal addresses and loopback names.
type Guard struct {
	mu      sync.RWMutex // guards private
	private []string
}

// NewGuard returns a guard that exempts the hosts in private, each a HOST or HOST:PORT as in a URL.
func NewGuard(private []string) *Guard { return &Guard{private: slices.Clone(private)} }

// Named exempts hosts that the administrator has named as origins, each only
// with its one port: hosts that such an origin refers to are not exempt.
func (g *Guard) Named(hosts ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, host := range hosts {
		u := url.URL{Host: host}
		if address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")); host != "" && !slices.Contains(g.private, address) {
			g.private = append(g.private, address)
		}
	}
}

// Dial connects as a net.Dialer does. A refusal is oci.ErrDenied.
func (g *Guard) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	if !g.isExempt(address) {
		d.Control = func(_, address string, _ syscall.RawConn) error { return publicAddress(address) }
	}
	return d.DialContext(ctx, network, address)
}

// Client returns a client that follows few redirects, only to https, and sends
// nothing to a non-public address. Its transport must connect with Dial.
func (g *Guard) Client(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: g.Transport(transport), CheckRedirect: checkRedirect}
}

// Transport refuses hosts that a proxy would hide from Dial. next must connect with Dial.
func (g *Guard) Transport(next http.RoundTripper) http.RoundTripper { return guarded{g, next} }

// Check refuses a host that resolves to a non-public address. It is for
// connections that are not made with Dial.
func (g *Guard) Check(ctx context.Context, host, port string) error {
	if g.isExempt(net.JoinHostPort(host, port)) {
		return nil
	}
	if netaddr.IsInternal(host) {
		return notPublic(host)
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("%w: %w", err, oci.ErrUnavailable)
	}
	for _, ip := range ips {
		if !netaddr.IsPublic(ip) {
			return notPublic(ip.String())
		}
	}
	return nil
}

func (g *Guard) isExempt(address string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	host, _, err := net.SplitHostPort(address)
	return slices.Contains(g.private, address) || err == nil && slices.Contains(g.private, host)
}

// guarded checks hosts that a proxy would hide from Dial.
type guarded struct {
	g    *Guard
	next http.RoundTripper
}

func (t guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Hostname()
	if netaddr.IsInternal(host) && !t.g.isExempt(net.JoinHostPort(host, cmp.Or(r.URL.Port(), "443"))) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: notPublic(host)}
	}
	return t.next.RoundTrip(r)
}

// checkRedirect follows few redirects, none from https to http. A token is sent
// only to its scheme, host and port, and no longer after a redirect has left
// those: net/http itself keeps it for other ports, subdomains and http.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	if r.URL.Scheme != "https" && (via[0].URL.Scheme == "https" || !netaddr.IsLoopback(r.URL.Hostname())) {
		return oci.Unsupported("redirected to %s: origins must use https", formatURL(r.URL))
	}
	for _, hop := range slices.Concat(via[1:], []*http.Request{r}) {
		if !sameOrigin(hop.URL, via[0].URL) {
			r.Header.Del("Authorization")
			r.Header.Del("Referer")
		}
	}
	return nil
}

// sameOrigin compares origins as RFC 6454 defines.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if u.Port() == "" && u.Scheme == "https" {
		return "443"
	}
	return cmp.Or(u.Port(), "80")
}

func publicAddress(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialling %s: %w", address, err)
	}
	if !netaddr.IsPublic(ap.Addr()) {
		return notPublic(ap.Addr().String())
	}
	return nil
}

func notPublic(host string) error { return &InsideError{Host: host} }

// InsideError means that a host has an internal address that is not allowed.
type InsideError struct{ Host string }

func (e *InsideError) Error() string {
	return fmt.Sprintf("%s is not a public address and not allowed by --allow-internal, or by private for pull_through: %v", e.Host, oci.ErrDenied)
}

func (e *InsideError) Unwrap() error { return oci.ErrDenied }
