// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
)

// pipes is a listener with connections for a synctest bubble.
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
	return servePipes(t, nil, h).dial()
}

func servePipes(t *testing.T, config *tls.Config, h http.Handler) *pipes {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := newServer(l, config, Options{Handler: h})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return l
}

// TestTimes shows how long an idle connection lives. The clock is that of the bubble.
func TestTimes(t *testing.T) {
	const lingerTime = time.Second // half a second, rounded: net/http waits that long before it closes a connection with unread data
	const body = " HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nfour"
	for _, test := range []struct {
		name, send string
		want       time.Duration
	}{
		{"half a header", "GET / HTTP/1.1\r\nHost:", headerTimeout},
		{"half a body", "PUT /read" + body, stallTimeout},
		{"a body that drips", "PUT /read" + body, stallTimeout},
		{"half a body that nobody reads", "PUT /" + body, leftTimeout},
		{"a long body that nobody reads", "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nfour", lingerTime},
		{"a long body that is announced and nobody reads", "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n", 0},
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
				if strings.HasSuffix(test.name, "drips") {
					go func() {
						for range 2 {
							time.Sleep(stallTimeout / 3)
							fmt.Fprint(c, "x")
						}
					}()
				}
				if _, err := io.Copy(io.Discard, c); err != nil {
					t.Error(err)
				}
				must.Equal(t, "the connection lived for", time.Since(start).Round(time.Second), test.want)
			})
		})
	}
}

// TestSlow sends and fetches for hours, slower than any limit on the whole transfer could
// allow.
//
// Shows: registries 16
func TestSlow(t *testing.T) {
	const pieces = 300
	for name, write := range map[string]func(w http.ResponseWriter){
		"Write":       func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, pieces*pieceSize)) }, // the header has the length
		"WriteString": func(w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Repeat("x", pieces*pieceSize)) },
		"ReadFrom": func(w http.ResponseWriter) {
			_, _ = io.Copy(w, struct{ io.Reader }{bytes.NewReader(make([]byte, pieces*pieceSize))})
		},
		"a limited ReadFrom": func(w http.ResponseWriter) {
			_, _ = io.CopyN(w, struct{ io.Reader }{bytes.NewReader(make([]byte, 2*pieces*pieceSize))}, pieces*pieceSize)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := serveInBubble(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if n, err := io.Copy(io.Discard, r.Body); err != nil || n != pieces*minBody {
						t.Errorf("%d bytes of the body, %v", n, err)
					}
					write(w)
				}))
				fmt.Fprintf(c, "PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", pieces*minBody)
				for range pieces {
					time.Sleep(stallTimeout - time.Second)
					fmt.Fprint(c, strings.Repeat("x", minBody))
				}
				resp := must.Get(http.ReadResponse(bufio.NewReaderSize(c, 16), nil))(t)
				var got int64
				var err error
				for err == nil {
					var n int64
					time.Sleep(stallTimeout / 3)
					n, err = io.CopyN(io.Discard, resp.Body, pieceSize/2)
					got += n
				}
				if err != io.EOF || got != pieces*pieceSize {
					t.Errorf("%d bytes arrived, %v, want %d", got, err, pieces*pieceSize)
				}
			})
		})
	}
}

// TestStalledReader has clients that read nothing of their answers, or almost nothing:
// their requests end, whatever the handler does.
//
// Shows: mistakes 20 | a client that did not read its download kept its slot for ever; some
// spellings of loopback addresses passed the check | every answer has a deadline for each 64 KiB;
// of IPv6 only `2000::/3` is allowed, and an embedded address is checked itself
func TestStalledReader(t *testing.T) {
	long, text := make([]byte, 1<<20), strings.Repeat("x", 1<<20)
	for name, write := range map[string]func(w http.ResponseWriter) error{
		"Write":       func(w http.ResponseWriter) error { _, err := w.Write(long); return err },
		"WriteString": func(w http.ResponseWriter) error { _, err := io.WriteString(w, text); return err },
		"ReadFrom": func(w http.ResponseWriter) error {
			_, err := io.Copy(w, struct{ io.Reader }{bytes.NewReader(long)})
			return err
		},
		"Flush": func(w http.ResponseWriter) error {
			_, _ = io.WriteString(w, "few")
			return http.NewResponseController(w).Flush()
		},
	} {
		for _, take := range []int64{0, 16} { // bytes each second
			t.Run(fmt.Sprintf("%s, %d", name, take), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ended := make(chan error, 1)
					c := serveInBubble(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { ended <- write(w) }))
					start := time.Now()
					fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
					var client sync.WaitGroup
					client.Go(func() {
						for err := error(nil); err == nil && take > 0; time.Sleep(time.Second) {
							_, err = io.CopyN(io.Discard, c, take)
						}
					})
					if err := <-ended; (err == nil) != (name == "Flush" && take > 0) || time.Since(start) > stallTimeout {
						t.Errorf("ended with %v after %s", err, time.Since(start))
					}
					c.Close()
					client.Wait()
				})
			})
		}
	}
}
