// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/seed-141914ff/okara/internal/text"
)

// exchange is what a request and its token exchange share: the library passes nothing else on.
type exchange struct {
	tried   string         // the token that the request was sent with
	blocked []netip.Prefix // where a token server must not be
}

type exchangeKey struct{}

var blockedRealms = sync.OnceValue(func() []netip.Prefix {
	return append(auth.DefaultBlockedRealmPrefixes(), auth.PrivateRealmPrefixes()...)
})

var realmParam = text.Pattern(`(?i)^bearer\b.*\brealm="([^"]+)"`)

// admitInside lets a registry inside a network name a token server in it, as with registry.corp and
// gitlab.corp on 10.0.0.0/8. To a registry on the internet, all private addresses but its own host
// name stay blocked; link-local addresses and those of cloud metadata to both.
func (x *exchange) admitInside(resp *http.Response) {
	match := realmParam().FindStringSubmatch(resp.Header.Get("WWW-Authenticate"))
	if resp.StatusCode != http.StatusUnauthorized || match == nil {
		return
	}
	u := resp.Request.URL
	realm, err := url.Parse(match[1])
	if err != nil || strings.EqualFold(realm.Hostname(), u.Hostname()) || !isInside(resp.Request.Context(), u.Hostname()) {
		return
	}
	for i, p := range x.blocked {
		if p.Addr().IsLoopback() || p.Addr().IsPrivate() && !p.IsSingleIP() {
			x.blocked[i] = netip.Prefix{} // contains nothing
		}
	}
}

// isInside is true for a host that has only private and loopback addresses.
func isInside(ctx context.Context, host string) bool {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, a := range addrs {
		if a = a.Unmap(); !a.IsPrivate() && !a.IsLoopback() {
			return false
		}
	}
	return err == nil && len(addrs) > 0
}
