// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-cleanhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/seed-141914ff/okara/internal/netaddr"
)

// TransportOptions configure [Transport]. The zero value trusts the system's
// certificates.
type TransportOptions struct {
	CAFile     string // PEM, trusted in addition to the system's
	ClientCert string // PEM files; both or neither
	ClientKey  string
	Insecure   bool // accept any certificate
	// CertDirs have a folder HOST[:PORT] for each host with its own certificates, as in
	// Docker's certs.d: *.crt to trust, NAME.cert and NAME.key to show to the server.
	CertDirs []string
	// Dial connects to the host, or to a proxy if one is used; nil: the default dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Direct uses no proxy, even if the environment names one.
	Direct bool
}

const (
	// idlePerHost keeps the connections of a wide push or of many parallel downloads for
	// the next batch instead of closing all but a few.
	idlePerHost = 64
	ioBuffer    = 64 << 10
	// idleOut is less than what load balancers and registries allow (60 s and
	// more), so that a write does not meet a connection that is being closed
	// and end with an unknown outcome.
	idleOut = 45 * time.Second
	// answerTimeout is for servers that accept a request and then do not answer.
	// Registries take minutes to finish a large upload.
	answerTimeout = 10 * time.Minute
)

// Transport returns the transport for all outgoing requests: it pools connections, uses
// the proxies of the environment except for loopback hosts, and makes one OpenTelemetry
// span per request.
func Transport(o TransportOptions) (http.RoundTripper, error) {
	config, err := o.clientTLS()
	if err != nil {
		return nil, err
	}
	t := cleanhttp.DefaultPooledTransport()
	t.TLSClientConfig = config
	t.Proxy = proxyFor
	if o.Direct {
		t.Proxy = nil
	}
	if o.Dial != nil {
		t.DialContext = o.Dial
	}
	t.MaxIdleConns = 4 * idlePerHost
	t.MaxIdleConnsPerHost = idlePerHost
	t.IdleConnTimeout = idleOut
	t.ReadBufferSize = ioBuffer
	t.WriteBufferSize = ioBuffer
	t.ResponseHeaderTimeout = answerTimeout
	hosts := &perHost{common: t, dirs: o.CertDirs, hosts: map[string]hostTransport{}}
	return Traced(hosts), nil
}

// Traced wraps next so that each request makes an OpenTelemetry span.
func Traced(next http.RoundTripper) http.RoundTripper {
	return traced{otelhttp.NewTransport(queryBack{next}), next}
}

func (o TransportOptions) clientTLS() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.Insecure} // Insecure is the user's explicit flag
	if o.CAFile != "" {
		if err := trustFile(c, o.CAFile); err != nil {
			return nil, fmt.Errorf("read the CA file: %w", err)
		}
	}
	if (o.ClientCert == "") != (o.ClientKey == "") {
		return nil, errors.New("client certificate and key must be set together")
	}
	if o.ClientCert != "" {
		cert, err := tls.LoadX509KeyPair(o.ClientCert, o.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("load the client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

// proxyFor is http.ProxyFromEnvironment without loopback hosts in any spelling: a facade on
// this machine is never behind a proxy.
func proxyFor(r *http.Request) (*url.URL, error) {
	if netaddr.IsLoopback(r.URL.Host) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// traced and queryBack surround otelhttp, which records the whole URL in its span: traced
// cuts the query off, queryBack restores it afterwards.
type traced struct {
	next http.RoundTripper // otelhttp around last
	last http.RoundTripper
}

// CloseIdleConnections is the method that http.Client looks for.
func (t traced) CloseIdleConnections() {
	if c, ok := t.last.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type realURL struct{} // the context key for the URL; its value is a *url.URL

func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	short := r.Clone(context.WithValue(r.Context(), realURL{}, r.URL))
	short.URL.RawQuery = ""
	short.URL.User = nil
	resp, err := t.next.RoundTrip(short)
	if resp != nil {
		resp.Request = r
	}
	return resp, err
}

type queryBack struct{ next http.RoundTripper }

func (q queryBack) RoundTrip(r *http.Request) (*http.Response, error) {
	if u, ok := r.Context().Value(realURL{}).(*url.URL); ok {
		r = r.Clone(r.Context())
		r.URL = u
	}
	return q.next.RoundTrip(r)
}
