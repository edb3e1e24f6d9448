// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// guarded is a client as a server makes it for users' origins.
func guarded(private ...string) *http.Client {
	g := upstream.NewGuard(private)
	return g.Client(&http.Transport{DialContext: g.Dial})
}

// TestGuardRefusesPrivateAddresses has each form of an address that is not public.
//
// Shows: registries 23 | requests to internal addresses | artifact-keeper#2094
func TestGuardRefusesPrivateAddresses(t *testing.T) {
	for name, host := range map[string]string{
		"loopback":             "127.0.0.1:1",
		"loopback, IPv6":       "[::1]:1",
		"loopback in IPv6":     "[::ffff:127.0.0.1]:1",
		"a name of loopback":   "localhost:1",
		"unspecified":          "0.0.0.0:1",
		"private":              "10.1.2.3:1",
		"private, 172":         "172.16.0.1:1",
		"private, 192":         "192.168.0.1:1",
		"unique local":         "[fd00:ec2::254]:1",
		"metadata of a cloud":  "169.254.169.254",
		"link-local, IPv6":     "[fe80::1]:1",
		"carrier":              "100.64.0.1:1",
		"multicast":            "224.0.0.1:1",
		"broadcast":            "255.255.255.255:1",
		"IPv4 behind NAT64":    "[64:ff9b::a9fe:a9fe]:1",
		"IPv4 in 6to4":         "[2002:a9fe:a9fe::1]:1",
		"IPv4-compatible IPv6": "[::127.0.0.1]:1",
		"IPv4-translated IPv6": "[::ffff:0:7f00:1]:1",
	} {
		t.Run(name, func(t *testing.T) {
			r := &upstream.Registry{Client: &upstream.Client{HTTP: guarded("registry.example.com")}}
			_, err := r.Versions(t.Context(), addr.Provider{Hostname: host, Namespace: "acme", Type: "dns"})
			if !errors.Is(err, oci.ErrDenied) {
				t.Errorf("%s: %v, want it refused", host, err)
			}
			if _, _, err := net.SplitHostPort(host); err != nil {
				host = net.JoinHostPort(host, "443")
			}
			// The address of a resolved name.
			if _, err := upstream.NewGuard(nil).Dial(t.Context(), "tcp", host); !errors.Is(err, oci.ErrDenied) {
				t.Errorf("dial %s: %v, want it refused", host, err)
			}
		})
	}
}

func TestGuardExemptsListedHosts(t *testing.T) {
	u := origin(t)
	_, port := must.GetBoth(net.SplitHostPort(u.Host))(t)
	for listed, want := range map[string]error{
		u.Host:              nil,
		"127.0.0.1":         nil,
		"127.0.0.1:1":       oci.ErrDenied,
		"localhost:" + port: oci.ErrDenied,
	} {
		c := &upstream.Client{HTTP: guarded(listed), Token: func(string) string { return "secret" }}
		r := &upstream.Registry{Client: c, Base: u.JoinPath("/p/")}
		_, err := r.Versions(t.Context(), addr.Provider{Hostname: "example.com", Namespace: "acme", Type: "dns"})
		if !errors.Is(err, want) {
			t.Errorf("listed %s: %v, want %v", listed, err, want)
		}
	}
}

// TestGuardChecksRedirects redirects from a listed origin to others.
func TestGuardChecksRedirects(t *testing.T) {
	asked := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	t.Cleanup(inside.Close)
	for name, test := range map[string]struct {
		to   string
		want error
	}{
		"another port of this machine": {inside.URL, oci.ErrDenied},
		"metadata of a cloud":          {"https://169.254.169.254/latest/meta-data/", oci.ErrDenied},
		"no https":                     {"http://registry.example.com/", oci.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			listed := httptest.NewServer(http.RedirectHandler(test.to, http.StatusFound))
			t.Cleanup(listed.Close)
			host := listed.Listener.Addr().String()
			r := &upstream.Registry{Client: &upstream.Client{HTTP: guarded(host)}}
			_, err := r.Versions(t.Context(), addr.Provider{Hostname: host, Namespace: "acme", Type: "dns"})
			if !errors.Is(err, test.want) || asked {
				t.Errorf("got %v, want %v; asked: %v", err, test.want, asked)
			}
		})
	}
}
