// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"io"
	"maps"
	"mime"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Bounds of the cache of [Lists]: a page of 100 tags has 60 KiB, and a tenth of that compressed.
const (
	maxListBody = 1 << 20
	maxLists    = 32 << 20 // compressed, in total
)

// Lists caches JSON lists with their ETags. A repeated request through one of its transports
// becomes a conditional request, and the cached list is the answer if nothing has changed.
type Lists struct {
	salt [16]byte

	mu    sync.Mutex // guards the fields below
	kept  map[listKey]keptList
	bytes int
}

// listKey is a hash of the token and the URL: two tokens may see different
// lists, and no token is stored.
type listKey [sha256.Size]byte

type keptList struct {
	etag   string
	header http.Header
	body   []byte // compressed
}

// NewLists returns an empty cache.
func NewLists() *Lists {
	l := &Lists{kept: map[listKey]keptList{}}
	_, _ = rand.Read(l.salt[:]) // Read never fails
	return l
}

// Transport returns a transport that sends conditional requests with next; nil:
// the default transport.
func (l *Lists) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return conditionalTransport{next, l}
}

type conditionalTransport struct {
	next  http.RoundTripper
	lists *Lists
}

func (l *Lists) key(req *http.Request) listKey {
	h := sha256.New()
	_, _ = h.Write(l.salt[:]) // Write never fails
	_, _ = io.WriteString(h, req.Header.Get("Authorization")+"\n"+req.URL.String())
	return listKey(h.Sum(nil))
}

func (t conditionalTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return t.next.RoundTrip(req)
	}
	key := t.lists.key(req)
	t.lists.mu.Lock()
	have, ok := t.lists.kept[key]
	t.lists.mu.Unlock()
	if ok {
		req = req.Clone(req.Context())
		req.Header.Set("If-None-Match", have.etag)
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if ok && resp.StatusCode == http.StatusNotModified {
		return have.cachedAnswer(resp)
	}
	return t.lists.keep(key, resp)
}

// cachedAnswer turns a 304 into the cached 200; headers of the new answer, such as
// the rate limit, take precedence.
func (k keptList) cachedAnswer(resp *http.Response) (*http.Response, error) {
	resp.Body.Close()
	z, err := gzip.NewReader(bytes.NewReader(k.body))
	if err != nil {
		return nil, err
	}
	header := k.header.Clone()
	maps.Copy(header, resp.Header)
	resp.Status = "200 OK"
	resp.StatusCode = http.StatusOK
	resp.Header = header
	resp.Body = z
	resp.ContentLength = -1
	return resp, nil
}

// keep caches a list that can be requested conditionally.
func (l *Lists) keep(key listKey, resp *http.Response) (*http.Response, error) {
	etag := resp.Header.Get("ETag")
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isJSON := err == nil && kind == "application/json"
	if resp.StatusCode != http.StatusOK || etag == "" || !isJSON || resp.ContentLength > maxListBody {
		return resp, nil
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxListBody+1))
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	body := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), body), body}
	if len(head) > maxListBody {
		return resp, nil
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	_, _ = z.Write(head) // writes to memory
	_ = z.Close()
	l.add(key, keptList{etag: etag, header: resp.Header.Clone(), body: packed.Bytes()})
	return resp, nil
}

// add caches a list and evicts others if there is no room; those are then requested in full.
func (l *Lists) add(key listKey, k keptList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= len(l.kept[key].body)
	delete(l.kept, key)
	for other, o := range l.kept {
		if l.bytes+len(k.body) <= maxLists {
			break
		}
		l.bytes -= len(o.body)
		delete(l.kept, other)
	}
	l.kept[key] = k
	l.bytes += len(k.body)
}
