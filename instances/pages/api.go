// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// The pages of instances get everything from the API, through its handler, with the caller's
// credentials: what a caller may see, masks and refusals are decided in one place, and forwarded
// alike.

// maxAnswer bounds how much of one answer a page reads, in bytes.
const maxAnswer = 8 << 20

// passedOn lists the headers by which the API identifies the caller and its address.
func passedOn() []string {
	return []string{
		"Authorization", "Cookie", "X-Forwarded-For", "User-Agent", "Traceparent", "Tracestate", service.RequestIDHeader,
		"Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest",
	}
}

// asked is a request to the API.
type asked struct {
	method, path string // below /api/v1/
	query        url.Values
	body         any    // nil: none
	key          string // of a form that changes something
	mine         bool   // an answer from this replica's own copy is enough
}

// backend is the API as the pages call it.
type backend struct {
	api, mine http.Handler // mine: answers from this replica's own copy; nil: there is none
}

func getFromAPI[T any](s *backend, r *site.Request, path string, query url.Values) (T, error) {
	return callAPI[T](s, r, asked{method: http.MethodGet, path: path, query: query})
}

func callAPI[T any](s *backend, r *site.Request, q asked) (T, error) {
	var v T
	to := &recorder{header: http.Header{}, left: maxAnswer}
	err := s.send(r, q, "application/json", to)
	if err == nil {
		err = json.Unmarshal(to.body.Bytes(), &v)
	}
	return v, err
}

// copyText copies an answer that is not JSON to a writer.
func (s *backend) copyText(r *site.Request, path string, to io.Writer) error {
	return s.send(r, asked{method: http.MethodGet, path: path}, "text/plain", &recorder{header: http.Header{}, left: maxAnswer, text: to})
}

// send makes the request. A refusal is returned as a [*refusedError].
func (s *backend) send(r *site.Request, q asked, accept string, to *recorder) error {
	in := r.Clone(r.Context())
	in.Method = q.method
	in.Body = http.NoBody
	in.ContentLength = 0
	in.RequestURI = ""
	in.URL = &url.URL{Path: "/api/v1/" + q.path, RawQuery: q.query.Encode()}
	in.Header = http.Header{"Accept": {accept}}
	for _, name := range passedOn() {
		if values := r.Header.Values(name); len(values) > 0 {
			in.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if q.body != nil {
		b, err := json.Marshal(q.body)
		if err != nil {
			return err
		}
		in.Body = io.NopCloser(bytes.NewReader(b))
		in.ContentLength = int64(len(b))
		in.Header.Set("Content-Type", "application/json")
	}
	if q.key != "" {
		in.Header.Set(api.IdempotencyKey, q.key)
	}
	api := s.api
	if q.mine {
		api = s.mine
	}
	api.ServeHTTP(to, in)
	if at, err := time.Parse(time.RFC3339, to.header.Get("Okara-As-Of")); err == nil {
		r.AsOf = at
	}
	if to.status < http.StatusBadRequest && to.left < 0 {
		return errors.New("the response of the API is too large for a page")
	}
	return to.refusalOf()
}

// recorder stores an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	text   io.Writer // receives an answer that is not a refusal; nil: body does
	left   int       // bytes that body may still take
}

func (m *recorder) Header() http.Header { return m.header }

func (m *recorder) WriteHeader(status int) {
	if m.status == 0 && status >= http.StatusOK {
		m.status = status
	}
}

func (m *recorder) Write(b []byte) (int, error) {
	m.WriteHeader(http.StatusOK)
	if m.text != nil && m.status < http.StatusBadRequest {
		return m.text.Write(b)
	}
	if m.left -= len(b); m.left >= 0 {
		m.body.Write(b)
	}
	return len(b), nil
}

type refusedError struct {
	status int
	doc    api.Error
}

func (m *recorder) refusalOf() error {
	if m.status < http.StatusBadRequest && m.status != 0 {
		return nil
	}
	e := &refusedError{status: m.status}
	if m.status == 0 || json.Unmarshal(m.body.Bytes(), &e.doc) != nil {
		return fmt.Errorf("the API returned %d without a reason", m.status)
	}
	return e
}

// Error returns the API's errors as a sentence for a page.
func (e *refusedError) Error() string {
	if len(e.doc.Errors) == 0 {
		return http.StatusText(e.status)
	}
	return text.Block(strings.Join(e.doc.Errors, "; "))
}

// Unwrap gives the page the status and text of the refusal.
func (e *refusedError) Unwrap() error { return &service.Error{Status: e.status, Text: e.Error()} }

// isRetryable reports whether the form may be sent again without being done twice.
func (e *refusedError) isRetryable() bool { return e.status == http.StatusServiceUnavailable }
