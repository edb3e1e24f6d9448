// SPDX-License-Identifier: Apache-2.0

package netaddr_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/netaddr"
)

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:5000": true, "r.localhost:80": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]:5000": true, "[::1]": true, "::1": true, "::ffff:127.0.0.1": true,
		"localhost.example.com": false, "10.0.0.1": false, "registry.example.com:5000": false, "127.0.0.1.example.com": false, "": false, ":8080": false, "0.0.0.0": false, "::": false,
	} {
		if got := netaddr.IsLoopback(host); got != want {
			t.Errorf("IsLoopback(%q) = %v", host, got)
		}
	}
}

func TestParseServer(t *testing.T) {
	for s, want := range map[string]string{
		"okara.example.com": "https://okara.example.com", "https://okara.example.com/": "https://okara.example.com",
		"http://127.0.0.1:8080": "http://127.0.0.1:8080", "https://h/base//": "https://h/base", "HTTPS://h": "https://h",
		"": "not the URL", "ftp://h": "scheme", "https://": "not the URL", "https://h?x": "no query", "https://h/#a": "no query", "https://me:hunter2@h": "not the URL", "https://h:port": "not the URL",
	} {
		u, err := netaddr.ParseServer(s)
		switch {
		case err == nil && u.String() != want:
			t.Errorf("%q: %s, want %s", s, u, want)
		case err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%q: %v, want %s", s, err, want)
		}
	}
}

// TestIsPublic checks every form in which an internal address can be embedded
// in another one.
//
// Shows: mistakes 20
func TestIsPublic(t *testing.T) {
	for ip, want := range map[string]bool{
		// IPv4.
		"8.8.8.8": true, "1.1.1.1": true, "100.63.255.255": true, "100.128.0.0": true, "172.32.0.1": true, "198.20.0.1": true,
		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "100.64.0.1": false, "100.127.255.255": false, "127.0.0.1": false, "127.255.255.254": false,
		"169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false, "192.0.0.192": false, "192.0.2.1": false, "192.88.99.1": false,
		"192.168.0.1": false, "198.18.0.1": false, "198.51.100.1": false, "203.0.113.1": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false,
		// IPv6.
		"2606:4700::1111": true, "2a00:1450::1": true, "2001:4860:4860::8888": true,
		"::": false, "::1": false, "100::1": false, "2001:db8::1": false, "3fff::1": false, "4000::1": false, "5f00::1": false,
		"fc00::1": false, "fd00:ec2::254": false, "fe80::1": false, "fe80::1%eth0": false, "fec0::1": false, "ff02::1": false,
		// IPv4 in IPv6: mapped, compatible, translated (SIIT), NAT64, 6to4, Teredo, ISATAP.
		"::ffff:8.8.8.8": true, "::ffff:127.0.0.1": false, "::ffff:7f00:1": false, "::ffff:169.254.169.254": false,
		"::8.8.8.8": false, "::127.0.0.1": false,
		"::ffff:0:7f00:1": false, "::ffff:0:a9fe:a9fe": false, "::ffff:0:808:808": false,
		"64:ff9b::808:808": true, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b::a00:1": false, "64:ff9b::6440:1": false, "64:ff9b:1::808:808": false,
		"2002:808:808::1": true, "2002:7f00:1::": false, "2002:a9fe:a9fe::1": false, "2002:a00:1::1": false,
		"2001::1": false, "2001:0:7f00:1::": false,
		"2606:4700::5efe:808:808": true, "2606:4700::5efe:7f00:1": false, "2606:4700::200:5efe:a00:1": false,
	} {
		must.Equal(t, ip+": public", netaddr.IsPublic(netip.MustParseAddr(ip)), want)
	}
	if netaddr.IsPublic(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// TestInternalHost has the spellings that a proxy would resolve.
//
// Shows: mistakes 20
func TestInternalHost(t *testing.T) {
	for host, want := range map[string]bool{
		"registry.example.com": false, "8.8.8.8": false, "8.8.8.8.": false, "2606:4700::1111": false, "0x.example": false, "a.b1": false, "0xyz": false, "xn--0x": false,
		"127.0.0.1": true, "127.0.0.1.": true, "127.1": true, "2130706433": true, "0177.0.0.1": true, "0x7f000001": true, "0x7F.1": true, "127.0.0.0x1": true, "0x": true,
		"::1": true, "fe80::1%eth0": true, "localhost": true, "LOCALHOST.": true, "a.localhost": true, "": true, ".": true,
	} {
		must.Equal(t, host+": internal", netaddr.IsInternal(host), want)
	}
}
