// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-141914ff/okara/internal/access"
)

// answer is one encoded document. It is complete before a status is written.
type answer struct {
	plain  encoded
	zipped encoded // for clients that take gzip; without body: not worth it
	exp    int64   // of the links in it; 0: it has none
}

// encoded is an answer in one content encoding, with the headers that differ.
type encoded struct {
	body         []byte
	etag, length string
}

func newEncoded(body []byte) encoded {
	sum := sha256.Sum256(body)
	return encoded{body: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`, length: strconv.Itoa(len(body))}
}

// zipFrom is the size from which an answer is worth compressing: one packet
// takes as long as half of it.
const zipFrom = 1400

// encode returns v as JSON.
func encode(v any) (*answer, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	a := &answer{plain: newEncoded(b.Bytes())}
	if b.Len() < zipFrom {
		return a, nil
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(b.Bytes()); err != nil {
		return nil, fmt.Errorf("compress answer: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress answer: %w", err)
	}
	a.zipped = newEncoded(zipped.Bytes())
	return a, nil
}

// encodedOnce returns the answer of a form that is made of one immutable value,
// beside which it is kept: it is encoded once, and again only when the links in it
// are renewed. exp is the end of the links the answer would have now, 0 for an
// answer without links.
func encodedOnce(kept *sync.Map, form string, exp int64, build func() (any, error)) (*answer, error) {
	if v, ok := kept.Load(form); ok {
		if a := v.(*answer); a.exp == exp {
			return a, nil
		}
	}
	v, err := build()
	if err != nil {
		return nil, err
	}
	made, err := encode(v)
	if err != nil {
		return nil, err
	}
	made.exp = exp
	kept.Store(form, made)
	return made, nil
}

// Cache-Control of answers: private where a token decides who may read.
const (
	publicCache    = "public, max-age=30"
	privateCache   = "private, max-age=30"
	discoveryCache = "public, max-age=300"
)

func cacheControl(g access.Grant) string {
	if g.Public {
		return publicCache
	}
	return privateCache
}

// write sends an answer, or 304 if the client has it.
func (a *answer) write(w http.ResponseWriter, r *http.Request, cacheControl string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", cacheControl)
	h.Set("Vary", "Authorization, Accept-Encoding")
	f := a.plain
	if a.zipped.body != nil && takesGzip(r.Header.Get("Accept-Encoding")) {
		f = a.zipped
	}
	h.Set("Etag", f.etag)
	if inm := r.Header.Get("If-None-Match"); inm != "" && matches(inm, f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if f.etag == a.zipped.etag {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", f.length)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(f.body) // the client is gone; there is nobody to tell
}

// takesGzip reads an Accept-Encoding header as far as okara needs it.
func takesGzip(header string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		coding, weight, _ := strings.Cut(candidate, ";")
		if strings.TrimSpace(coding) == "gzip" {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}

// matches reports whether an If-None-Match header names the tag.
func matches(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
			return true
		}
	}
	return false
}

// up is the relative reference from the document at path to the root, such as
// "../../". Answers contain no host name, so they are right behind any proxy.
func up(path string) string {
	return strings.Repeat("../", strings.Count(path, "/")-1)
}
