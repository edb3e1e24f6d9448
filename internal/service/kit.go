// SPDX-License-Identifier: Apache-2.0

package service

import (
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
	Guard    *access.Guard                                         // knows the address of a client
	Answered func(r *http.Request, status int, took time.Duration) // hears of each answer; nil: nobody does
	Logger   *slog.Logger                                          // what an answer does not tell; nil: none
}

// Kit is what the services of one server share. It is safe for concurrent use.
type Kit struct {
	Guard    *access.Guard // decides about requests
	o        Options
	Requests *Limiter // one per request under [Kit.Limit]
	bodies   *Limiter // one per body that is being read after [Kit.OpenBody]
	routes   routes

	close   sync.Once
	closing chan struct{}
}

// New returns a kit.
func New(o Options) *Kit {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Answered == nil {
		o.Answered = func(*http.Request, int, time.Duration) {}
	}
	return &Kit{Guard: o.Guard, o: o, Requests: NewLimiter(maxRequests), bodies: NewLimiter(maxBodies), closing: make(chan struct{})}
}

// Close says that the server stops: answers that go on for as long as somebody looks
// have to end, and their clients come again elsewhere. All others go on.
func (k *Kit) Close() { k.close.Do(func() { close(k.closing) }) }

// Closing is closed by [Kit.Close].
func (k *Kit) Closing() <-chan struct{} { return k.closing }

// Handler answers a request or returns an error, which it never does after it
// has begun to answer.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Fail answers a request with an error.
type Fail func(w http.ResponseWriter, r *http.Request, err error)

// Handle makes an http.Handler of h, whose errors fail answers.
func (k *Kit) Handle(h Handler, fail Fail) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := httpserve.NewResponse(w)
		r, done := shut(r)
		defer done()
		if err := k.contain(h, rec, r); err != nil {
			fail(rec, r, err)
		}
		k.o.Answered(r, rec.Status(), time.Since(start))
	})
}

// contain turns a panic into an error of this one request. Where the answer has
// begun, the connection is cut, as net/http does it.
func (k *Kit) contain(h Handler, w *httpserve.Response, r *http.Request) (err error) {
	defer func() {
		p := recover()
		switch p {
		case nil:
			return
		case http.ErrAbortHandler: // the connection is to be cut
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

// Log returns the log for what belongs to a request.
func (k *Kit) Log(r *http.Request) *slog.Logger {
	return k.o.Logger.With("request_id", RequestID(r))
}

// Client is what counts as one client: an IPv4 address, or the /64 of an IPv6
// address, in which one host picks addresses as it likes (RFC 7934, section 1).
// All whose address cannot be read are one.
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

// RequestID names a request in logs; "" where no server gave it a name.
func RequestID(r *http.Request) string { return r.Header.Get(RequestIDHeader) }

// RequestIDHeader has the name of a request.
const RequestIDHeader = httpserve.RequestID

// LogPath is the path of a request as logs may show it.
func LogPath(r *http.Request) string { return httpserve.SafePath(r.URL.Path) }

// NoSniff is the header that keeps browsers from taking an answer for a page or
// a script. It is on every answer.
const NoSniff = "X-Content-Type-Options"

// Reset takes back the header of an answer that will be another one, but for what
// is on every answer.
func Reset(h http.Header) {
	for name := range h {
		if name != httpserve.RequestID && name != NoSniff {
			h.Del(name)
		}
	}
}
