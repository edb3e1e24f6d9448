// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Options configure a [Server].
type Options struct {
	Addr    string // "host:port"; port 0 takes a free port
	Handler http.Handler

	TLSCert, TLSKey string      // PEM files; both or neither
	TLS             *tls.Config // instead of the files; nil: plain http

	// Logger gets one record per request; nil: no log.
	Logger *slog.Logger
	// Tracer gets one span per request; nil: no spans.
	Tracer trace.TracerProvider
	// ShutdownGrace is how long connections are accepted after the context's end; zero: not at all.
	ShutdownGrace time.Duration
	// Drain is how long requests may take after that, before they are cut; zero: 10 minutes.
	Drain time.Duration
}

const (
	maxHeader     = 32 << 10
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// maxStreams is RFC 9113's recommended minimum (6.5.2); the tools send one request at a time.
	maxStreams   = 100
	defaultDrain = 10 * time.Minute
	// firstRequest is how long a new connection has for a request once the server stops.
	firstRequest = time.Second
)

// Server is a listener with a handler behind it.
type Server struct {
	listener net.Listener
	server   *http.Server
	secure   bool // the server's TLSConfig does not tell, since net/http fills it in
	fresh    *fresh
	o        Options
}

// Listen opens the port before [Server.Serve] answers.
func Listen(o Options) (*Server, error) {
	config, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", o.Addr, err)
	}
	return newServer(l, config, o), nil
}

// ListenUnix opens a socket for this user alone, in place of an old one, without Addr and TLS.
func ListenUnix(file string, o Options) (*Server, error) {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen on %s: %w", file, err)
	}
	l, err := net.Listen("unix", file)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", file, err)
	}
	if err := os.Chmod(file, 0o600); err != nil { // the socket cannot be opened with a mode
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", file, err), l.Close())
	}
	return newServer(l, nil, o), nil
}

func newServer(l net.Listener, config *tls.Config, o Options) *Server {
	if o.Drain <= 0 {
		o.Drain = defaultDrain
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	f := new(fresh)
	return &Server{listener: l, o: o, secure: config != nil, fresh: f, server: &http.Server{
		ConnState:         f.noteState,
		Handler:           logRequests(limitBodies(o.Handler), o.Logger, newTracer(o.Tracer)),
		TLSConfig:         config,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             http2Limits(),
		// net/http reports errors of single connections here, most of them handshakes
		// that a client gave up.
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}}
}

// http2Limits sets what net/http leaves unbounded. It bounds headers by MaxHeaderBytes, handlers by
// streams and queued ones by four times that (CVE-2023-44487), queued answers to control frames by
// 10 000, the preface by 10 s, a connection without streams by IdleTimeout.
func http2Limits() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReceiveBufferPerConnection: 1 << 20,
		MaxReceiveBufferPerStream:     256 << 10,
		WriteByteTimeout:              stallTimeout, // for a connection on which the client reads nothing
		SendPingTimeout:               stallTimeout, // for a connection whose client has vanished
	}
}

// tlsConfig returns nil for plain http.
func (o Options) tlsConfig() (*tls.Config, error) {
	if o.TLS != nil {
		return o.TLS, nil
	}
	if o.TLSCert == "" && o.TLSKey == "" {
		return nil, nil
	}
	if o.TLSCert == "" || o.TLSKey == "" {
		return nil, errors.New("TLS certificate and key must be set together")
	}
	cert, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("load the TLS certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}

// Addr returns the "host:port" of the listener.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the server's address for use on this machine: a wildcard becomes localhost.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		host = s.Addr()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http"
	if s.secure {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// Serve answers until the context is done, then ends gracefully; nil: all were answered.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.accept() }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	grace := time.NewTimer(s.o.ShutdownGrace)
	defer grace.Stop()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", s.Addr(), err)
	case <-grace.C:
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Drain)
	defer cancel()
	// net/http waits 5 s for the first request of a new connection, which is longer than
	// some values of Drain.
	defer time.AfterFunc(min(firstRequest, s.o.Drain/2), s.fresh.close).Stop()
	if err := s.server.Shutdown(drain); err != nil {
		return errors.Join(fmt.Errorf("stop serving on %s: requests still running after %s were cut off", s.Addr(), s.o.Drain), s.server.Close())
	}
	return nil
}

// fresh holds the connections that have sent nothing yet.
type fresh struct{ conns sync.Map }

func (f *fresh) noteState(c net.Conn, state http.ConnState) {
	if state == http.StateNew {
		f.conns.Store(c, nil)
	} else {
		f.conns.Delete(c)
	}
}

func (f *fresh) close() {
	f.conns.Range(func(c, _ any) bool {
		_ = c.(net.Conn).Close() // no request waits on the connection that could get the error
		return true
	})
}

func (s *Server) accept() error {
	if s.secure {
		return s.server.ServeTLS(s.listener, "", "")
	}
	return s.server.Serve(s.listener)
}
