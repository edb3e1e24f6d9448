// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// Error is an answer that a service decides, with a status and a text.
type Error struct {
	Status int
	Text   string // for the client
}

func (e *Error) Error() string { return e.Text }

// TooMany refuses for lack of a free place; what names the requests, as in "downloads".
func TooMany(what string) error {
	return &Error{Status: http.StatusServiceUnavailable, Text: "too many " + what + " at once, in total or from this address"}
}

// Own returns the answer that the server itself decided: an [Error] or a refusal of access control.
func Own(err error) (status int, message string, ok bool) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status, e.Text, true
	}
	if e, ok := errors.AsType[*access.Refusal](err); ok {
		return e.Status, e.Text, true
	}
	return 0, "", false
}

// Refusal returns the text if a registry refuses the server's account, or "".
func Refusal(err error) string {
	what := ""
	switch {
	case errors.Is(err, oci.ErrUnauthenticated):
		what = "the registry refuses the credentials of this server"
	case errors.Is(err, oci.ErrDenied):
		what = "the registry denied access to the account of this server"
	default:
		return ""
	}
	e, ok := errors.AsType[*oci.ResponseError](err)
	if !ok {
		return what
	}
	message := cmp.Or(e.Message, strings.Join(e.Codes, ", "), http.StatusText(e.Status))
	if u, err := url.Parse(e.URL); err == nil && u.Host != "" {
		return what + ": " + u.Host + ": " + text.Excerpt(message)
	}
	return what + ": " + text.Excerpt(message)
}

// Fail answers the errors of services that use no registry.
func (k *Kit) Fail(w http.ResponseWriter, r *http.Request, err error) {
	status, message, ok := Own(err)
	if !ok {
		status = http.StatusInternalServerError
		message = "internal error"
	}
	k.Refuse(w, r, status, message, err)
}

// statusLeft is the usual number for a client that did not wait.
const statusLeft = 499

// Refuse answers with status and text. If the fault is the server's, err is logged.
func (k *Kit) Refuse(w http.ResponseWriter, r *http.Request, status int, message string, err error) {
	if !k.Failing(w, r, status, err) {
		return
	}
	if id := RequestID(r); id != "" && status >= http.StatusInternalServerError {
		message += " (request " + id + ")" // the tools show nothing but the text
	}
	WriteError(w, r, status, message)
}

// Failing does [Kit.Refuse] up to the body, for errors of another form: log, headers. It returns
// false if the client is gone.
func (k *Kit) Failing(w http.ResponseWriter, r *http.Request, status int, err error) bool {
	access.NoteFailure(r, status)
	if errors.Is(r.Context().Err(), context.Canceled) { // the client is gone, and nothing is wrong here
		w.WriteHeader(statusLeft)
		return false
	}
	if status >= http.StatusInternalServerError {
		k.Log(r).Error("request failed", "method", r.Method, "path", LogPath(r), "status", status, "error", err)
	}
	if re, ok := errors.AsType[*oci.ResponseError](err); ok && status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(re.RetryAfter/time.Second))))
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", access.Challenge(r))
	}
	return true
}

// errorDoc is the answer to a request that failed. The tools show its text.
type errorDoc struct {
	Errors    []string `json:"errors"`
	RequestID string   `json:"request_id,omitempty"`
}

// registryErrorDoc is that for registries' clients (OCI distribution spec, "Error Codes").
type registryErrorDoc struct {
	Errors []registryError `json:"errors"`
}

type registryError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// registryCode returns a status's code; UNKNOWN, as the reference, for a server's error.
func registryCode(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHORIZED"
	case http.StatusForbidden, http.StatusMisdirectedRequest:
		return "DENIED"
	case http.StatusNotFound:
		return "NAME_UNKNOWN"
	case http.StatusRequestEntityTooLarge:
		return "SIZE_INVALID"
	case http.StatusTooManyRequests:
		return "TOOMANYREQUESTS"
	}
	if status >= http.StatusInternalServerError {
		return "UNKNOWN"
	}
	return "UNSUPPORTED"
}

// errorBody returns the error document for the protocol that the path belongs to.
func errorBody(r *http.Request, status int, message string) any {
	message = httpserve.NameRegistry(r, message)
	if r.URL.Path == "/v2" || strings.HasPrefix(r.URL.Path, "/v2/") {
		return registryErrorDoc{[]registryError{{registryCode(status), message}}}
	}
	return errorDoc{[]string{message}, RequestID(r)}
}

// WriteError writes a failed request's answer, below /v2/ in a registry's form.
func WriteError(w http.ResponseWriter, r *http.Request, status int, message string) {
	body, err := json.Marshal(errorBody(r, status, message))
	if err != nil {
		body = []byte(`{"errors":["internal error"]}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client is gone
}
