// SPDX-License-Identifier: Apache-2.0

package ocitest

import (
	"net"
	"net/http"
	"testing"
)

// OneConn serves h on an in-memory connection without buffer, and returns the client's end.
func OneConn(t testing.TB, h http.Handler) net.Conn {
	t.Helper()
	l := oneConn{conns: make(chan net.Conn, 1)}
	server := &http.Server{Handler: h}
	here, there := net.Pipe()
	l.conns <- there
	close(l.conns)
	_ = server.Serve(l) // returns as soon as the one connection is accepted
	t.Cleanup(func() { _ = server.Close() })
	return here
}

// oneConn is a listener for one connection.
type oneConn struct {
	net.Listener
	conns chan net.Conn
}

func (l oneConn) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l oneConn) Close() error   { return nil }
func (l oneConn) Addr() net.Addr { return &net.UnixAddr{} }
