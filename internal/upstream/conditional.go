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

// Bounds of what [Lists] keeps: a page of 100 tags has 60 KiB, and a tenth of that
// compressed.
const (
	maxListBody = 1 << 20
	maxLists    = 32 << 20 // compressed, all together
)

// Lists keeps JSON lists with their ETags. Whoever repeats a request through one of its transports
// makes a conditional request, and is answered with what is kept where nothing changed.
type Lists struct {
	salt [16]byte

	mu    sync.Mutex // guards the fields below
	kept  map[listKey]keptList
	bytes int
}

// listKey is a hash of who asks for what: two tokens may see different lists, and no
// token is kept.
type listKey [sha256.Size]byte

type keptList struct {
	etag   string
	header http.Header
	body   []byte // compressed
}

// NewLists returns what has kept nothing yet.
func NewLists() *Lists {
	l := &Lists{kept: map[listKey]keptList{}}
	_, _ = rand.Read(l.salt[:]) // neither Read nor Write fails
	return l
}

// Transport returns one that asks by next for what has changed; nil is the default one.
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
	_, _ = h.Write(l.salt[:]) // neither Read nor Write fails
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
		return have.answer(resp)
	}
	return t.lists.keep(key, resp)
}

// answer turns a 304 into the 200 that was kept; headers of the new answer,
// such as the rate limit, win.
func (k keptList) answer(resp *http.Response) (*http.Response, error) {
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

// keep reads a list that can be asked for again.
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
	_, _ = z.Write(head) // into memory
	_ = z.Close()
	l.add(key, keptList{etag: etag, header: resp.Header.Clone(), body: packed.Bytes()})
	return resp, nil
}

// add makes room by forgetting some others: they are asked for as a whole then.
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
