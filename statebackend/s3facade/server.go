// SPDX-License-Identifier: Apache-2.0

package s3facade

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// Options configure a facade.
type Options struct {
	// AccessKey must be in the credential of every request; required.
	AccessKey string
	// Open returns the store of a repository, {workspace} replaced, once per Ref.Remote; required.
	Open func(ctx context.Context, p Ref) (*statebackend.Store, error)
	// Repositories are the repositories whose workspaces the bucket lists.
	Repositories []string
	// Workspaces are tried if a repository's name contains {workspace}: no listing finds them.
	Workspaces []string
	// LockWait is how long to wait for a lock, until Done: tools ask again only after up to 16 s.
	LockWait time.Duration
	Done     <-chan struct{}
	// LockNote returns text for the Info of the run's locks, on where they come from; nil: none.
	LockNote func() string
	// Taken is a lock that the caller took before the run and ends after it; nil: the tool locks.
	// It is served as the default workspace of the only one of Repositories: locking and unlocking
	// succeed without effect, writes go under Taken. Other states and its deletion are refused.
	Taken *statebackend.Lock
	// Persist is how long a write under Taken is repeated while the registry is away. Stored is
	// called with each written version and its state, which must not be changed; nil: no callback.
	Persist time.Duration
	Stored  func(v statebackend.Version, state []byte)
	// Loaded is called with each state that the tool reads and may write, and its User-Agent; nil: no callback.
	Loaded func(agent string, state []byte)
	// TempDir holds the parts of multipart uploads; "": the system's default.
	TempDir string
	// MaxState bounds a state; 0: 512 MiB.
	MaxState int64
	// Failed receives each store error that ended a request, since the tools get one line in S3's
	// words; for contention see Refused. It must be safe for concurrent use; nil: no callback.
	Failed func(err error)
	// Logger gets one debug record for each request; nil: none.
	Logger *slog.Logger
}

const defaultMaxState = 512 << 20

// Facade is the server of one run. Close it when the run ends.
type Facade struct {
	o       Options
	read    snapshots
	uploads uploads
	locks   *lockObjects

	mu      sync.Mutex // guards the fields below
	stores  map[storeKey]*statebackend.Store
	written map[Ref]bool // what Written lists
}

// lockObjects serves the object that the tool uses as a lock.
type lockObjects struct {
	o    Options
	open func(context.Context, Ref) (*statebackend.Store, error)
	read *snapshots

	mu      sync.Mutex                    // guards the fields below
	own     map[Ref]*statebackend.Lock    // taken by this run and not released
	heldBy  map[Ref]statebackend.LockInfo // by the last attempt, until it is shown
	refused map[Ref]error                 // why the last attempt got no lock
	shown   map[Ref]statebackend.LockInfo // what a DELETE of the lock object releases
	applied map[Ref]applied               // the last lock, if it was an apply's and is released
}

type storeKey struct {
	repository string
	remote     bool
}

// New returns a facade.
func New(o Options) *Facade {
	o.MaxState = cmp.Or(o.MaxState, defaultMaxState)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.LockNote == nil {
		o.LockNote = func() string { return "" }
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	f := &Facade{
		o:       o,
		read:    snapshots{last: make(map[Ref]snapshot)},
		stores:  make(map[storeKey]*statebackend.Store),
		written: make(map[Ref]bool),
	}
	f.locks = &lockObjects{
		o: o, open: f.store, read: &f.read,
		own: map[Ref]*statebackend.Lock{}, heldBy: map[Ref]statebackend.LockInfo{}, refused: map[Ref]error{}, shown: map[Ref]statebackend.LockInfo{}, applied: map[Ref]applied{},
	}
	if o.Loaded == nil {
		f.o.Loaded = func(string, []byte) {}
	}
	if o.Stored == nil {
		f.o.Stored = func(statebackend.Version, []byte) {}
	}
	if o.Taken != nil {
		f.locks.own[o.takenRef()] = o.Taken
	}
	f.uploads = uploads{o: o, write: f.storeState, open: make(map[string]*upload)}
	return f
}

// Held is a lock that the run took and did not release.
type Held struct {
	Ref
	Info statebackend.LockInfo
}

// Held lists the locks that the run took and did not release, as after a killed tool.
func (f *Facade) Held() []Held {
	f.locks.mu.Lock()
	defer f.locks.mu.Unlock()
	var held []Held
	for p, l := range f.locks.own {
		held = append(held, Held{Ref: p, Info: l.Info()})
	}
	return held
}

// Refused returns the errors of the locks that the run requested last and did not get.
func (f *Facade) Refused() []error {
	f.locks.mu.Lock()
	defer f.locks.mu.Unlock()
	return slices.Collect(maps.Values(f.locks.refused))
}

// Lease returns age and duration of the run's lease that expires first; 0, 0 without any.
func (f *Facade) Lease() (age, ttl time.Duration) {
	f.locks.mu.Lock()
	defer f.locks.mu.Unlock()
	for _, l := range f.locks.own {
		if a, t := l.Lease(); t > 0 && (ttl == 0 || t-a < ttl-age) {
			age = a
			ttl = t
		}
	}
	return age, ttl
}

// Written lists the workspaces whose state the run changed.
func (f *Facade) Written() []Ref {
	f.mu.Lock()
	defer f.mu.Unlock()
	refs := slices.Collect(maps.Keys(f.written))
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.objectKey(), b.objectKey()) })
	return refs
}

// Close removes the files of unfinished uploads. It releases no lock: a tool that was killed may
// have changed infrastructure without recording it.
func (f *Facade) Close() error { return f.uploads.close() }

// ServeHTTP answers one request.
func (f *Facade) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(statebackend.WithTool(r.Context(), r.UserAgent()))
	err := f.authorize(r)
	if err == nil {
		err = f.route(w, r)
	}
	f.o.Logger.DebugContext(r.Context(), "state request", "method", r.Method, "path", r.URL.Path, "error", err)
	if err != nil {
		f.writeError(w, r, err)
	}
}

// authorize checks "AWS4-HMAC-SHA256 Credential=<access key>/<date>/<region>/s3/aws4_request, ...".
func (f *Facade) authorize(r *http.Request) error {
	_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(scope, "/")
	if f.o.AccessKey == "" || subtle.ConstantTimeCompare([]byte(key), []byte(f.o.AccessKey)) != 1 {
		return &s3Error{http.StatusForbidden, "InvalidAccessKeyId", "this server serves one run of a tool, and the request is not part of it"}
	}
	return nil
}

func (f *Facade) route(w http.ResponseWriter, r *http.Request) error {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if bucket != Bucket {
		return &s3Error{http.StatusNotFound, "NoSuchBucket", fmt.Sprintf("no bucket %q", bucket)}
	}
	if key == "" {
		return f.serveBucket(w, r)
	}
	o, ok := parseKey(key)
	if !ok {
		return &s3Error{http.StatusNotFound, "NoSuchKey", fmt.Sprintf("key %q has no repository", key)}
	}
	if err := f.checkTaken(r, o); err != nil {
		return err
	}
	switch {
	case o.Remote && r.Method != http.MethodGet && r.Method != http.MethodHead:
		return &s3Error{http.StatusForbidden, "AllAccessDisabled",
			fmt.Sprintf("terraform_remote_state is read-only, and %s has no state of workspace %q", o.Repository, o.Workspace)}
	case o.lock && f.o.Taken != nil:
		return f.serveTakenLock(w, r, o.Ref)
	case o.lock:
		return f.locks.serveLock(w, r, o.Ref)
	case r.URL.Query().Has("uploads") || r.URL.Query().Has("uploadId"):
		return f.uploads.serve(w, r, o.Ref)
	}
	return f.serveState(w, r, o.Ref)
}

func (f *Facade) serveBucket(w http.ResponseWriter, r *http.Request) error {
	switch r.Method {
	case http.MethodHead:
		return nil
	case http.MethodGet:
		return f.listObjects(w, r)
	}
	return errMethod(r)
}

func errMethod(r *http.Request) error {
	return &s3Error{http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method + " is not used by the s3 backend"}
}

func (f *Facade) store(ctx context.Context, p Ref) (*statebackend.Store, error) {
	p.Repository = strings.ReplaceAll(p.Repository, statebackend.WorkspaceVariable, p.Workspace)
	k := storeKey{p.Repository, p.Remote}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.stores[k]; ok {
		return s, nil
	}
	s, err := f.o.Open(ctx, p)
	if err != nil {
		return nil, err
	}
	f.stores[k] = s
	return s, nil
}

// s3Error is an error that this package itself answers with.
type s3Error struct {
	status        int
	code, message string
}

func (e *s3Error) Error() string { return e.message }

type errorBody struct {
	XMLName  xml.Name `xml:"Error"`
	Code     string
	Message  string
	Resource string
}

// writeError decides the status of every failed request. The tools print the message after several
// words of their own, so details of store errors are left to Failed and Refused.
func (f *Facade) writeError(w http.ResponseWriter, r *http.Request, err error) {
	status, code := classifyError(err)
	message := "okara prints the reason"
	switch _, own := errors.AsType[*s3Error](err); {
	case own || status == http.StatusNotFound:
		message = err.Error()
	case status == http.StatusPreconditionFailed:
		message = "the state is locked, okara prints by whom"
	default:
		f.o.Failed(err)
	}
	writeXML(w, status, errorBody{Code: code, Message: message, Resource: r.URL.Path})
}

func classifyError(err error) (status int, code string) {
	if e, ok := errors.AsType[*s3Error](err); ok {
		return e.status, e.code
	}
	if _, ok := errors.AsType[*statebackend.LockedError](err); ok {
		return http.StatusPreconditionFailed, "PreconditionFailed"
	}
	for _, c := range []struct {
		is     error
		status int
		code   string
	}{
		{statebackend.ErrLockLost, http.StatusConflict, "OperationAborted"},
		{statebackend.ErrStale, http.StatusConflict, "OperationAborted"},
		{statebackend.ErrUnsafe, http.StatusConflict, "OperationAborted"},
		{statebackend.ErrReplica, http.StatusConflict, "OperationAborted"},
		{statebackend.ErrUnsealed, http.StatusConflict, "OperationAborted"},
		{oci.ErrNotFound, http.StatusNotFound, "NoSuchKey"},
		{oci.ErrUnauthenticated, http.StatusForbidden, "AllAccessDisabled"},
		{oci.ErrDenied, http.StatusForbidden, "AllAccessDisabled"},
		{oci.ErrTooLarge, http.StatusBadRequest, "EntityTooLarge"},
		{oci.ErrRateLimited, http.StatusServiceUnavailable, "SlowDown"},
		{oci.ErrUnavailable, http.StatusServiceUnavailable, "ServiceUnavailable"},
		{oci.ErrUnsupported, http.StatusNotImplemented, "NotImplemented"},
	} {
		if errors.Is(err, c.is) {
			return c.status, c.code
		}
	}
	return http.StatusInternalServerError, "InternalError"
}

// writeXML sends v; a disconnected client is not an error.
func writeXML(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	body, err := xml.Marshal(v)
	if err != nil {
		return
	}
	_, _ = w.Write(append([]byte(xml.Header), body...))
}
