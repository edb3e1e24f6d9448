// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/oci"
)

// httpError is an answer that the front-end decides itself.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

func notFound(format string, args ...any) error {
	return &httpError{status: http.StatusNotFound, text: fmt.Sprintf(format, args...)}
}

// own reports whether an error is this server's decision, rather than what the
// registry says.
func own(err error) bool {
	_, answer := errors.AsType[*httpError](err)
	_, refusal := errors.AsType[*access.Refusal](err)
	_, refused := errors.AsType[*catalog.RefusedError](err)
	return answer || refusal || refused
}

// errAborted ends a connection in the middle of a body, where a status can no
// longer tell the client that the bytes are not to be trusted.
var errAborted = errors.New("download ended early")

// statusLeft is what logs and metrics show of a client that did not wait for its
// answer. The number is the usual one for it.
const statusLeft = 499

// writeError is the only place that maps an error to an answer.
func (s *server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, oci.ErrCorrupt) {
		s.metrics.mismatch.Inc()
	}
	if errors.Is(err, errAborted) {
		s.logFor(r).Warn("download ended early", "path", logPath(r.URL.Path), "error", err)
		return // fewer bytes than announced: net/http closes the connection
	}
	if errors.Is(r.Context().Err(), context.Canceled) { // nobody reads the answer, and nothing is wrong here
		w.WriteHeader(statusLeft)
		return
	}
	status, text := s.classify(err)
	if s.hides(r, err) {
		status, text = http.StatusNotFound, "not found"
	}
	if status >= http.StatusInternalServerError {
		s.logFor(r).Error("request failed", "method", r.Method, "path", logPath(r.URL.Path), "status", status, "error", err)
		if id := r.Header.Get(requestID); id != "" {
			text += " (request " + id + ")" // the tools show nothing but the text
		}
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
	writeJSONError(w, r, status, text)
}

// hides reports whether a refusal of the registry stands for "not found".
func (s *server) hides(r *http.Request, err error) bool {
	if !s.o.DeniedMeansMissing || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return !own(err) && (errors.Is(err, oci.ErrDenied) || errors.Is(err, oci.ErrUnauthenticated))
}

// classify returns the status for err and the text a client may see. A refusal
// of the front-end's own credentials is 502: the client cannot fix it, and
// hears nothing about them.
func (s *server) classify(err error) (int, string) {
	if e, ok := errors.AsType[*httpError](err); ok {
		return e.status, e.text
	}
	if e, ok := errors.AsType[*access.Refusal](err); ok {
		return e.Status, e.Text
	}
	if e, ok := errors.AsType[*catalog.RefusedError](err); ok {
		return http.StatusNotFound, e.Error()
	}
	switch {
	case s.onBehalf && errors.Is(err, oci.ErrUnauthenticated):
		return http.StatusUnauthorized, err.Error()
	case s.onBehalf && errors.Is(err, oci.ErrDenied):
		return http.StatusForbidden, err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, "the registry did not answer in time"
	case errors.Is(err, oci.ErrNotFound):
		return http.StatusNotFound, err.Error()
	case errors.Is(err, oci.ErrUnauthenticated), errors.Is(err, oci.ErrDenied):
		return http.StatusBadGateway, "the registry refuses the credentials of this server"
	case errors.Is(err, oci.ErrExists):
		return http.StatusConflict, err.Error()
	case errors.Is(err, oci.ErrTooLarge):
		return http.StatusBadGateway, err.Error()
	case errors.Is(err, oci.ErrRateLimited):
		return http.StatusTooManyRequests, err.Error()
	case errors.Is(err, oci.ErrUnsupported):
		return http.StatusNotImplemented, err.Error()
	case errors.Is(err, oci.ErrUnavailable), errors.Is(err, oci.ErrCorrupt):
		return http.StatusBadGateway, err.Error()
	}
	if _, ok := errors.AsType[*oci.ResponseError](err); ok {
		return http.StatusBadGateway, err.Error()
	}
	return http.StatusInternalServerError, "internal error"
}

// errorDoc is the answer to a request that failed. The tools show its text.
type errorDoc struct {
	Errors    []string `json:"errors"`
	RequestID string   `json:"request_id,omitempty"`
}

func writeJSONError(w http.ResponseWriter, r *http.Request, status int, text string) {
	body, err := json.Marshal(errorDoc{[]string{text}, r.Header.Get(requestID)})
	if err != nil {
		body = []byte(`{"errors":["internal error"]}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone; there is nobody to tell
}

// missing turns "not found" into the answer that makes clients try their next
// source. Every other error stays what it is.
func missing(err error, format string, args ...any) error {
	if errors.Is(err, oci.ErrNotFound) {
		return notFound("%s: not found", fmt.Sprintf(format, args...))
	}
	return err
}

// logPath is a path as logs may show it: the token of an archive link is a
// credential.
func logPath(path string) string {
	rest, ok := strings.CutPrefix(path, "/archives/")
	if !ok {
		return path
	}
	if _, after, ok := strings.Cut(rest, "/"); ok {
		return "/archives/-/" + after
	}
	return "/archives/-"
}
