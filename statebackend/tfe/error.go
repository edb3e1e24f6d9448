// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

type refusal struct {
	status int
	title  string // the text that the tools print first
	err    error  // the details
}

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

// newRefusal makes a refusal; the format is that of fmt.Errorf.
func newRefusal(status int, title, format string, args ...any) error {
	return &refusal{status, title, fmt.Errorf(format, args...)}
}

// errAbsent is for what certainly does not exist, and no failed lookup: the tools create what is
// reported missing, and plan from nothing.
func errAbsent(format string, args ...any) error {
	return newRefusal(http.StatusNotFound, "not found", format, args...)
}

func errNoID() error { return errAbsent("no resource with this ID") }

func malformedError(format string, args ...any) error {
	return newRefusal(http.StatusBadRequest, "bad request", format, args...)
}

func invalidError(format string, args ...any) error {
	return newRefusal(http.StatusUnprocessableEntity, "invalid attribute", format, args...)
}

func conflictError(title, format string, args ...any) error {
	return newRefusal(http.StatusConflict, title, format, args...)
}

func tooLarge(limit int64) error {
	return newRefusal(http.StatusRequestEntityTooLarge, "too large", "the body exceeds %s", text.Size(limit))
}

// answered is an error of a store or a registry, with its status; 5xx only if it may pass, since
// the tools repeat those for minutes.
type answered struct {
	err    error
	status int
	title  string
}

func knownErrors() []answered {
	return []answered{
		{statebackend.ErrAnother, http.StatusForbidden, "lock held by another caller"},
		{statebackend.ErrLockLost, http.StatusConflict, "lock lost"},
		{statebackend.ErrStale, http.StatusConflict, "state does not follow the stored one"},
		{statebackend.ErrRecord, http.StatusUnprocessableEntity, "invalid attribute"},
		{statebackend.ErrReplica, http.StatusUnprocessableEntity, "the repository is a read-only copy"},
		{statebackend.ErrUnsafe, http.StatusUnprocessableEntity, "locking is unsafe on this registry"},
		{statebackend.ErrUnsealed, http.StatusUnprocessableEntity, "the stored state is not encrypted for this location"},
		{statebackend.ErrNotState, http.StatusUnprocessableEntity, "not a state"},
		{oci.ErrRateLimited, http.StatusTooManyRequests, "too many requests"},
		{oci.ErrUnavailable, http.StatusServiceUnavailable, "service unavailable"},
		{oci.ErrUncertain, http.StatusServiceUnavailable, "service unavailable"},
		{context.DeadlineExceeded, http.StatusServiceUnavailable, "service unavailable"},
		{oci.ErrTooLarge, http.StatusRequestEntityTooLarge, "too large"},
		{oci.ErrCorrupt, http.StatusUnprocessableEntity, "the stored state is damaged"},
		{oci.ErrUnsupported, http.StatusUnprocessableEntity, "not supported by the registry"},
		{oci.ErrUnauthenticated, http.StatusUnprocessableEntity, "the registry refuses the credentials of this server"},
		{oci.ErrDenied, http.StatusUnprocessableEntity, "the registry denies this to the account of this server"},
		{oci.ErrNotFound, http.StatusUnprocessableEntity, "the stored state cannot be read"},
	}
}

// classifyError returns an error's status and title, and the details that the client may see.
func classifyError(err error) (status int, title, detail string) {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e.status, e.title, states.Remedy(err)
	}
	if status, message, ok := service.Own(err); ok {
		return status, titleOf(status), message
	}
	if _, ok := errors.AsType[*statebackend.VersionError](err); ok {
		return http.StatusNotFound, "not found", states.Remedy(err)
	}
	for _, a := range knownErrors() {
		if errors.Is(err, a.err) {
			return a.status, a.title, states.Remedy(err)
		}
	}
	if e, ok := errors.AsType[*statebackend.LockedError](err); ok {
		return http.StatusConflict, "workspace is locked by " + orUnknown(e.Held.Who), states.Remedy(err)
	}
	return http.StatusUnprocessableEntity, "the state cannot be read or written", states.Remedy(err)
}

func orUnknown(name string) string {
	if name == "" {
		return "someone else"
	}
	return printableText(name)
}

// titleOf returns the title of a refusal by access control or by the server itself.
func titleOf(status int) string {
	title := http.StatusText(status)
	if slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable}, status) {
		title = strings.ToLower(title)
	}
	return title
}

// problem is a JSON:API error object (section 11.2).
type problem struct {
	Status string         `json:"status"`
	Title  string         `json:"title"`
	Detail string         `json:"detail,omitempty"`
	Meta   map[string]any `json:"meta,omitempty"`
}

type problems struct {
	Errors []problem `json:"errors"`
}

// writeError is the only place that turns an error into an answer.
func (s *gate) writeError(w http.ResponseWriter, r *http.Request, err error) {
	status, title, detail := classifyError(err)
	if !s.kit.Failing(w, r, status, err) {
		return
	}
	p := problem{Status: strconv.Itoa(status), Title: title, Detail: httpserve.NameRegistry(r, detail)}
	if id := service.RequestID(r); id != "" {
		p.Meta = map[string]any{"request_id": id}
	}
	if err := sendDocument(w, status, problems{[]problem{p}}); err != nil { // the document contains nothing that JSON cannot represent
		w.WriteHeader(status)
	}
}
