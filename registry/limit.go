// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/service"
)

const (
	// openTimeout is how long the registry may take to begin with a blob, all
	// attempts included; what follows has no limit. Otherwise a registry that
	// hangs would soon have every place for a download.
	openTimeout = 30 * time.Second
	// maxStreams bounds the downloads that run at once.
	maxStreams = 512
	// maxHooks and maxLargeHooks bound the webhooks whose body is in memory.
	maxHooks, maxLargeHooks = 64, 8
	// maxPerHost bounds the requests to one registry that move no blob.
	// Downloads have their own bound, so that slow clients do not keep
	// metadata waiting.
	maxPerHost = 64
)

// answerWithin returns a context that ends with ctx, or after d unless answered
// is called before. answered gets the error of what was done and returns the one
// to report.
func answerWithin(ctx context.Context, d time.Duration) (_ context.Context, answered func(error) error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(d, cancel)
	return ctx, func(err error) error {
		if err == nil {
			late.Stop() // the context is that of the body now
			return nil
		}
		if !late.Stop() {
			err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
		}
		cancel()
		return err
	}
}

// readJSON reads the body of an authorised request, at most limit bytes.
func (s *server) readJSON(r *http.Request, limit int64, to any) error {
	if err := s.kit.OpenBody(r); err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return &service.Error{Status: http.StatusBadRequest, Text: fmt.Sprintf("the request broke off after %d bytes", len(body))}
	}
	if int64(len(body)) > limit {
		return &service.Error{Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("more than %d bytes", limit)}
	}
	if err := json.Unmarshal(body, to); err != nil {
		return unprocessable(fmt.Errorf("read the request: %w", err))
	}
	return nil
}

// Limited bounds the requests to each registry that are under way at one moment
// to 64, blobs not counted. What is more waits its turn, as long as whoever asks
// for it does.
func Limited(base http.RoundTripper) http.RoundTripper {
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
