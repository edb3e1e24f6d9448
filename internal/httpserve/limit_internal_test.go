// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener without a network, whose connections a synctest bubble
// can wait for.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// serveInBubble runs a server until the test ends and returns a connection to it.
func serveInBubble(t *testing.T, h http.Handler) net.Conn {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := newServer(l, nil, Options{Handler: h})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return l.dial()
}

// TestTimes shows how long a connection lives on which nothing happens. The
// clock is that of the bubble.
func TestTimes(t *testing.T) {
	const body = " HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nfour"
	for _, test := range []struct {
		name, send string
		want       time.Duration
	}{
		{"half a header", "GET / HTTP/1.1\r\nHost:", headerTimeout},
		{"half a body", "PUT /read" + body, stallTimeout},
		{"half a body that nobody reads", "PUT /" + body, leftTimeout},
		{"idle", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", idleTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := serveInBubble(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/read" {
						return
					}
					if _, err := io.Copy(io.Discard, r.Body); err == nil {
						t.Error("half a body was read without an error")
					}
				}))
				fmt.Fprint(c, test.send)
				start := time.Now()
				if _, err := io.Copy(io.Discard, c); err != nil {
					t.Error(err)
				}
				if got := time.Since(start).Round(time.Second); got != test.want {
					t.Errorf("the connection lived for %v, want %v", got, test.want)
				}
			})
		})
	}
}

// TestSlow sends and fetches for hours, slower than any limit for the whole
// could allow (row 16).
func TestSlow(t *testing.T) {
	const pieces = 300
	synctest.Test(t, func(t *testing.T) {
		c := serveInBubble(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n, err := io.Copy(io.Discard, r.Body); err != nil || n != pieces {
				t.Errorf("%d bytes of the body, %v", n, err)
			}
			for range pieces {
				_, _ = w.Write(make([]byte, 1<<10)) // the client sees the length
			}
		}))
		fmt.Fprintf(c, "PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", pieces)
		for range pieces {
			time.Sleep(stallTimeout - time.Second)
			fmt.Fprint(c, "x")
		}
		resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		for err == nil {
			var n int64
			time.Sleep(stallTimeout)
			n, err = io.CopyN(io.Discard, resp.Body, 1<<10)
			got += n
		}
		if err != io.EOF || got != pieces<<10 {
			t.Errorf("%d bytes arrived, %v, want %d", got, err, pieces<<10)
		}
	})
}
