// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/text"
)

// mediaType is the type of every document (JSON:API 1.1, section 5).
const mediaType = "application/vnd.api+json"

// document is a JSON:API document (section 7.1).
type document struct {
	Data     any        `json:"data"` // a resource, or a list of them
	Included []resource `json:"included,omitempty"`
	Meta     any        `json:"meta,omitempty"`
}

// resource is a resource object (section 7.2).
type resource struct {
	Type          string              `json:"type"`
	ID            string              `json:"id"`
	Attributes    any                 `json:"attributes,omitempty"`
	Relationships map[string]relation `json:"relationships,omitempty"`
}

// relation is a relationship object: a ref, or a list of them.
type relation struct {
	Data any `json:"data"`
}

// ref is a resource identifier object (section 7.3).
type ref struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

func relationTo(kind, id string) relation { return relation{ref{kind, id}} }

func toAll(list []resource) relation {
	refs := []ref{}
	for _, r := range list {
		refs = append(refs, ref{r.Type, r.ID})
	}
	return relation{refs}
}

// sendDocument encodes before it writes the status. Answers are never cached: tools act on them.
func sendDocument(w http.ResponseWriter, status int, d any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client has disconnected
	return nil
}

func answerPage[T any](w http.ResponseWriter, r *http.Request, all []T, show func(T) resource) error {
	from, to, meta := readPage(r.URL.Query()).rangeOf(len(all))
	list := make([]resource, 0, to-from)
	for _, one := range all[from:to] {
		list = append(list, show(one))
	}
	return sendDocument(w, http.StatusOK, document{Data: list, Meta: meta})
}

func noContent(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Bounds of a body.
const (
	smallBody  = 64 << 10
	bodyLevels = 32
	bodyTime   = 10 * time.Second
)

// readBody reads at most limit bytes into v, after the right was checked. Empty, it leaves v.
func (s *gate) readBody(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.ContentLength != 0 && (err != nil || media != mediaType && media != "application/json") {
		return newRefusal(http.StatusUnsupportedMediaType, "unsupported media type", "send %s or application/json", mediaType)
	}
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	if err := s.kit.OpenBody(r); err != nil {
		return err
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // writers without deadlines, as in tests, have no connection to stall
	b, err := httpserve.ReadBody(w, r, limit)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return tooLarge(limit)
	}
	if err != nil {
		return malformedError("the request body is incomplete: %w", err)
	}
	_ = control.SetReadDeadline(time.Time{})
	return parseBody(b, v)
}

func parseBody(b []byte, v any) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	if text.Levels(b) > bodyLevels {
		return malformedError("the body nests more than %d levels", bodyLevels)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return malformedError("the body is not the expected document: %w", err)
	}
	return nil
}

// maxClientText bounds, in characters, text of a client that is shown to others.
const maxClientText = 256

// printableText makes text of a client safe to show to others.
func printableText(foreign string) string { return clipText(text.Line(foreign), maxClientText) }

func clipText(s string, limit int) string {
	n := 0
	for i := range s {
		if n == limit {
			return s[:i]
		}
		n++
	}
	return s
}

// Sizes of pages of a list.
const (
	pageSize    = 20
	maxPageSize = 100
)

type page struct{ number, size int }

// pagination describes the position of a page in its list. Missing pages are null.
type pagination struct {
	Current  int  `json:"current-page"`
	Size     int  `json:"page-size"`
	Previous *int `json:"prev-page"`
	Next     *int `json:"next-page"`
	Pages    int  `json:"total-pages"`
	Count    int  `json:"total-count"`
}

type listMeta struct {
	Pagination pagination `json:"pagination"`
}

// readPage reads page[number] and page[size]: the default for no number, the maximum for more.
func readPage(q url.Values) page {
	p := page{number: 1, size: pageSize}
	if n, err := strconv.Atoi(q.Get("page[number]")); err == nil && n > 0 {
		p.number = n
	}
	if n, err := strconv.Atoi(q.Get("page[size]")); err == nil && n > 0 {
		p.size = min(n, maxPageSize)
	}
	return p
}

// rangeOf returns the range of a page in a list of count items, and its meta object.
func (p page) rangeOf(count int) (from, to int, m listMeta) {
	pages := max(1, (count+p.size-1)/p.size)
	if p.number <= pages {
		from = min((p.number-1)*p.size, count)
		to = min(p.number*p.size, count)
	}
	m.Pagination = pagination{Current: p.number, Size: p.size, Pages: pages, Count: count}
	if p.number > 1 {
		m.Pagination.Previous = new(min(p.number-1, pages))
	}
	if p.number < pages {
		m.Pagination.Next = new(p.number + 1)
	}
	return from, to, m
}
