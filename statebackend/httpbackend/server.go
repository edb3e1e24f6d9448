// SPDX-License-Identifier: Apache-2.0

package httpbackend

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// The methods that the protocol adds to those of HTTP.
const (
	methodLock   = "LOCK"
	methodUnlock = "UNLOCK"
)

const defaultMaxState = 512 << 20

// Options configure a handler. Only Open is required.
type Options struct {
	// Open returns the store of a name, always the same since it remembers locks; or
	// oci.ErrNotFound. It must read strictly (statebackend.Options.StrictReads): a GET may be of a
	// holder.
	Open func(ctx context.Context, name string) (*statebackend.Store, error)
	// MaxState bounds a state in bytes; 0 is 512 MiB.
	MaxState int64
	// Logger gets one record per refused request; nil: none.
	Logger *slog.Logger
}

// Server is the handler of /state/{name}/{workspace}.
type Server struct {
	o      Options
	owner  string
	client string
	note   func(access.Change)      // nil: no callback
	moving *service.Limiter[string] // bytes of large states that are received or sent

	patience time.Duration // how long a state waits for room
}

// New returns a server for states without an owner.
func New(o Options) *Server {
	o.MaxState = cmp.Or(o.MaxState, defaultMaxState)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Server{o: o, moving: service.NewLimiter[string](service.Limits{Total: o.MaxState + o.MaxState/2, Share: max(o.MaxState/2, 1)}), patience: time.Minute}
}

// For returns the server for an owner's run: only states that name the owner, 409 for others.
func (s *Server) For(owner string) *Server {
	of := *s
	of.owner = owner
	return &of
}

// Noting returns a server for requests of a client, which calls note with each change.
func (s *Server) Noting(client string, note func(access.Change)) *Server {
	of := *s
	of.client, of.note = client, note
	return &of
}

// smallState is the size, in bytes, up to which a state needs no reserved memory on its way.
const smallState = 1 << 20

// reserve reserves memory for a state on its way to or from the client, who may be slow: it is not
// that of the stores, which other requests wait for, and a client gets a share of it.
func (s *Server) reserve(ctx context.Context, n int64) (release func(), err error) {
	if n <= smallState {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	release, ok := s.moving.Wait(ctx, s.client, n)
	if !ok {
		return nil, busyError()
	}
	return release, nil
}

func (s *Server) noteChange(c access.Change) {
	if s.note != nil {
		s.note(c)
	}
}

type target struct {
	store     *statebackend.Store
	name      string
	workspace string
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.serveState(w, r); err != nil {
		s.writeError(w, r, err)
	}
}

func (s *Server) serveState(w http.ResponseWriter, r *http.Request) error {
	name, workspace, err := parsePath(r.URL.EscapedPath())
	if err != nil {
		return err
	}
	store, err := s.o.Open(r.Context(), name)
	if err != nil {
		return err
	}
	t := target{store: store, name: name, workspace: workspace}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return s.getState(w, r, t)
	case http.MethodPost, http.MethodPut: // update_method of the tools' backend
		return s.postState(w, r, t)
	case http.MethodDelete:
		return s.delete(w, r, t)
	case methodLock:
		return s.lock(w, r, t)
	case methodUnlock:
		return s.unlock(w, r, t)
	}
	return errMethod
}

const maxSegment = 1024

func parsePath(escaped string) (name, workspace string, err error) {
	rest, ok := strings.CutPrefix(escaped, "/state/")
	if !ok {
		return "", "", fmt.Errorf("path is not /state/NAME/WORKSPACE: %w", oci.ErrNotFound)
	}
	segments := strings.Split(rest, "/")
	if len(segments) != 2 {
		return "", "", fmt.Errorf("path is not /state/NAME/WORKSPACE: %w", oci.ErrNotFound)
	}
	for i, segment := range segments {
		s, err := url.PathUnescape(segment)
		if err != nil || !validSegment(s) {
			return "", "", fmt.Errorf("path has an empty or malformed segment: %w", oci.ErrNotFound)
		}
		segments[i] = s
	}
	return segments[0], segments[1], nil
}

func validSegment(s string) bool {
	dots := s == "." || s == ".."
	legible := utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
	return s != "" && !dots && len(s) <= maxSegment && legible
}

// Errors in a request that no store error describes.
var (
	errMethod = errors.New("method is not GET, POST, PUT, DELETE, LOCK or UNLOCK")
	errBody   = errors.New("bad request body")
)

func busyError() error {
	return fmt.Errorf("too many large states are being transferred, try again in a moment: %w", oci.ErrUnavailable)
}

// writeError is the only place that decides the status of a failed request.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	text := httpserve.NameRegistry(r, states.Remedy(err))
	s.o.Logger.Warn("state request refused", "request_id", r.Header.Get(httpserve.RequestID), "method", r.Method, "path", r.URL.EscapedPath(), "status", status, "error", text)
	var body any = struct {
		Errors    []string `json:"errors"`
		RequestID string   `json:"request_id,omitempty"`
	}{[]string{text}, r.Header.Get(httpserve.RequestID)}
	if locked, ok := errors.AsType[*statebackend.LockedError](err); ok && status == http.StatusLocked {
		body = locked.Held
	}
	if e, ok := errors.AsType[*oci.ResponseError](err); ok && e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds())+1))
	}
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, DELETE, LOCK, UNLOCK")
	}
	b, err := json.Marshal(body)
	if err != nil { // the value has only strings and times
		b = []byte("{}")
	}
	writeBytes(w, r, status, append(b, '\n'))
}

func statusOf(err error) int {
	if errors.Is(err, statebackend.ErrAnother) {
		return http.StatusForbidden
	}
	for _, conflict := range [...]error{statebackend.ErrLockLost, statebackend.ErrStale, statebackend.ErrReplica, statebackend.ErrUnsealed, statebackend.ErrOwner} {
		if errors.Is(err, conflict) {
			return http.StatusConflict
		}
	}
	if _, ok := errors.AsType[*statebackend.LockedError](err); ok {
		return http.StatusLocked
	}
	for _, c := range [...]struct {
		err    error
		status int
	}{
		{errMethod, http.StatusMethodNotAllowed},
		{errBody, http.StatusBadRequest},
		{oci.ErrNotFound, http.StatusNotFound},
		{oci.ErrUnauthenticated, http.StatusUnauthorized},
		{oci.ErrDenied, http.StatusForbidden},
		{oci.ErrTooLarge, http.StatusRequestEntityTooLarge},
		{oci.ErrRateLimited, http.StatusTooManyRequests},
		{oci.ErrCorrupt, http.StatusBadGateway},
		{oci.ErrUnsupported, http.StatusNotImplemented},
		{statebackend.ErrUnsafe, http.StatusNotImplemented},
		{oci.ErrUnavailable, http.StatusServiceUnavailable},
		{context.DeadlineExceeded, http.StatusServiceUnavailable},
	} {
		if errors.Is(err, c.err) {
			return c.status
		}
	}
	return http.StatusInternalServerError
}

// writeBytes sends a complete body; a disconnected client is not an error.
func writeBytes(w http.ResponseWriter, r *http.Request, status int, b []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = bytes.NewReader(b).WriteTo(w)
	}
}
