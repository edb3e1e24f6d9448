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

// TransportOptions configure [Transport]; zero trusts the system's certificates.
type TransportOptions struct {
	CAFile     string // PEM, trusted in addition to the system's
	ClientCert string // PEM files; both or neither
	ClientKey  string
	Insecure   bool // accept any certificate
	// CertDirs have HOST[:PORT] folders, as Docker's: *.crt to trust, NAME.cert and NAME.key to show.
	CertDirs []string
	// Dial connects to the host, or to a proxy if one is used; nil: the default dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Direct uses no proxy, even if the environment names one.
	Direct bool
	// Wrap is put around the transport; nil: nothing.
	Wrap func(http.RoundTripper) http.RoundTripper
}

const (
	// idlePerHost keeps connections of a wide push for the next batch.
	idlePerHost = 64
	ioBuffer    = 64 << 10
	// idleOut is less than others allow (60 s and more): a write must not meet a closing
	// connection.
	idleOut = 45 * time.Second
	// answerTimeout is for servers that do not answer; registries take minutes for a large upload.
	answerTimeout = 10 * time.Minute
)

// Transport returns the transport of all outgoing requests: connections are pooled, the
// environment's proxies used but for loopback hosts, and each request is a span.
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
	if o.Wrap == nil {
		return Traced(hosts), nil
	}
	return o.Wrap(Traced(hosts)), nil
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

// proxyFor is http.ProxyFromEnvironment without loopback hosts in any spelling.
func proxyFor(r *http.Request) (*url.URL, error) {
	if netaddr.IsLoopback(r.URL.Host) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// traced and queryBack cut the query off around otelhttp, which records the whole URL.
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
