// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"sync"
)

// Bounds of what conditionalTransport keeps: a page of 100 tags has 60 KiB.
const (
	maxKeptBody = 1 << 20
	maxKept     = 4096
)

// conditionalTransport asks for a JSON list it has seen before with its ETag,
// and answers 304 with the kept body.
type conditionalTransport struct {
	next http.RoundTripper // nil: http.DefaultTransport

	mu   sync.Mutex // guards kept
	kept map[string]keptAnswer
}

type keptAnswer struct {
	etag   string
	header http.Header
	body   []byte
}

func (t *conditionalTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	next := t.next
	if next == nil {
		next = http.DefaultTransport
	}
	if req.Method != http.MethodGet {
		return next.RoundTrip(req)
	}
	// Two tokens may see different lists.
	key := req.Header.Get("Authorization") + " " + req.URL.String()
	t.mu.Lock()
	have, ok := t.kept[key]
	t.mu.Unlock()
	if ok {
		req = req.Clone(req.Context())
		req.Header.Set("If-None-Match", have.etag)
	}
	resp, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if ok && resp.StatusCode == http.StatusNotModified {
		return have.answer(resp), nil
	}
	return t.keep(key, resp)
}

// answer turns a 304 into the 200 that was kept; headers of the new answer,
// such as the rate limit, win.
func (a keptAnswer) answer(resp *http.Response) *http.Response {
	resp.Body.Close()
	header := a.header.Clone()
	maps.Copy(header, resp.Header)
	resp.Status, resp.StatusCode, resp.Header = "200 OK", http.StatusOK, header
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	return resp
}

func (t *conditionalTransport) keep(key string, resp *http.Response) (*http.Response, error) {
	etag := resp.Header.Get("ETag")
	if resp.StatusCode != http.StatusOK || etag == "" || resp.ContentLength > maxKeptBody {
		return resp, nil
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxKeptBody+1))
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	body := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), body), body}
	if len(head) > maxKeptBody {
		return resp, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) >= maxKept {
		clear(t.kept)
	}
	t.kept[key] = keptAnswer{etag: etag, header: resp.Header.Clone(), body: head}
	return resp, nil
}
