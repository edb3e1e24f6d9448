// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
)

func notFound(format string, args ...any) error {
	return &service.Error{Status: http.StatusNotFound, Text: fmt.Sprintf(format, args...)}
}

// isOwnDecision reports whether an error is a decision of this server, not of the registry.
func isOwnDecision(err error) bool {
	_, _, answer := service.Own(err)
	_, refused := errors.AsType[*catalog.RefusedError](err)
	return answer || refused
}

// errAborted breaks a connection in the middle of a body: it is too late for a status.
var errAborted = errors.New("download ended early")

// writeError is the only function that maps an error to an answer.
func (s *server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, oci.ErrCorrupt) {
		s.metrics.mismatch.Inc()
	}
	if errors.Is(err, errAborted) {
		s.kit.Log(r).Warn("download ended early", "path", service.LogPath(r), "error", err)
		return // fewer bytes than announced: net/http closes the connection
	}
	status, text := classifyError(err)
	if s.hidesRefusal(r, err) {
		status = http.StatusNotFound
		text = "not found"
	}
	s.kit.Refuse(w, r, status, text, err)
}

// hidesRefusal reports whether a refusal of the registry is answered as "not found".
func (s *server) hidesRefusal(r *http.Request, err error) bool {
	if !s.o.DeniedMeansMissing || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return !isOwnDecision(err) && isRefusal(err)
}

// classifyError returns the status for err and the text that a client may see. A refusal of the
// front-end's own credentials is 502, with the registry's message only: the client cannot fix it.
func classifyError(err error) (int, string) {
	if status, text, ok := service.Own(err); ok {
		return status, text
	}
	if e, ok := errors.AsType[*catalog.RefusedError](err); ok {
		return http.StatusNotFound, e.Error()
	}
	_, ofCaller := errors.AsType[*callerError](err)
	refused := service.Refusal(err)
	switch {
	case ofCaller && errors.Is(err, oci.ErrUnauthenticated):
		return http.StatusUnauthorized, err.Error()
	case ofCaller:
		return http.StatusForbidden, err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, "the registry did not respond in time"
	case errors.Is(err, oci.ErrNotFound):
		return http.StatusNotFound, err.Error()
	case refused != "":
		return http.StatusBadGateway, refused
	case errors.Is(err, oci.ErrExists):
		return http.StatusConflict, err.Error()
	case errors.Is(err, oci.ErrTooLarge):
		return http.StatusBadGateway, err.Error()
	case errors.Is(err, oci.ErrRateLimited):
		return http.StatusTooManyRequests, err.Error()
	case errors.Is(err, oci.ErrUnsupported):
		return http.StatusNotImplemented, err.Error()
	}
	answer, answered := errors.AsType[*oci.ResponseError](err)
	switch {
	case answered && answer.DiskFull():
		return http.StatusInsufficientStorage, err.Error() // repeating the request frees no disk space
	case answered, errors.Is(err, oci.ErrUnavailable), errors.Is(err, oci.ErrCorrupt):
		return http.StatusBadGateway, err.Error()
	}
	return http.StatusInternalServerError, "internal error"
}

// orNotFound turns "not found" into the answer after which clients try their next source.
func orNotFound(err error, format string, args ...any) error {
	if errors.Is(err, oci.ErrNotFound) {
		return notFound("%s: not found", fmt.Sprintf(format, args...))
	}
	return err
}
