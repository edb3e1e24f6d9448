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
	mu      sync.RWMutex // guards private
	private []string
}

// NewGuard returns a guard that exempts the hosts in private, each a HOST or
// HOST:PORT as a URL has it.
func NewGuard(private []string) *Guard { return &Guard{private: slices.Clone(private)} }

// Named exempts hosts that whoever runs okara has named as origins themselves,
// each on its one port: what such an origin answers with is not exempt.
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
	return &http.Client{Transport: g.Transport(transport), CheckRedirect: checkRedirect}
}

// Transport refuses what a proxy would hide from Dial, by which next must connect.
func (g *Guard) Transport(next http.RoundTripper) http.RoundTripper { return guarded{g, next} }

// Check refuses a host, before it is connected to by other means than Dial, whose
// name resolves to an address that is not public.
func (g *Guard) Check(ctx context.Context, host, port string) error {
	if g.exempt(net.JoinHostPort(host, port)) {
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

func (g *Guard) exempt(address string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
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
	if netaddr.IsInternal(host) && !t.g.exempt(net.JoinHostPort(host, cmp.Or(r.URL.Port(), "443"))) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: notPublic(host)}
	}
	return t.next.RoundTrip(r)
}

// checkRedirect follows few redirects, none from https to http. A token goes to the
// scheme, host and port that it is for, and nowhere after a redirect has left
// those: net/http itself keeps it for other ports, subdomains and for http.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	if r.URL.Scheme != "https" && (via[0].URL.Scheme == "https" || !netaddr.IsLoopback(r.URL.Hostname())) {
		return fmt.Errorf("redirected to %s: origins are read over https: %w", where(r.URL), oci.ErrUnsupported)
	}
	for _, hop := range slices.Concat(via[1:], []*http.Request{r}) {
		if !sameOrigin(hop.URL, via[0].URL) {
			r.Header.Del("Authorization")
			r.Header.Del("Referer")
		}
	}
	return nil
}

// sameOrigin compares as RFC 6454 does.
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

func notPublic(host string) error {
	return &InsideError{Host: host}
}

// InsideError says that a host is at an address of this network that nobody allowed.
type InsideError struct{ Host string }

func (e *InsideError) Error() string {
	return fmt.Sprintf("%s is not a public address and not allowed by --allow-internal, or by private for pull_through: %v", e.Host, oci.ErrDenied)
}

func (e *InsideError) Unwrap() error { return oci.ErrDenied }
