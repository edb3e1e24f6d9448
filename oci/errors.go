// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/seed-141914ff/okara/internal/text"
)

// Every error of a registry or the connection to it matches one of these with [errors.Is].
var (
	ErrNotFound        = errors.New("not found")
	ErrExists          = errors.New("already exists")
	ErrUnauthenticated = errors.New("authentication required")
	ErrDenied          = errors.New("access denied")
	ErrTooLarge        = errors.New("too large")
	ErrRateLimited     = errors.New("rate limited")
	ErrUnavailable     = errors.New("registry unavailable")
	ErrCorrupt         = errors.New("corrupt data")
	ErrUnsupported     = errors.New("not supported by the registry")

	// ErrUncertain says that the answer to a write was lost. Such errors are ErrUnavailable, too.
	ErrUncertain = errors.New("outcome unknown")
)

// IgnoreNotFound returns an error unless it says that what was asked for is not there.
func IgnoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Unsupported returns an ErrUnsupported without its text: the limit is this program's.
func Unsupported(format string, a ...any) error { return limitError{fmt.Errorf(format, a...)} }

type limitError struct{ error }

func (e limitError) Unwrap() []error { return []error{e.error, ErrUnsupported} }

// Passing reports whether an error may be temporary. A write may have taken effect all the same.
func Passing(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUncertain) || errors.Is(err, ErrRateLimited)
}

// MissesBlob reports whether a manifest was not written for lack of its blobs or the repository.
func MissesBlob(err error) bool {
	e, ok := errors.AsType[*ResponseError](err)
	if !ok || e.Status < 400 || e.Status >= 500 {
		return false
	}
	if e.HasCode("MANIFEST_BLOB_UNKNOWN", "BLOB_UNKNOWN", "NAME_UNKNOWN", "MANIFEST_INVALID", "MANIFEST_UNVERIFIED") {
		return true
	}
	return len(e.Codes) == 0 && (e.Status == 400 || e.Status == 404)
}

// ResponseError is a registry's refusal. Message is its own text, clipped and without credentials.
type ResponseError struct {
	Method     string
	URL        string // without userinfo and query
	Status     int
	Codes      []string // of the distribution API, such as MANIFEST_BLOB_UNKNOWN, in the registry's order; often one, possibly none
	Message    string
	RetryAfter time.Duration // zero if the registry did not say
	Date       time.Time     // the Date header; zero if none

	sentinel error
	accepted func() bool // reports whether a 401 has another reason than the credential; nil: it has not
}

// DiskFull reports whether the registry had no disk space, which distribution says in a 500's text.
func (e *ResponseError) DiskFull() bool {
	message := strings.ToLower(e.Message)
	return e.Status == http.StatusInsufficientStorage || strings.Contains(message, "no space left") || strings.Contains(message, "quota exceeded")
}

func (e *ResponseError) Error() string {
	s := fmt.Sprintf("%s %s: %d %s", e.Method, e.URL, e.Status, http.StatusText(e.Status))
	if len(e.Codes) > 0 {
		s += ": " + strings.Join(e.Codes, ", ")
	}
	if e.Message != "" {
		s += ": " + strconv.Quote(e.Message)
	}
	if e.Status == http.StatusMethodNotAllowed && !isRead(e.Method) && e.Method != http.MethodDelete {
		s += ": this registry does not accept writes" // as a cache of another one
	}
	return s
}

// Unwrap returns the sentinel that fits the answer, or nil.
func (e *ResponseError) Unwrap() error { return e.sentinel }

// HasCode reports whether the registry gave one of these codes.
func (e *ResponseError) HasCode(codes ...string) bool {
	return slices.ContainsFunc(e.Codes, func(c string) bool { return slices.Contains(codes, c) })
}

// halfLinked recognises how distribution refuses a manifest while another client pushes its blob.
// It truncates the blob's link file before it rewrites it; a reader in between reports an invalid
// digest and a missing blob (registry/storage, verify of the manifest handlers). Nothing is stored
// yet, so the PUT may be repeated, even of a tag.
func halfLinked(codes []string) bool {
	return slices.Contains(codes, "DIGEST_INVALID") && slices.Contains(codes, "MANIFEST_BLOB_UNKNOWN")
}

const (
	// maxErrorBody bounds what is read of an error answer, such as a proxy's page of HTML.
	maxErrorBody = 16 << 10
	// maxErrorCodes bounds the number of distinct codes of one answer.
	maxErrorCodes = 8
)

// responseError reads and closes the body of an error response and returns the error.
func (s *session) responseError(resp *http.Response) error {
	defer resp.Body.Close()
	e := &ResponseError{
		Method: resp.Request.Method, URL: safeURL(resp.Request.URL), Status: resp.StatusCode,
		RetryAfter: retryAfter(resp, time.Now()), Date: dateOf(resp),
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // partial text is enough for the message
	e.Codes, e.Message = parseErrors(body)
	html := isHTML(resp.Header)
	if html {
		e.Message = "returned HTML, is this an OCI registry?"
	}
	e.Message = s.secrets.redact(e.Message)
	e.sentinel = sentinelFor(resp, e.Codes, html)
	switch {
	case resp.StatusCode == http.StatusUnauthorized && s.isAnonymous():
		e.sentinel = ErrUnauthenticated // whatever right is missing, a login comes first
	case resp.StatusCode == http.StatusUnauthorized:
		e.accepted = func() bool { return s.isSenderKnown(resp) }
	}
	// A gateway's 502 or 504 says nothing about what is behind it.
	if resp.StatusCode >= 500 && resp.StatusCode != http.StatusNotImplemented && changesTag(resp.Request) {
		return fmt.Errorf("%w: %w", ErrUncertain, e)
	}
	return e
}

func sentinelFor(resp *http.Response, codes []string, html bool) error {
	has := func(code string) bool { return slices.Contains(codes, code) }
	method := resp.Request.Method
	switch status := resp.StatusCode; {
	case has("TOOMANYREQUESTS"), status == http.StatusTooManyRequests:
		return ErrRateLimited
	case has("UNSUPPORTED"), status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return ErrUnsupported
	case method == http.MethodDelete && (status == http.StatusBadRequest || status == http.StatusPreconditionFailed):
		return ErrUnsupported // 412: the tag is immutable
	case isRead(method) && status == http.StatusPreconditionFailed:
		return ErrDenied // reads here send no condition, so a policy withholds the content
	case status == http.StatusUnauthorized:
		if strings.Contains(resp.Header.Get("WWW-Authenticate"), "insufficient_scope") || has("DENIED") {
			return ErrDenied
		}
		return ErrUnauthenticated
	case status == http.StatusForbidden:
		return ErrDenied
	case status == http.StatusNotFound && html && resp.Header.Get("Docker-Distribution-Api-Version") == "":
		return ErrUnavailable
	case status == http.StatusNotFound:
		return ErrNotFound
	case status == http.StatusConflict, status == http.StatusPreconditionFailed, method == http.MethodPut && tagExists(codes):
		return ErrExists
	case status == http.StatusRequestEntityTooLarge:
		return ErrTooLarge
	case halfLinked(codes):
		return ErrUnavailable
	case has("DIGEST_INVALID"):
		return ErrCorrupt
	case status >= 500, status == http.StatusRequestTimeout:
		return ErrUnavailable
	}
	return nil
}

func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// WithheldByPolicy recognises a registry that does not serve what it has, as by Harbor's policies.
func WithheldByPolicy(err error) bool {
	e, ok := errors.AsType[*ResponseError](err)
	return ok && (e.HasCode("PROJECTPOLICYVIOLATION") || e.Status == http.StatusPreconditionFailed && isRead(e.Method))
}

// tagExists recognises an immutable tag. ECR's TAG_INVALID means nothing else for a valid one.
func tagExists(codes []string) bool {
	return slices.ContainsFunc(codes, func(c string) bool {
		switch c {
		case "TAG_INVALID", "ImageTagAlreadyExistsException", "TAG_ALREADY_EXISTS", "TAG_IMMUTABLE":
			return true
		}
		return false
	})
}

// parseErrors reads the error document of the distribution API; other text is the message.
func parseErrors(body []byte) (codes []string, message string) {
	var doc struct {
		Errors []struct {
			Code    string          `json:"code"`
			Message string          `json:"message"`
			Detail  json.RawMessage `json:"detail"`
		} `json:"errors"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, text.Excerpt(string(body))
	}
	var texts []string
	for _, e := range doc.Errors {
		if e.Code != "" && !slices.Contains(codes, e.Code) && len(codes) < maxErrorCodes {
			codes = append(codes, text.Excerpt(e.Code))
		}
		message := e.Message
		if d := string(e.Detail); d != "" && d != "null" && d != "{}" && d != `""` {
			message += " " + d
		}
		if message = strings.TrimSpace(message); message != "" {
			texts = append(texts, message)
		}
	}
	if len(texts) == 0 && doc.Message != "" {
		texts = append(texts, doc.Message)
	}
	return codes, text.Excerpt(strings.Join(texts, "; "))
}

func isHTML(h http.Header) bool {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (t == "text/html" || t == "application/xhtml+xml")
}

// requestError returns an HTTP client's error with host and reason once, no query and credential.
func (s *session) requestError(method string, u *url.URL, err error) error {
	if e, ok := errors.AsType[*credentialError](err); ok {
		return e
	}
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return fmt.Errorf("%s requires a login, and there are no credentials for %s: %w", s.host, s, ErrUnauthenticated)
	}
	if e, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		return s.tokenError(e)
	}
	sent := false
	for {
		e, ok := errors.AsType[*url.Error](err)
		if !ok {
			break
		}
		err = e.Err
		sent = true
	}
	err = s.cleanError(err)
	if !sent { // the library could not answer the challenge
		return fmt.Errorf("log in at %s for %s: %w: %w", s.host, s, ErrUnauthenticated, err)
	}
	if errors.Is(err, context.Canceled) && !errors.Is(err, ErrUncertain) {
		return fmt.Errorf("%s %s: %w", method, safeURL(u), err)
	}
	return fmt.Errorf("%s %s: %w: %w", method, safeURL(u), ErrUnavailable, err)
}

// cleanError returns err itself unless its text has to be changed.
func (s *session) cleanError(err error) error {
	message := err.Error()
	if clean := s.secrets.redact(message); clean != message {
		return &cleanError{text: clean, err: err}
	}
	return err
}

// cleanError keeps the chain for errors.Is and hides the text.
type cleanError struct {
	text string
	err  error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.err }

func (s *session) tokenError(e *errcode.ErrorResponse) error {
	r := &ResponseError{Method: e.Method, URL: safeURL(e.URL), Status: e.StatusCode}
	var texts []string
	for _, x := range e.Errors {
		if x.Code != "" && !slices.Contains(r.Codes, x.Code) && len(r.Codes) < maxErrorCodes {
			r.Codes = append(r.Codes, text.Excerpt(x.Code))
		}
		texts = append(texts, x.Message)
	}
	r.Message = s.secrets.redact(text.Excerpt(strings.Join(texts, "; ")))
	switch {
	case e.StatusCode == http.StatusForbidden:
		r.sentinel = ErrDenied
	case e.StatusCode == http.StatusTooManyRequests:
		r.sentinel = ErrRateLimited
	case e.StatusCode >= 500:
		r.sentinel = ErrUnavailable
	default: // 400 and 401: token servers refuse a password or a refresh token with these
		r.sentinel = ErrUnauthenticated
	}
	return fmt.Errorf("get a token for %s: %w", s, r)
}

type credentialError struct{ error }

func (e *credentialError) Unwrap() error { return e.error }

// safeURL omits userinfo and query: uploads, presigned blobs and token servers keep secrets there.
func safeURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

func dateOf(resp *http.Response) time.Time {
	t, _ := http.ParseTime(resp.Header.Get("Date"))
	return t
}

// retryAfter parses Retry-After, seconds or a date (RFC 9110, section 10.2.3).
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	v := resp.Header.Get("Retry-After")
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
