// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// inProcess sends requests to a handler in this process. Bodies are piped, never held in memory.
type inProcess struct{ handler http.Handler }

// RoundTrip returns as soon as the handler has written its header.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	body := r.Body
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	in.Host = r.URL.Host
	in.RemoteAddr = "127.0.0.1:0"
	if body == nil {
		in.Body = http.NoBody
	}
	pr, pw := io.Pipe()
	w := &pipeWriter{
		header: make(http.Header), body: pw, done: make(chan struct{}), head: r.Method == http.MethodHead,
		response: &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, Body: pr},
	}
	stop := context.AfterFunc(r.Context(), func() { _ = pr.CloseWithError(r.Context().Err()) })
	var running sync.WaitGroup
	running.Go(func() {
		defer stop()
		err := t.serveInProcess(w, in)
		if body != nil {
			_ = body.Close() // it was only read
		}
		_ = pw.CloseWithError(err) // nil: the body ends normally
	})
	select {
	case <-w.done:
		return w.response, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// serveInProcess calls the handler. A panic ends this request, not the process, as in net/http.
func (t inProcess) serveInProcess(w *pipeWriter, r *http.Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("registry handler: %v", p)
			w.WriteHeader(http.StatusInternalServerError)
		}
	}()
	t.handler.ServeHTTP(w, r)
	w.WriteHeader(http.StatusOK)
	return nil
}

// pipeWriter is a ResponseWriter within the process. Once done is closed, response is the client's.
type pipeWriter struct {
	header   http.Header
	body     *io.PipeWriter
	response *http.Response
	done     chan struct{}
	wrote    bool
	head     bool // the request is HEAD, so the answer has no body
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	if w.wrote || status < http.StatusOK {
		return
	}
	w.wrote = true
	w.response.StatusCode = status
	w.response.Status = http.StatusText(status)
	w.response.Header = w.header.Clone()
	if w.response.Header.Get("Date") == "" { // leases and the ledger use it as the clock
		w.response.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	w.response.ContentLength = -1
	if n, err := strconv.ParseInt(w.header.Get("Content-Length"), 10, 64); err == nil {
		w.response.ContentLength = n
	}
	if w.head {
		w.response.Body = http.NoBody
	}
	close(w.done)
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.head {
		return len(p), nil
	}
	return w.body.Write(p)
}

// maxRequests bounds concurrent requests to the registry that move no blob; downloads delay none.
const maxRequests = 64

// newLimited bounds requests by maxRequests. Others wait until one ends, or their context does.
func newLimited(base http.RoundTripper) http.RoundTripper {
	return &limited{base, make(chan struct{}, maxRequests)}
}

type limited struct {
	base  http.RoundTripper
	slots chan struct{}
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	switch operationOf(r.URL.Path) {
	case "manifests", "tags", "referrers":
	default:
		return l.base.RoundTrip(r)
	}
	select {
	case l.slots <- struct{}{}:
	case <-r.Context().Done():
		if r.Body != nil {
			_ = r.Body.Close() // the contract of RoundTrip requires it
		}
		return nil, fmt.Errorf("wait for one of %d requests to end: %w", maxRequests, r.Context().Err())
	}
	free := sync.OnceFunc(func() { <-l.slots })
	resp, err := l.base.RoundTrip(r)
	if err != nil {
		free()
		return nil, err
	}
	resp.Body = &limitedBody{resp.Body, free}
	return resp, nil
}

// limitedBody releases its place when it has been read to the end or closed.
type limitedBody struct {
	io.ReadCloser
	free func()
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.free()
	}
	return n, err
}

func (b *limitedBody) Close() error {
	b.free()
	return b.ReadCloser.Close()
}
