// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/httpserve"
)

// Options is what a [Kit] needs. Guard is required.
type Options struct {
	Guard    *access.Guard                                         // determines the address of a client
	Answered func(r *http.Request, status int, took time.Duration) // is called after each answer; may be nil
	Logger   *slog.Logger                                          // gets the details that an answer does not show; nil: no log
	Hop      func(r *http.Request) string                          // returns the value of HopHeader; nil: it is unknown
}

// HopHeader marks a forwarded request: the URL that reached the first replica, signed, or "1".
const HopHeader = "Okara-Hop"

// Kit is what the services of one server share. It is safe for concurrent use.
type Kit struct {
	Guard    *access.Guard                // authorises requests
	Hop      func(r *http.Request) string // returns the value of HopHeader for a request that is forwarded
	o        Options
	Requests *ClientLimiter // one place per request under [Kit.Limit]
	bodies   *ClientLimiter // one place per body that is read after [Kit.OpenBody]
	routes   routes

	close   sync.Once
	closing chan struct{}
}

// New returns a kit.
func New(o Options) *Kit {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Answered == nil {
		o.Answered = func(*http.Request, int, time.Duration) {}
	}
	if o.Hop == nil {
		o.Hop = func(*http.Request) string { return "1" }
	}
	return &Kit{Guard: o.Guard, Hop: o.Hop, o: o, Requests: NewClientLimiter(maxRequests), bodies: NewClientLimiter(maxBodies), closing: make(chan struct{})}
}

// Close ends streams, whose clients reconnect elsewhere; other answers continue.
func (k *Kit) Close() { k.close.Do(func() { close(k.closing) }) }

// Closing is closed by [Kit.Close].
func (k *Kit) Closing() <-chan struct{} { return k.closing }

// Handler answers, or returns an error, which it must not once it has begun to answer.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Fail answers a request with an error.
type Fail func(w http.ResponseWriter, r *http.Request, err error)

// Handle makes an http.Handler of h. Errors of h are answered by fail.
func (k *Kit) Handle(h Handler, fail Fail) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := httpserve.NewResponse(w)
		r, done := closeBodyOf(r)
		defer done()
		var watched *access.Watch
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			r, watched = access.NewWatch(r)
			DecideAgain(r, watched.DecideAgain)
		}
		if err := k.containPanic(h, rec, r); err != nil {
			fail(rec, r, refusalOf(r, err))
		}
		watched.RecordFailure(r.Pattern, rec.Status())
		k.o.Answered(r, rec.Status(), time.Since(start))
	})
}

// containPanic makes a panic this request's error, or cuts an answer that has begun.
func (k *Kit) containPanic(h Handler, w *httpserve.Response, r *http.Request) (err error) {
	defer func() {
		p := recover()
		switch p {
		case nil:
			return
		case http.ErrAbortHandler: // the handler wants the connection cut
			panic(http.ErrAbortHandler)
		}
		k.Log(r).Error("panic", "path", LogPath(r), "panic", p, "stack", string(debug.Stack()))
		if w.Status() != 0 {
			panic(http.ErrAbortHandler)
		}
		err = &Error{Status: http.StatusInternalServerError, Text: "internal error"}
	}()
	return h(w, r)
}

// Log returns the logger for records about a request.
func (k *Kit) Log(r *http.Request) *slog.Logger {
	return k.o.Logger.With("request_id", RequestID(r))
}

// Client returns what counts as one client: an IPv4 address, or an IPv6 /64 (RFC 7934, 1). All
// unparsable ones are one.
func (k *Kit) Client(r *http.Request) netip.Prefix {
	ip, err := netip.ParseAddr(k.Guard.ClientIP(r))
	if err != nil {
		return netip.Prefix{}
	}
	bits := 64
	if ip = ip.Unmap(); ip.Is4() {
		bits = 32
	}
	client, _ := ip.WithZone("").Prefix(bits) // the length is right for the address
	return client
}

// RequestID returns the ID of a request in logs; "" if no server assigned one.
func RequestID(r *http.Request) string { return r.Header.Get(RequestIDHeader) }

// RequestIDHeader is the header with the ID of a request.
const RequestIDHeader = httpserve.RequestID

// LogPath returns the path of a request in the form that logs may show.
func LogPath(r *http.Request) string { return httpserve.SafePath(r.URL.Path) }

// NoSniff stops browsers from guessing types. Every answer has it.
const NoSniff = "X-Content-Type-Options"

// Reset removes the headers of an answer that is replaced, but for those that every answer has.
func Reset(h http.Header) {
	for name := range h {
		if name != httpserve.RequestID && name != NoSniff {
			h.Del(name)
		}
	}
}
