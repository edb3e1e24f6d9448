// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/oci"
)

// oneConn is a listener for one connection in memory, which holds no byte that
// its reader has not taken.
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

// sent delivers a source to a client that takes 64 KiB at a time and pauses
// after each, and returns what it got.
func sent(t *testing.T, src *source, pause time.Duration) ([]byte, error) {
	t.Helper()
	l := oneConn{conns: make(chan net.Conn, 1)}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/zip")
		http.ServeContent(newSender(w, r, stallTimeout), r, "", time.Time{}, src)
	})}
	here, there := net.Pipe()
	l.conns <- there
	close(l.conns)
	_ = server.Serve(l) // returns as soon as the one connection is accepted
	defer server.Close()
	if _, err := io.WriteString(here, "GET / HTTP/1.1\r\nHost: okara.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(here), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	var got bytes.Buffer
	for {
		time.Sleep(pause)
		if _, err := io.CopyN(&got, resp.Body, pieceSize); err != nil {
			if errors.Is(err, io.EOF) && int64(got.Len()) == resp.ContentLength {
				err = nil
			}
			return got.Bytes(), err
		}
	}
}

// TestSlowReader has a client that needs an hour and gets every byte, however
// they are sent, and one that stalls.
func TestSlowReader(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 256<<10)
	d := oci.Descriptor{Digest: digest.FromBytes(content), Size: int64(len(content))}
	file := filepath.Join(t.TempDir(), "blob")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]func() *source{
		"memory": func() *source { return &source{ctx: t.Context(), d: d, small: content} },
		"file":   func() *source { return &source{ctx: t.Context(), d: d, file: mustOpen(file)} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := from()
				defer src.Close()
				start := time.Now()
				got, err := sent(t, src, stallTimeout-time.Second)
				if err != nil || !bytes.Equal(got, content) {
					t.Errorf("%d of %d bytes, %v", len(got), len(content), err)
				}
				if took := time.Since(start); took < time.Hour {
					t.Errorf("it took only %s", took)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				src := from()
				defer src.Close()
				if got, err := sent(t, src, 3*stallTimeout); err == nil {
					t.Errorf("a stalled client was waited for; it got %d bytes", len(got))
				}
			})
		})
	}
}

// TestStalledMetadata has clients who hold a place: one takes nothing of a long
// answer, others do not send the body of which nothing is known. One that takes
// an answer slowly gets it.
func TestStalledMetadata(t *testing.T) {
	const answer = 1 << 20
	for _, test := range []struct {
		name, send string
		take       int64 // each second
		want       time.Duration
	}{
		{"takes nothing", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 0, metadataTimeout},
		{"takes too little", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1 << 10, metadataTimeout},
		{"is slow", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 16 << 10, 64 * time.Second},
		{"sends half a small body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nfour", answer, bodyTimeout},
		{"sends half a large body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\nfour", answer, metadataTimeout},
		{"sends half a chunk", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nfour", answer, metadataTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{access: &access.Guard{}, busy: newPlaces(2)}
				left := make(chan time.Duration, 1)
				start := time.Now()
				limited := s.limit(func(w http.ResponseWriter, r *http.Request) error {
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						return err
					}
					_, err := w.Write(make([]byte, answer))
					return err
				})
				l := oneConn{conns: make(chan net.Conn, 1)}
				web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_ = limited(w, r) // as others see it
					left <- time.Since(start)
				})}
				here, there := net.Pipe()
				l.conns <- there
				close(l.conns)
				_ = web.Serve(l) // returns as soon as the one connection is accepted
				defer web.Close()
				if _, err := io.WriteString(here, test.send); err != nil {
					t.Fatal(err)
				}
				var client sync.WaitGroup
				client.Go(func() {
					for err := error(nil); err == nil && test.take > 0; time.Sleep(time.Second) {
						_, err = io.CopyN(io.Discard, here, test.take)
					}
				})
				if got := (<-left).Truncate(2 * time.Second); got != test.want || s.busy.taken != 0 {
					t.Errorf("the place was held for %s, want %s; %d are taken", got, test.want, s.busy.taken)
				}
				here.Close()
				client.Wait()
			})
		})
	}
}

func mustOpen(name string) *os.File {
	f, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	return f
}
