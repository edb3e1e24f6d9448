// SPDX-License-Identifier: Apache-2.0

package netaddr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// IsLoopback reports whether only this machine reaches HOST[:PORT], by address or name (RFC 6761).
func IsLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// ParseServer parses a server's address, https:// by default, without trailing slash. The error has
// no text that may be a password.
func ParseServer(s string) (*url.URL, error) {
	if !strings.Contains(s, "://") {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return nil, errors.New("not the URL of a server, such as https://okara.example.com")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%s is not the URL of a server: the scheme must be https, or http on this machine", u)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s%s: the URL of a server has no query and no fragment", u.Host, u.Path)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}

// IsInternal reports whether a URL's host is a literal non-public address, in any spelling, or a
// loopback name (RFC 6761). It resolves nothing.
func IsInternal(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		return !IsPublic(ip)
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	// 2130706433, 127.1, 0177.0.0.1, 0x7f000001: the last label of a name is
	// never a number (https://url.spec.whatwg.org/#ends-in-a-number-checker).
	decimal := strings.Trim(last, "0123456789") == ""
	digits, prefixed := strings.CutPrefix(last, "0x")
	hexadecimal := prefixed && strings.Trim(digits, "0123456789abcdef") == ""
	return last == "localhost" || last == "" || decimal || hexadecimal
}

// IsPublic reports whether an address can belong to a host of the public
// internet. It follows the registries of special-purpose addresses (RFC 6890,
// https://www.iana.org/assignments/iana-ipv6-special-registry).
//
// For IPv6 only the block from which public addresses are assigned is accepted,
// so that unknown special forms are refused. An address that embeds an IPv4
// address for a gateway or tunnel is as public as that address: for the host
// that translates it, it may be loopback. A translation prefix from a network's
// own public block (RFC 6052) looks like any other address and is not
// recognised.
func IsPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsValid() || !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	if ip.Is4() {
		return !isInBlocks(ip, special4)
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip):
		return IsPublic(netip.AddrFrom4([4]byte(b[12:])))
	case sixToFour.Contains(ip):
		return IsPublic(netip.AddrFrom4([4]byte(b[2:6])))
	case !global6.Contains(ip) || isInBlocks(ip, special6):
		return false
	// ISATAP: packets go to the IPv4 address in the last four bytes (RFC 5214, 6.1).
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return IsPublic(netip.AddrFrom4([4]byte(b[12:])))
	}
	return true
}

func isInBlocks(ip netip.Addr, blocks string) bool {
	for block := range strings.FieldsSeq(blocks) {
		if netip.MustParsePrefix(block).Contains(ip) {
			return true
		}
	}
	return false
}

var (
	global6   = netip.MustParsePrefix("2000::/3")     // RFC 4291, section 2.4
	nat64     = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour = netip.MustParsePrefix("2002::/16")    // RFC 3056
)

// Blocks that are not routed, or only within one network.
const (
	special4 = "0.0.0.0/8 100.64.0.0/10 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4"
	special6 = "2001::/23 2001:db8::/32 3fff::/20" // the first includes Teredo
)

// HostPort returns the host of an address with the port of its scheme.
func HostPort(u *url.URL) string {
	port := map[string]string{"http": ":80", "ssh": ":22"}[u.Scheme]
	if u.Port() != "" {
		port = ""
	}
	return u.Host + port
}
