// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/seed-141914ff/okara/internal/must"
)

// attacker speaks HTTP/2 in ways that no client does.
type attacker struct {
	*http2.Framer
	conn *tls.Conn
}

// newAttacker connects to a server and sends the preface and the settings.
func newAttacker(t *testing.T, h http.Handler, settings ...http2.Setting) attacker {
	t.Helper()
	_, config := must.GetBoth(SelfSigned(t.TempDir(), []string{"okara.test"}))(t)
	conn := tls.Client(servePipes(t, config, h).dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	a := attacker{http2.NewFramer(conn, conn), conn}
	a.AllowIllegalWrites = true
	must.Get(io.WriteString(conn, http2.ClientPreface))(t)
	must.Succeed(t, a.WriteSettings(settings...))
	return a
}

// request returns the header of a GET, with additional fields.
func request(fields ...hpack.HeaderField) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, f := range append([]hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "okara.test"}, {Name: ":path", Value: "/"}}, fields...) {
		_ = e.WriteField(f) // a buffer accepts every field
	}
	return b.Bytes()
}

// ask begins the i-th request of the connection.
func (a attacker) ask(i int, ends bool) error {
	return a.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: request(), EndStream: true, EndHeaders: ends})
}

// read reads the frames of the server until the connection ends, and passes each to seen.
func (a attacker) read(seen func(http2.Frame)) {
	for {
		f, err := a.ReadFrame()
		if err != nil {
			return
		}
		seen(f)
	}
}

// TestHTTP2Floods sends endlessly what costs the server more than the client. The
// connection is closed, and until then no more handlers run than streams are allowed.
//
// Shows: mistakes 21
func TestHTTP2Floods(t *testing.T) {
	const most = 64 << 20 // bytes that a server without a bound would read
	fragment := request(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 8<<10)})
	for name, test := range map[string]struct {
		deaf bool // the client reads nothing from the server
		send func(a attacker, i int) error
	}{
		"requests cancelled at once (CVE-2023-44487)": {send: func(a attacker, i int) error {
			return errors.Join(a.ask(i, true), a.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel))
		}},
		"continuations (CVE-2023-45288)": {send: func(a attacker, i int) error {
			if i == 0 {
				return a.ask(0, false)
			}
			return a.WriteContinuation(1, false, fragment)
		}},
		"pings whose answers are not taken":    {deaf: true, send: func(a attacker, i int) error { return a.WritePing(false, [8]byte{}) }},
		"settings whose answers are not taken": {deaf: true, send: func(a attacker, i int) error { return a.WriteSettings() }},
		"streams whose ends are not taken":     {deaf: true, send: func(a attacker, i int) error { return a.ask(i, true) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var running, peak atomic.Int64
				release := make(chan struct{})
				a := newAttacker(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					peak.Store(max(peak.Load(), running.Add(1)))
					defer running.Add(-1)
					<-release // even if the client has gone
				}))
				var reader sync.WaitGroup
				if !test.deaf {
					reader.Go(func() { a.read(func(http2.Frame) {}) })
				}
				sent, closed := 0, false
				for i := 0; sent < most && !closed; i++ {
					closed = test.send(a, i) != nil
					sent += 64
					if i%1000 == 999 {
						time.Sleep(time.Second) // of the bubble: a GOAWAY takes one, and the server waits for a client that does not read
					}
				}
				if !closed {
					t.Error("the connection was not closed")
				}
				if peak.Load() > maxStreams {
					t.Errorf("%d handlers at a time", peak.Load())
				}
				close(release)
				a.conn.Close()
				reader.Wait()
			})
		})
	}
}

// TestHTTP2Streams refuses a stream above the limit.
func TestHTTP2Streams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := newAttacker(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		refused := make(chan uint32, 10)
		var reader sync.WaitGroup
		reader.Go(func() {
			a.read(func(f http2.Frame) {
				if f, ok := f.(*http2.RSTStreamFrame); ok {
					refused <- f.StreamID
				}
			})
		})
		synctest.Wait()
		must.Succeed(t, a.WriteSettingsAck())
		for i := range maxStreams + 1 {
			must.Succeed(t, a.ask(i, true))
		}
		if got := <-refused; got != 2*maxStreams+1 {
			t.Errorf("stream %d was refused", got)
		}
		close(release)
		a.conn.Close()
		reader.Wait()
	})
}

// TestHTTP2Times shows how long clients last that send nothing, or read nothing.
func TestHTTP2Times(t *testing.T) {
	for name, test := range map[string]struct {
		window uint32 // of a stream
		deaf   bool
		send   func(a attacker) error
		want   time.Duration
	}{
		"no request":            {65535, false, func(attacker) error { return nil }, idleTimeout},
		"half a header":         {65535, false, func(a attacker) error { return a.ask(0, false) }, stallTimeout + 15*time.Second},
		"no window":             {0, false, func(a attacker) error { return a.ask(0, true) }, stallTimeout},
		"a connection not read": {1 << 30, true, func(a attacker) error { return a.ask(0, true) }, stallTimeout + 5*time.Second}, // closing TLS takes 5 s
		"no body": {65535, false, func(a attacker) error {
			return a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: request(), EndHeaders: true})
		}, stallTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				a := newAttacker(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, err := io.Copy(io.Discard, r.Body)
					if err == nil {
						_, err = w.Write(make([]byte, 1<<20))
					}
					ended <- err
				}), http2.Setting{ID: http2.SettingInitialWindowSize, Val: test.window})
				start := time.Now()
				var reader sync.WaitGroup
				if !test.deaf {
					reader.Go(func() {
						a.read(func(http2.Frame) {}) // pings are not answered
						ended <- nil
					})
				}
				must.Succeed(t, test.send(a))
				<-ended
				if got := time.Since(start); got > test.want {
					t.Errorf("ended after %s, want %s", got, test.want)
				}
				a.conn.Close()
				reader.Wait()
			})
		})
	}
}
