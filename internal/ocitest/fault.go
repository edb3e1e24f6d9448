// SPDX-License-Identifier: Apache-2.0

package ocitest

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Fault is a transport that calls Do instead of sending the nth matching request.
type Fault struct {
	Base  http.RoundTripper        // nil: http.DefaultTransport
	Match func(*http.Request) bool // nil: every request
	Nth   int                      // the first that fails, counted from 1; 0 is 1
	Times int                      // how many fail from there on; 0 is 1, -1 all
	Do    Act

	mu   sync.Mutex // guards seen
	seen int
}

// Act answers a request instead of next, or by calling it.
type Act func(r *http.Request, next http.RoundTripper) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f *Fault) RoundTrip(r *http.Request) (*http.Response, error) {
	base := orDefault(f.Base)
	if f.Match != nil && !f.Match(r) {
		return base.RoundTrip(r)
	}
	f.mu.Lock()
	f.seen++
	first := max(f.Nth, 1)
	times := f.Times
	times = cmp.Or(times, 1)
	hit := f.seen >= first && (times < 0 || f.seen < first+times)
	f.mu.Unlock()
	if !hit {
		return base.RoundTrip(r)
	}
	return f.Do(r, base)
}

// Seen returns the number of matching requests so far.
func (f *Fault) Seen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func orDefault(t http.RoundTripper) http.RoundTripper {
	if t == nil {
		return http.DefaultTransport
	}
	return t
}

// FailBefore breaks the connection before the request arrives.
func FailBefore(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
	closeBody(r)
	return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
}

// FailAfter loses the response: the request takes effect.
func FailAfter(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	if _, _, err := readResponse(r, next); err != nil {
		return nil, err
	}
	return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
}

// readResponse sends the request and reads the whole response.
func readResponse(r *http.Request, next http.RoundTripper) (*http.Response, []byte, error) {
	resp, err := next.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// Refuse fails as if no process listens on the port.
func Refuse(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
	closeBody(r)
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// Status answers with a status, and Retry-After unless negative.
func Status(status, retryAfter int) Act {
	return func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		closeBody(r)
		h := http.Header{"Content-Type": {"application/json"}}
		if retryAfter >= 0 {
			h.Set("Retry-After", strconv.Itoa(retryAfter))
		}
		return newResponse(r, status, h, `{"errors":[{"code":"UNKNOWN","message":"made for a test"}]}`), nil
	}
}

// StatusAfter returns an act that lets the request take effect and answers with a status.
func StatusAfter(status int) Act {
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if _, _, err := readResponse(r, next); err != nil {
			return nil, err
		}
		return newResponse(r, status, http.Header{}, ""), nil
	}
}

// Respond returns an act that answers 200 with a body of a content type.
func Respond(contentType, body string) Act {
	return func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		closeBody(r)
		return newResponse(r, http.StatusOK, http.Header{"Content-Type": {contentType}}, body), nil
	}
}

// CutBody breaks off the response body in its middle.
func CutBody(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, body, err := readResponse(r, next)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), brokenReader{}))
	return resp, nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Corrupt changes one byte in the middle of the response body.
func Corrupt(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, body, err := readResponse(r, next)
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		body[len(body)/2] ^= 1
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// Hang waits until the request is cancelled.
func Hang(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
	closeBody(r)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// Slow returns an act that waits before it sends.
func Slow(d time.Duration) Act {
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return next.RoundTrip(r)
		case <-r.Context().Done():
			closeBody(r)
			return nil, r.Context().Err()
		}
	}
}

// Stale repeats the first response, like a cache that never updates; use it with Times: -1.
func Stale() Act {
	var mu sync.Mutex // guards kept
	kept := map[string]*http.Response{}
	bodies := map[string][]byte{}
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Method + " " + r.URL.String()
		if kept[key] == nil {
			resp, body, err := readResponse(r, next)
			if err != nil {
				return nil, err
			}
			kept[key] = resp
			bodies[key] = body
		}
		resp := *kept[key]
		resp.Header = resp.Header.Clone()
		resp.Body = io.NopCloser(bytes.NewReader(bodies[key]))
		resp.Request = r
		return &resp, nil
	}
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

func newResponse(r *http.Request, status int, h http.Header, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Request: r,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// On matches a method and kind ("": any): tags, manifest, blob, upload, referrers, ping, token.
func On(method, kind string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return (method == "" || r.Method == method) && (kind == "" || parsePlace(r.URL.Path).kind == kind)
	}
}

// OnTag matches requests for manifests by tag, of any method if that is "".
func OnTag(method string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		p := parsePlace(r.URL.Path)
		return (method == "" || r.Method == method) && p.kind == "manifest" && !p.digest()
	}
}

// Count counts requests by "METHOD kind", with the kinds of [On].
type Count struct {
	Base http.RoundTripper // nil: http.DefaultTransport

	mu sync.Mutex // guards n
	n  map[string]int
}

// RoundTrip implements http.RoundTripper.
func (c *Count) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[r.Method+" "+parsePlace(r.URL.Path).kind]++
	c.mu.Unlock()
	return orDefault(c.Base).RoundTrip(r)
}

// Take returns the counts since the last Take and starts again at zero.
func (c *Count) Take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := maps.Clone(c.n)
	if n == nil {
		n = map[string]int{}
	}
	c.n = nil
	return n
}

// Total returns the sum of the counts of [Count.Take] without resetting them.
func (c *Count) Total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := 0
	for _, n := range c.n {
		sum += n
	}
	return sum
}
