// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// TokenFunc returns the token for the next request; empty means none.
type TokenFunc func(ctx context.Context) (string, error)

// Options configure a [Client]: the address of a front-end and the credentials.
type Options struct {
	Server    *url.URL          // "https://okara.example.com", or with a path
	Token     TokenFunc         // nil: anonymous
	TokenFrom string            // source of the token, for error messages; "" for none
	Transport http.RoundTripper // nil: http.DefaultTransport
	UserAgent string
	Checks    bool           // what is read is only checked, and counts as no download
	Logger    *slog.Logger   // one record per request, without secrets; nil: no log
	Progress  depot.Progress // called from several goroutines
	Pause     time.Duration  // before the first retry, then doubled; 0: 500 ms
}

// Client publishes through one front-end. It is safe for concurrent use.
type Client struct {
	o        Options
	http     *retryablehttp.Client
	answered atomic.Bool // the server has answered once, so the address is right
}

// Bounds of requests and answers.
const (
	repeats   = 6 // half a minute in total
	maxPause  = 30 * time.Second
	maxAnswer = 4 << 20 // enough for a list of many versions, each with a message
	maxText   = 4 << 10 // of the text of a refusal
)

// New returns a client. It makes no request.
func New(o Options) *Client {
	if o.Token == nil {
		o.Token = func(context.Context) (string, error) { return "", nil }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Pause <= 0 {
		o.Pause = 500 * time.Millisecond
	}
	c := &Client{o: o}
	c.http = &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport:     o.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax: repeats, RetryWaitMin: o.Pause, RetryWaitMax: maxPause,
		CheckRetry: c.shouldRepeat,
		Backoff: func(first, longest time.Duration, attempt int, resp *http.Response) time.Duration {
			requested := retryablehttp.DefaultBackoff(first, longest, attempt, resp)
			own := retryablehttp.DefaultBackoff(first, longest, attempt, nil)
			return min(longest, max(requested, own)) // a server whose Retry-After is always one second may be busy for longer
		},
		ErrorHandler:    retryablehttp.PassthroughErrorHandler,
		PrepareRetry:    c.authorize, // uploads may outlast a token
		ResponseLogHook: c.logResponse,
	}
	return c
}

// Host returns HOST[:PORT] of the server.
func (c *Client) Host() string { return c.o.Server.Host }

// shouldRepeat decides whether to repeat a request.
func (c *Client) shouldRepeat(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		if errors.Is(err, http.ErrSchemeMismatch) || ok && op.Op == "dial" && !c.answered.Load() {
			return false, err
		}
		return retryablehttp.ErrorPropagatedRetryPolicy(ctx, nil, err)
	}
	c.answered.Store(true)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true, nil
	}
	return false, nil
}

func (c *Client) authorize(r *http.Request) error {
	token, err := c.o.Token(r.Context())
	if err == nil && token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return err
}

// logResponse omits query and headers, which may have tokens.
func (c *Client) logResponse(_ retryablehttp.Logger, resp *http.Response) {
	r := resp.Request
	c.o.Logger.LogAttrs(r.Context(), slog.LevelDebug, "server request",
		slog.String("method", r.Method), slog.String("url", plainURL(r.URL)), slog.Int("status", resp.StatusCode))
}

// content is the body of a request. It is opened again for each attempt.
type content struct {
	open   func() (io.ReadCloser, error)
	size   int64
	sha256 string // in hex; "": not sent
}

// sized tells go-retryablehttp the length of the body.
type sized struct {
	io.ReadCloser
	size int64
}

func (s sized) Len() int { return int(s.size) }

// jsonContent is a small JSON body.
func jsonContent(v any) (content, error) {
	b, err := json.Marshal(v)
	return content{open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }, size: int64(len(b))}, err
}

// send makes a request, repeats it if necessary, and decodes the answer into v. The path
// is relative to that of the server.
func (c *Client) send(ctx context.Context, method, path string, q url.Values, body *content, v any) (status int, err error) {
	r, err := c.newRequest(ctx, method, path, q, body)
	if err != nil {
		return 0, err
	}
	return c.do(r, v)
}

// newRequest makes a request that [Client.do] or [Client.Open] sends.
func (c *Client) newRequest(ctx context.Context, method, path string, q url.Values, body *content) (*retryablehttp.Request, error) {
	u := c.o.Server.JoinPath(path)
	u.RawQuery = q.Encode()
	var raw any
	if body != nil {
		raw = retryablehttp.ReaderFunc(func() (io.Reader, error) {
			f, err := body.open()
			return sized{f, body.size}, err
		})
	}
	r, err := retryablehttp.NewRequestWithContext(ctx, method, u.String(), raw)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", c.o.UserAgent)
	if body != nil && body.sha256 != "" {
		sum, err := hex.DecodeString(body.sha256)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
		r.Header.Set("Expect", "100-continue") // so that a refusal arrives before the bytes are sent
	}
	return r, c.authorize(r.Request)
}

// do sends a request and reads the answer into v.
func (c *Client) do(r *retryablehttp.Request, v any) (status int, err error) {
	resp, err := c.http.Do(r)
	if resp != nil {
		defer resp.Body.Close()
	}
	if err != nil {
		return 0, noAnswerError(r.Request, err)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		b = bytes.ReplaceAll(b, []byte(token), []byte("[token]")) // so that no text of the answer shows the token
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return resp.StatusCode, c.parseRefusal(r.Request, resp, b)
	}
	if err != nil {
		return 0, noAnswerError(r.Request, err)
	}
	if resp.StatusCode == http.StatusNoContent {
		return resp.StatusCode, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return 0, fmt.Errorf("%s %s: %w", r.Method, plainURL(r.URL), ErrNoServer)
	}
	return resp.StatusCode, nil
}

func noAnswerError(r *http.Request, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // its text repeats the URL, query included
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s %s: %w", r.Method, plainURL(r.URL), err)
	}
	return &UnreachableError{Method: r.Method, URL: plainURL(r.URL), Err: err}
}

// plainURL returns a URL without its query and user.
func plainURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// UnreachableError means that a server gave no answer. With [errors.Is] it is also
// [oci.ErrUnavailable].
type UnreachableError struct {
	Method, URL string
	Err         error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s %s: no response from the server: %v", e.Method, e.URL, e.Err)
}

func (e *UnreachableError) Unwrap() []error { return []error{oci.ErrUnavailable, e.Err} }

// ErrNoServer says that something else than an okara server answered.
var ErrNoServer error = noServerError{}

type noServerError struct{}

func (noServerError) Error() string {
	return "not a response of an okara server: " + oci.ErrCorrupt.Error()
}

func (noServerError) Unwrap() error { return oci.ErrCorrupt }

// Error is a refusal by the server. With [errors.Is] it is the matching error of package oci.
type Error struct {
	Method, URL string
	Status      int
	Text        string // text of the server
	Reason      string // reason code of the server, "" for none
	TokenFrom   string // source of the token, "" for none
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s %s: %d %s", e.Method, e.URL, e.Status, http.StatusText(e.Status))
	if e.Text != "" {
		s += ": the server says: " + e.Text
	}
	return s
}

// Unwrap returns the sentinel error, nil if the request itself was at fault.
func (e *Error) Unwrap() error {
	switch e.Status {
	case http.StatusUnauthorized:
		return oci.ErrUnauthenticated
	case http.StatusForbidden:
		return oci.ErrDenied
	case http.StatusNotFound:
		return oci.ErrNotFound
	case http.StatusConflict:
		return oci.ErrExists
	case http.StatusRequestEntityTooLarge:
		return oci.ErrTooLarge
	case http.StatusTooManyRequests:
		return oci.ErrRateLimited
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return oci.ErrUnsupported
	}
	if e.Status >= http.StatusInternalServerError {
		return oci.ErrUnavailable
	}
	return nil
}

// parseRefusal parses the error document of the front-end. An HTML page, such as that of a
// proxy, is not quoted.
func (c *Client) parseRefusal(r *http.Request, resp *http.Response, body []byte) *Error {
	e := &Error{Method: r.Method, URL: plainURL(r.URL), Status: resp.StatusCode, TokenFrom: c.o.TokenFrom}
	var doc struct {
		Errors []refused `json:"errors"`
		Reason string    `json:"reason"`
	}
	switch {
	case json.Unmarshal(body, &doc) == nil:
		var texts []string
		for _, one := range doc.Errors {
			texts = append(texts, string(one))
		}
		e.Text = safeText(strings.Join(texts, "; "))
		e.Reason = text.Excerpt(doc.Reason)
	case !bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")): // text of a proxy or another server; HTML is left out
		e.Text = safeText(string(body))
	}
	if to, err := resp.Location(); err == nil && resp.StatusCode < http.StatusBadRequest {
		e.Text = "moved to " + text.Excerpt(plainURL(to))
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		e.Text = strings.ReplaceAll(e.Text, token, "[token]")
	}
	return e
}

// refused is one reason: a string as front-ends send it, an object of JSON:API, or an
// object of a registry that was mistaken for a front-end.
type refused string

func (t *refused) UnmarshalJSON(b []byte) error {
	var of struct{ Message, Title, Detail string }
	if json.Unmarshal(b, &of) == nil {
		*t = refused(cmp.Or(of.Message, of.Detail, of.Title))
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

// safeText makes a text of the server safe and short enough to show.
func safeText(s string) string { return text.Clip(text.Line(strings.TrimSpace(s)), maxText) }
