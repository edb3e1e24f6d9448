// SPDX-License-Identifier: Apache-2.0

package ocitest

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"sync"
)

// Twice sends a request a second time, as a network may. It returns the first response.
func Twice(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	again, err := keepRequest(r)
	if err != nil {
		return nil, err
	}
	resp, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	sendAndDiscard(again, next)
	return resp, nil
}

// Late delivers the first, lost, request before the fourth, or at deliver; use it with Times: -1.
func Late() (act Act, deliver func()) {
	l := &lateRequest{}
	return l.do, l.deliver
}

type lateRequest struct {
	mu   sync.Mutex // guards the fields below
	seen int
	held *http.Request
	next http.RoundTripper
}

func (l *lateRequest) do(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	l.mu.Lock()
	l.seen++
	n := l.seen
	l.mu.Unlock()
	switch n {
	case 1:
		held, err := keepRequest(r)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		l.held = held
		l.next = next
		l.mu.Unlock()
		return FailBefore(r, next)
	case 4:
		l.deliver()
	}
	return next.RoundTrip(r)
}

func (l *lateRequest) deliver() {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	if held != nil {
		sendAndDiscard(held, l.next)
	}
}

// keepRequest returns a copy of a request that can be sent after the context of r ends.
func keepRequest(r *http.Request) (*http.Request, error) {
	c := r.Clone(context.WithoutCancel(r.Context()))
	if r.Body == nil || r.Body == http.NoBody {
		return c, nil
	}
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.Body = io.NopCloser(bytes.NewReader(body))
	return c, err
}

func sendAndDiscard(r *http.Request, next http.RoundTripper) {
	if resp, err := next.RoundTrip(r); err == nil {
		resp.Body.Close()
	}
}

// Through returns a server that answers as a transport does, failures by breaking.
func Through(t http.RoundTripper) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.URL.Scheme = "http"
		out.URL.Host = r.Host
		out.RequestURI = ""
		resp, err := t.RoundTrip(out)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body) // the client is gone
	})
}
