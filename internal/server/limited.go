// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// maxPerHost bounds the requests to one registry that move no blob. Downloads
// have their own bound, so that slow clients do not keep metadata waiting.
const maxPerHost = 64

// newLimited bounds the requests to each registry that are under way at one moment
// to 64, blobs not counted. What is more waits its turn, as long as whoever asks
// for it does.
func newLimited(base http.RoundTripper) http.RoundTripper {
	return &limited{base: base, hosts: map[string]chan struct{}{}}
}

type limited struct {
	base http.RoundTripper

	mu    sync.Mutex // guards hosts
	hosts map[string]chan struct{}
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	switch operationOf(r.URL.Path) {
	case "manifests", "tags", "referrers":
	default:
		return l.base.RoundTrip(r)
	}
	slots := l.slots(r.URL.Host)
	select {
	case slots <- struct{}{}:
	case <-r.Context().Done():
		if r.Body != nil {
			_ = r.Body.Close() // as the contract of RoundTrip wants
		}
		return nil, fmt.Errorf("wait for one of %d requests to end: %w", maxPerHost, r.Context().Err())
	}
	free := sync.OnceFunc(func() { <-slots })
	resp, err := l.base.RoundTrip(r)
	if err != nil {
		free()
		return nil, err
	}
	resp.Body = &limitedBody{resp.Body, free}
	return resp, nil
}

func (l *limited) slots(host string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	slots := l.hosts[host]
	if slots == nil {
		slots = make(chan struct{}, maxPerHost)
		l.hosts[host] = slots
	}
	return slots
}

// limitedBody frees its place when it has been read or closed.
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
