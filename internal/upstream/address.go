// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/seed-141914ff/okara/oci"
)

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// GuardDialer returns a dial function that refuses addresses a public origin
// can never have: loopback, private, link-local and unspecified ones. It looks
// at the address that is dialled, so a name that resolves to one and a redirect
// to one are refused alike. Hosts in allowed are exempt.
//
// A server that fetches what its clients ask for needs it: without it a client
// could reach hosts behind the server's firewall (server-side request forgery).
func GuardDialer(d *net.Dialer, allowed []string) func(ctx context.Context, network, address string) (net.Conn, error) {
	guarded := *d
	guarded.Control = func(_, address string, _ syscall.RawConn) error { return publicAddress(address) }
	exempt := make(map[string]bool, len(allowed))
	for _, h := range allowed {
		exempt[h] = true
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err == nil && (exempt[host] || exempt[address]) {
			return d.DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}

func publicAddress(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialling %s: %w", address, err)
	}
	ip := ap.Addr().Unmap()
	if ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() ||
		ip.IsMulticast() || ip.IsUnspecified() || !ip.IsGlobalUnicast() {
		return fmt.Errorf("%s is not a public address and not listed as an origin: %w", ip, oci.ErrDenied)
	}
	return nil
}
