// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/service"
)

// apiError is an error of this package with more fields than a text.
type apiError struct {
	Status int
	Reason string // of package api
	Text   string
	Fields map[string]string
	After  int // seconds after which to retry; 0: not sent
}

func (e *apiError) Error() string { return e.Text }

func fieldError(path, format string, args ...any) error {
	return &template.FieldError{Path: path, Text: fmt.Sprintf(format, args...)}
}

// answered maps an error of the machine or of a store to a status and a reason.
type answered struct {
	err    error
	status int
	reason string
}

// errorAnswers lists all mappings. The first that matches counts.
func errorAnswers() []answered {
	return []answered{
		{lifecycle.ErrNotFound, http.StatusNotFound, api.ReasonNotFound},
		{lifecycle.ErrNoEnd, http.StatusBadRequest, api.ReasonNoEnd},
		{lifecycle.ErrDenied, http.StatusForbidden, api.ReasonDenied},
		{lifecycle.ErrPhase, http.StatusConflict, api.ReasonPhase},
		{lifecycle.ErrExtends, http.StatusConflict, api.ReasonExtends},
		{lifecycle.ErrStalePlan, http.StatusConflict, api.ReasonStalePlan},
		{lifecycle.ErrProtected, http.StatusConflict, api.ReasonProtected},
		{lifecycle.ErrPaused, http.StatusConflict, api.ReasonPaused},
		{template.ErrInvalid, http.StatusUnprocessableEntity, api.ReasonInvalid},
		{lifecycle.ErrKeyReused, http.StatusUnprocessableEntity, api.ReasonKeyReused},
		{lifecycle.ErrExists, http.StatusConflict, api.ReasonExists},
		{lifecycle.ErrPoolEmpty, http.StatusConflict, api.ReasonPoolEmpty},
		{lifecycle.ErrFull, http.StatusServiceUnavailable, api.ReasonFull},
		{lifecycle.ErrNoLeader, http.StatusServiceUnavailable, api.ReasonNoLeader},
		{context.DeadlineExceeded, http.StatusServiceUnavailable, api.ReasonNoLeader},
		{errors.ErrUnsupported, http.StatusNotImplemented, "unsupported"},
	}
}

// classifyError returns the answer to an error; status 0: the error is not of this package.
func classifyError(r *http.Request, err error) (int, api.Error) {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.Status, api.Error{Errors: []string{e.Text}, Fields: e.Fields, Reason: e.Reason}
	}
	if e, ok := errors.AsType[*lifecycle.QuotaError](err); ok {
		return http.StatusForbidden, api.Error{Errors: []string{e.Error()}, Reason: api.ReasonQuota, Limit: e.Limit, Used: e.Used}
	}
	if _, _, own := service.Own(err); own {
		return 0, api.Error{}
	}
	for _, k := range errorAnswers() {
		if !errors.Is(err, k.err) {
			continue
		}
		doc := api.Error{Errors: []string{httpserve.NameRegistry(r, err.Error())}, Reason: k.reason}
		switch {
		case k.reason == api.ReasonInvalid:
			addFieldErrors(&doc, err)
		case k.reason == api.ReasonNoLeader:
			doc.Errors = []string{noLeader(r)}
		case k.status == http.StatusNotImplemented:
			doc.Errors = []string{"not supported by this store of instances"}
		}
		return k.status, doc
	}
	return 0, api.Error{}
}

// noLeader explains how to repeat a change without its being done twice.
func noLeader(r *http.Request) string {
	if readOnly(r) {
		return "no leader available; retry"
	}
	if key := r.Header.Get(api.IdempotencyKey); checkKey(key) == nil && key != "" {
		return "no leader available; retry with key " + key + ", it is applied once"
	}
	return "no leader available, and the result is unknown; check before you retry"
}

// addFieldErrors lists what is wrong with the values of a body.
func addFieldErrors(doc *api.Error, err error) {
	fields := fieldErrors(err)
	if len(fields) == 0 {
		return
	}
	doc.Errors = nil
	doc.Fields = map[string]string{}
	for _, f := range fields {
		if _, twice := doc.Fields[f.Path]; !twice {
			doc.Fields[f.Path] = f.Text
			doc.Errors = append(doc.Errors, strings.TrimPrefix(f.Path, "/")+": "+f.Text)
		}
	}
}

// maxFields bounds the number of errors in one answer.
const maxFields = 50

// fieldErrors returns the field errors in a tree of errors, in its order.
func fieldErrors(err error) []*template.FieldError {
	if f, ok := err.(*template.FieldError); ok { //nolint:errorlint // the tree is walked here
		return []*template.FieldError{f}
	}
	var all []*template.FieldError
	switch e := err.(type) { //nolint:errorlint // likewise
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if all = append(all, fieldErrors(inner)...); len(all) > maxFields {
				return all[:maxFields]
			}
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return fieldErrors(inner)
		}
	}
	return all
}

// writeError is the only place that maps an error to an answer.
func (s *server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	status, doc := classifyError(r, err)
	if status == 0 || errors.Is(r.Context().Err(), context.Canceled) {
		s.kit.Fail(w, r, err)
		return
	}
	service.Reset(w.Header())
	doc.RequestID = service.RequestID(r)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	switch e, ok := errors.AsType[*apiError](err); {
	case ok && e.After > 0:
		h.Set("Retry-After", strconv.Itoa(e.After))
	case status == http.StatusServiceUnavailable:
		h.Set("Retry-After", "2")
	}
	if status >= http.StatusInternalServerError {
		s.kit.Log(r).Error("request failed", "method", r.Method, "path", service.LogPath(r), "status", status, "error", err)
	}
	_ = service.WriteJSON(w, status, doc) // texts and numbers always encode
}
