// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// serveMetrics serves /metrics at addr, if set, until stop is called, after a shutdown.
func serveMetrics(ctx context.Context, addr string, m *Metrics, debug *slog.Logger, names ...string) (url string, stop func() error, err error) {
	if addr == "" {
		return "", func() error { return nil }, nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	srv, err := httpserve.Listen(httpserve.Options{Addr: addr, Handler: access.Local(mux, names...), Logger: debug})
	if err != nil {
		return "", nil, err
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	var served error
	running.Go(func() { served = srv.Serve(ctx) })
	return srv.URL() + "/metrics", func() error { end(); running.Wait(); return served }, nil
}

// listen opens the port. ca is the file of the local CA, "" without one.
func (s *Settings) listen(h http.Handler, env Env) (srv *httpserve.Server, ca string, err error) {
	ca, certificate, err := s.certificate()
	if err != nil {
		return nil, "", err
	}
	requests := env.Debug
	if s.AccessLog {
		requests = env.Log
	}
	srv, err = httpserve.Listen(httpserve.Options{
		Addr: s.Listen, Handler: h, TLSCert: s.TLS.Cert, TLSKey: s.TLS.Key, TLS: certificate,
		Logger: requests, Tracer: env.Tracer, ShutdownGrace: s.grace(), Drain: s.Drain.Value(),
	})
	return srv, ca, err
}

// checkFiles requires cert and key, or self_signed, or neither.
func (t *TLS) checkFiles() error {
	switch {
	case t.Range.Filename != "" && ((t.Cert == "") != (t.Key == "") || t.SelfSigned == (t.Cert != "")):
		return syntax.WrongAt(t.Range, errors.New("tls needs cert and key, or self_signed = true"))
	case (t.Cert == "") != (t.Key == ""):
		return &syntax.SettingError{Err: errors.New("--tls-cert and --tls-key must be set together")}
	case t.SelfSigned && t.Cert != "":
		return &syntax.SettingError{Err: errors.New("--tls-self-signed creates its own certificate; omit --tls-cert")}
	}
	return nil
}

// certificate returns the TLS configuration of a self-signed server, and its CA file.
func (s *Settings) certificate() (ca string, cfg *tls.Config, err error) {
	if err := s.TLS.checkFiles(); err != nil || !s.TLS.SelfSigned {
		return "", nil, err
	}
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if host, _, err := net.SplitHostPort(s.Listen); err == nil && host != "" && !netaddr.IsLoopback(host) {
		hosts = append(hosts, host)
	}
	if s.Hostname != "" {
		hosts = append(hosts, s.Hostname)
	}
	dir, err := filepath.Abs(filepath.Join(s.Storage, "tls"))
	if err != nil {
		return "", nil, err
	}
	return httpserve.SelfSigned(dir, hosts)
}

// grace returns how long to go on after a signal. No load balancer uses a loopback address.
func (s *Settings) grace() time.Duration {
	if s.Grace != "" {
		return s.Grace.Value()
	}
	if host, _, err := net.SplitHostPort(s.Listen); err == nil && netaddr.IsLoopback(host) {
		return 0
	}
	return 5 * time.Second
}
