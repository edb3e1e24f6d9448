// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/text"
)

// maxClientText bounds what a client says about itself in a record or a log.
const maxClientText = 256

// clip is what a client says, in a form that can be shown to others.
func clip(foreign string) string { return text.Clip(text.Line(foreign), maxClientText) }

// Record is a decision: who wanted to do what, and which rule let them, or none.
// No token and no link is in it.
type Record struct {
	Caller Caller
	Right  rights.Right
	Rule   string // empty: denied
}

// Record writes a decision to the audit log. [Guard.Allow] does it itself; this
// is for what proves itself by other means than a token.
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
	g.o.Audit.LogAttrs(r.Context(), slog.LevelInfo, "decision",
		slog.String("request_id", r.Header.Get(httpserve.RequestID)),
		slog.String("action", string(d.Right.Action)), slog.String("kind", string(d.Right.Kind)), slog.String("address", d.Right.Address),
		slog.String("version", r.PathValue("version")),
		slog.String("decision", decision), slog.String("rule", d.Rule),
		slog.String("mode", d.Caller.Mode), slog.String("subject", d.Caller.Subject), slog.String("issuer", d.Caller.Issuer),
		slog.String("client_ip", g.ClientIP(r)), slog.String("user_agent", clip(r.UserAgent())))
}

// Change is what came of something that a [Grant] allowed.
type Change struct {
	Action  rights.Action // what was done, such as Publish or "yank"
	Version string
	Digest  string
	Detail  string // what of the thing it was about, such as the path of a value; never the value
	Status  int    // of the answer, which determines the outcome
}

// Own is a change that the server makes by itself.
type Own struct {
	Action  rights.Action
	Kind    rights.Kind
	Address string
	Version string
	Digest  string
	Detail  string
	For     Caller // on whose behalf; zero: on nobody's
	Outcome string // of [Done] and its like
}

// RecordOwn writes what the server does by itself to an audit log, which may be nil.
func RecordOwn(ctx context.Context, to *slog.Logger, c Own) {
	if to == nil {
		return
	}
	to.LogAttrs(ctx, slog.LevelInfo, changeMessage,
		slog.String("action", string(c.Action)), slog.String("kind", string(c.Kind)), slog.String("address", c.Address),
		slog.String("version", c.Version), slog.String("digest", c.Digest), slog.String("detail", c.Detail),
		slog.String("outcome", c.Outcome), slog.String("mode", "server"), slog.String("subject", c.For.Subject), slog.String("issuer", c.For.Issuer))
}

// Outcomes of what a request asked for, or of what the server does by itself.
const (
	Done    = "done"
	Refused = "refused" // nothing was changed
	Failed  = "failed"  // the object may have been changed in part
)

// Outcome is what a status says of a change; "" if there is none.
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

// Messages of what is no decision. A refused request is no change.
const (
	changeMessage = "change"
	refusedChange = "refused"
)

// Kind is the kind of thing that the right is about.
func (g Grant) Kind() rights.Kind { return g.right.Kind }

// Address is that of the thing that the right is about.
func (g Grant) Address() string { return g.right.Address }

// Record writes a change of the thing at an address to the audit log, or that it was
// refused.
func (g Grant) Record(address string, c Change) {
	if g.guard.o.Audit == nil {
		return
	}
	outcome := Outcome(c.Status)
	message := changeMessage
	if outcome == Refused {
		message = refusedChange
	}
	g.guard.o.Audit.LogAttrs(g.r.Context(), slog.LevelInfo, message,
		slog.String("request_id", g.r.Header.Get(httpserve.RequestID)),
		slog.String("action", string(c.Action)), slog.String("kind", string(g.right.Kind)), slog.String("address", address),
		slog.String("version", c.Version), slog.String("digest", c.Digest), slog.String("detail", c.Detail), slog.String("outcome", outcome),
		slog.String("decision", "allowed"), slog.String("rule", g.rule),
		slog.String("mode", g.Mode), slog.String("subject", g.Subject), slog.String("issuer", g.Issuer),
		slog.String("client_ip", g.guard.ClientIP(g.r)), slog.String("user_agent", clip(g.r.UserAgent())), slog.Int("status", c.Status))
}

// Proven is the grant of a request that has no token and proves by other means, such
// as an address that was signed, what its caller was allowed earlier; rule says by
// what. It is recorded as a decision, and gives no right but this one.
func (g *Guard) Proven(r *http.Request, c Caller, right rights.Right, rule string) Grant {
	g.Record(r, Record{Caller: c, Right: right, Rule: rule})
	return Grant{Caller: c, guard: g, r: r, right: right, rule: rule}
}
