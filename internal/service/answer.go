// SPDX-License-Identifier: Apache-2.0

package service

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
)

// Answer is an encoded document, complete before a status is written; it may be sent repeatedly.
type Answer struct {
	contentType, vary string

	plain  encoded
	zipped encoded // for clients that accept gzip; no body if compression is not worthwhile
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

// zipFrom is the size worth compressing: smaller fits into one packet.
const zipFrom = 1400

// Encode returns v as JSON.
func Encode(v any) (*Answer, error) {
	b, err := marshalPlain(v)
	if err != nil {
		return nil, err
	}
	return newAnswer("application/json", "Authorization, Accept-Encoding", b)
}

// Send sends v as JSON, or 304 if the client has it already.
func Send(w http.ResponseWriter, r *http.Request, cacheControl string, v any) error {
	a, err := Encode(v)
	if err == nil {
		a.Write(w, r, cacheControl)
	}
	return err
}

// Page returns an HTML page, which may differ for each login (cookie).
func Page(html []byte) (*Answer, error) {
	return newAnswer("text/html; charset=utf-8", "Cookie, Authorization, Accept-Encoding", html)
}

func newAnswer(contentType, vary string, b []byte) (*Answer, error) {
	a := &Answer{contentType: contentType, vary: vary, plain: newEncoded(b)}
	if len(b) < zipFrom {
		return a, nil
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(b); err != nil {
		return nil, fmt.Errorf("compress response: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress response: %w", err)
	}
	a.zipped = newEncoded(zipped.Bytes())
	return a, nil
}

func marshalPlain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode response: %w", err)
	}
	return b.Bytes(), nil
}

// WriteJSON sends v without ETag, never compressed.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	b, err := marshalPlain(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // an error means that the client is gone
	return nil
}

// Write sends an answer, or 304 if the client has it already.
func (a *Answer) Write(w http.ResponseWriter, r *http.Request, cacheControl string) {
	h := w.Header()
	f := a.plain
	if a.zipped.body != nil && takesGzip(r.Header.Get("Accept-Encoding")) {
		f = a.zipped
	}
	values := []string{a.contentType, cacheControl, a.vary, f.etag, f.length} // one piece of memory
	for i, name := range []string{"Content-Type", "Cache-Control", "Vary", "Etag"} {
		h[name] = values[i : i+1 : i+1]
	}
	if inm := r.Header.Get("If-None-Match"); inm != "" && Matches(inm, f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if f.etag == a.zipped.etag {
		h.Set("Content-Encoding", "gzip")
	}
	h["Content-Length"] = values[4:]
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(f.body) // an error means that the client is gone
}

// takesGzip reports whether Accept-Encoding has gzip, reading no more of it than that.
func takesGzip(header string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		if coding, weight, _ := strings.Cut(candidate, ";"); strings.TrimSpace(coding) == "gzip" {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}

// Matches reports whether an If-None-Match header names the tag.
func Matches(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
			return true
		}
	}
	return false
}
