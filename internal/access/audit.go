// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/text"
)

// maxClientText bounds a text that a client sent, in a record or a log.
const maxClientText = 256

// clipText returns what a client sent as one safe line of bounded length.
func clipText(foreign string) string { return text.Clip(text.Line(foreign), maxClientText) }

// Record is a decision: the caller, the right that was needed, and the rule that
// grants it, if any. It contains no token and no link.
type Record struct {
	Caller Caller
	Right  rights.Right
	Rule   string // empty: denied
	Detail string // what a request to the registry API is about, such as a tag
}

// Record writes a decision to the audit log, for requests that [Guard.Allow] does not decide.
func (g *Guard) Record(r *http.Request, d Record) {
	decision := "allowed"
	if d.Rule == "" {
		decision = "denied"
	}
	if g.o.Decided != nil {
		g.o.Decided(d.Caller.Mode, decision)
	}
	if g.o.Audit == nil {
		return
	}
	rec := slog.NewRecord(time.Now(), slog.LevelInfo, "decision", 0) // without the place in the source, which takes long to find
	rec.AddAttrs(
		slog.String("request_id", r.Header.Get(httpserve.RequestID)),
		slog.String("action", string(d.Right.Action)), slog.String("kind", string(d.Right.Kind)), slog.String("address", d.Right.Address),
		slog.String("version", r.PathValue("version")), slog.String("detail", d.Detail),
		slog.String("decision", decision), slog.String("rule", d.Rule),
		slog.String("mode", d.Caller.Mode), slog.String("subject", d.Caller.Subject), slog.String("issuer", d.Caller.Issuer),
		slog.String("client_ip", g.ClientIP(r)), slog.String("user_agent", clipText(r.UserAgent())))
	_ = g.o.Audit.Handler().Handle(r.Context(), rec) // the log reports its own errors
}

// registryTarget returns what a write to the built-in registry is about: "manifests/TAG".
func registryTarget(r *http.Request) string {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || !strings.HasPrefix(r.URL.Path, "/v2/") {
		return ""
	}
	if i := strings.LastIndex(r.URL.Path, "/manifests/"); i >= 0 {
		return clipText(r.Method + " " + r.URL.Path[i+1:])
	}
	return ""
}

// Change is the result of an action that a [Grant] allowed.
type Change struct {
	Action  rights.Action // what was done, such as Publish or "yank"
	Version string
	From    string // version whose content it has again, of a restored state
	Digest  string
	Lock    string    // ID of a state's lock
	Run     int       // number of a run of the workspace; 0: none
	Detail  string    // which part of the object, such as the path of a value; never the value
	Status  int       // HTTP status of the answer, which determines the outcome
	At      time.Time // when it was made; zero: now
	Found   bool      // it was done before: recorded only if the caller's last try failed
}

// failures are acts whose records say that they failed, although they may have been done.
type failures struct {
	mu  sync.Mutex         // guards all
	all map[[4]string]bool // by caller, address, action, and version or lock; 10,000 at most
}

// noteTry remembers how a change ended, and reports whether the caller's try before failed, whose
// record may say less.
func (f *failures) noteTry(g Grant, address string, c Change) (before bool) {
	of := c.Version
	if g.right.Kind == addr.KindState {
		of = c.Lock
	}
	this := [4]string{g.Identity(), address, string(c.Action), of}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch outcome := Outcome(c.Status); {
	case outcome == Failed:
		if len(f.all) >= 10_000 { // most are of runs that never try again
			clear(f.all)
		}
		f.all[this] = true
	case outcome == Done:
		for _, try := range [][4]string{this, {this[0], address, this[2]}, {this[0], address, string(g.right.Action)}} {
			before = before || f.all[try]
			delete(f.all, try)
		}
	}
	return before
}

// Again is the detail of an act that another server did and may have recorded before it was stopped:
// the request came here again, as if its answer was lost.
const Again = "repeated at another server"

// NotCurrent is the detail of a write whose version is kept and did not become the state.
const NotCurrent = "not current"

// Ended returns a change with its status. The version of a refused one keeps what was sent.
func (c Change) Ended(status int) Change {
	c.Status = status
	if c.Version != "" && Outcome(status) == Refused {
		c.Detail = NotCurrent
	}
	return c
}

// Own is a change that the server makes by itself.
type Own struct {
	Action  rights.Action
	Kind    rights.Kind
	Address string
	Version string
	Digest  string
	Run     int // number of a run; 0: none
	Detail  string
	For     Caller // the caller on whose behalf it is made; zero: none
	Outcome string // [Done], [Refused] or [Failed]
}

// RecordOwn records a change that the server makes by itself; the log may be nil.
func RecordOwn(ctx context.Context, to *slog.Logger, c Own) {
	if to == nil {
		return
	}
	to.LogAttrs(ctx, slog.LevelInfo, changeMessage,
		slog.String("action", string(c.Action)), slog.String("kind", string(c.Kind)), slog.String("address", c.Address),
		slog.String("version", c.Version), slog.String("digest", c.Digest), slog.Int("run", c.Run), slog.String("detail", c.Detail),
		slog.String("outcome", c.Outcome), slog.String("mode", "server"), slog.String("subject", c.For.Subject), slog.String("issuer", c.For.Issuer))
}

// Outcomes of a change, requested or made by the server itself.
const (
	Done    = "done"
	Refused = "refused" // nothing was changed
	Failed  = "failed"  // the object may have been changed in part
)

// Outcome returns the outcome that an HTTP status stands for; "" for status 0.
func Outcome(status int) string {
	switch {
	case status == 0:
		return ""
	case status < http.StatusBadRequest:
		return Done
	case status < http.StatusInternalServerError:
		return Refused
	}
	return Failed
}

// Messages of records that are not decisions. A refused request is not a change.
const (
	changeMessage = "change"
	refusedChange = "refused"
)

// Kind returns the kind of the right.
func (g Grant) Kind() rights.Kind { return g.right.Kind }

// Address returns the address of the right.
func (g Grant) Address() string { return g.right.Address }

// Watch is what a request that may change something was allowed last, with which status it
// failed, and whether it recorded a change, which others may do for it later.
type Watch struct {
	grant    Grant
	failed   int // 0: it did not, or the answer has the status
	recorded atomic.Bool
}

type watchKey struct{}

// NewWatch returns a request that is watched.
func NewWatch(r *http.Request) (*http.Request, *Watch) {
	w := &Watch{}
	return r.WithContext(context.WithValue(r.Context(), watchKey{}, w)), w
}

// DecideAgain decides again what was allowed last.
func (w *Watch) DecideAgain() error {
	g := w.grant
	switch {
	case g.guard == nil:
		return nil
	case g.proof != nil:
		return g.guard.CheckProof(*g.proof, g.right)
	}
	_, err := g.guard.Allow(g.r, g.right)
	return err
}

// Unwatch ends the watch of a request that has no effect by itself, as an upload.
func Unwatch(r *http.Request) {
	if w, ok := r.Context().Value(watchKey{}).(*Watch); ok {
		w.grant = Grant{}
	}
}

// NoteFailure lets the watch of a request know of its status, also if its client is gone.
func NoteFailure(r *http.Request, status int) {
	if w, ok := r.Context().Value(watchKey{}).(*Watch); ok {
		w.failed = status
	}
}

// watch lets the watch of the request know of the grant.
func (g Grant) watch() Grant {
	if w, ok := g.r.Context().Value(watchKey{}).(*Watch); ok {
		w.grant = g
	}
	return g
}

// RecordFailure records that a change failed with a status, if it did and no record tells of it.
func (w *Watch) RecordFailure(pattern string, status int) {
	if w == nil {
		return
	}
	status = cmp.Or(w.failed, status)
	if g := w.grant; g.guard != nil && !w.recorded.Load() && Outcome(status) == Failed && g.right.Action != rights.Read && g.right.Action != rights.List {
		g.Record(g.Address(), Change{Action: g.right.Action, Detail: pattern, Status: status})
	}
}

// Record writes a change of the object at an address, or its refusal, to the audit log.
func (g Grant) Record(address string, c Change) {
	if failed := g.guard.failures.noteTry(g, address, c); c.Found && !failed && Outcome(c.Status) == Done {
		return
	}
	outcome := Outcome(c.Status)
	if w, ok := g.r.Context().Value(watchKey{}).(*Watch); ok {
		w.recorded.Store(true)
	}
	if g.guard.o.Audit == nil {
		return
	}
	message := changeMessage
	if outcome == Refused {
		message = refusedChange
	}
	if c.At.IsZero() {
		c.At = time.Now()
	}
	if c.Run == 0 && g.Mode == modeRun { // which writes the state of its own workspace
		_, attempt, _ := strings.Cut(g.Subject, "/")
		n, _, _ := strings.Cut(attempt, "/")
		c.Run, _ = strconv.Atoi(n)
	}
	rec := slog.NewRecord(c.At, slog.LevelInfo, message, 0)
	rec.AddAttrs(
		slog.String("request_id", g.r.Header.Get(httpserve.RequestID)),
		slog.String("action", string(c.Action)), slog.String("kind", string(g.right.Kind)), slog.String("address", address),
		slog.String("version", c.Version), slog.String("from_version", c.From), slog.String("digest", c.Digest),
		slog.String("lock_id", c.Lock), slog.Int("run", c.Run), slog.String("detail", c.Detail), slog.String("outcome", outcome),
		slog.String("decision", "allowed"), slog.String("rule", g.rule),
		slog.String("mode", g.Mode), slog.String("subject", g.Subject), slog.String("issuer", g.Issuer),
		slog.String("client_ip", g.guard.ClientIP(g.r)), slog.String("user_agent", clipText(g.r.UserAgent())), slog.Int("status", c.Status))
	_ = g.guard.o.Audit.Handler().Handle(g.r.Context(), rec) // the log reports its own errors
}
