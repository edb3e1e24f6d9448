// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/text"
)

// Record is a record of the audit log, with the field names of the log.
type Record struct {
	Time      time.Time `json:"time"`
	RequestID string    `json:"request_id,omitempty"`
	Action    string    `json:"action,omitempty"`
	Kind      string    `json:"kind,omitempty"`
	Address   string    `json:"address,omitempty"`
	Version   string    `json:"version,omitempty"`
	From      string    `json:"from_version,omitempty"`
	Digest    string    `json:"digest,omitempty"`
	Lock      string    `json:"lock_id,omitempty"`
	Run       int       `json:"run,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	Decision  string    `json:"decision,omitempty"`
	Rule      string    `json:"rule,omitempty"`
	Mode      string    `json:"mode,omitempty"`
	Subject   string    `json:"subject,omitempty"`
	Issuer    string    `json:"issuer,omitempty"`
	ClientIP  string    `json:"client_ip,omitempty"`
	UserAgent string    `json:"user_agent,omitempty"`
	Status    int       `json:"status,omitempty"`
	Outcome   string    `json:"outcome,omitempty"` // done, refused or failed; "" if an older okara wrote it
}

// Result returns the outcome: done, refused, failed or denied, if need be by the status.
func (r *Record) Result() string {
	switch {
	case r.Outcome != "":
		return r.Outcome
	case r.Decision == "denied":
		return r.Decision
	}
	return access.Outcome(r.Status)
}

// NameActor says who did it, with the host of the issuer that vouches for the name.
func (r *Record) NameActor() string {
	who := cmp.Or(r.Subject, r.Mode)
	if at, err := url.Parse(r.Issuer); err == nil && at.Host != "" {
		who += " (" + at.Host + ")"
	}
	switch {
	case r.Mode == "run":
		return "run " + who
	case r.Mode == "server" && r.Subject == "":
		return "the server"
	case r.Mode == "server":
		return "the server for " + who
	}
	return who
}

// isLostWrite reports whether a write to a state was refused for a lock that its sender lacks: an
// act, of a run whose result is not the state. A blob is none.
func (r *Record) isLostWrite() bool {
	isBlob := r.Digest != "" && r.Version == ""
	return r.Kind == string(addr.KindState) && !isBlob && slices.Contains([]string{string(rights.Write), "restore", "delete"}, r.Action) &&
		slices.Contains([]int{http.StatusForbidden, http.StatusConflict, http.StatusLocked}, r.Status)
}

// Object says what an act was done to: address, version or run, and part of it or why.
func (r *Record) Object() string {
	var object strings.Builder
	object.WriteString(r.Address)
	for _, more := range []struct{ word, value string }{{"", r.Version}, {"from ", r.From}} {
		if more.value != "" {
			object.WriteString(" " + more.word + more.value)
		}
	}
	if r.Run > 0 {
		object.WriteString(fmt.Sprintf(" run %d", r.Run))
	}
	if r.isLostWrite() && r.Lock != "" {
		object.WriteString(" under lock " + r.Lock)
	}
	switch {
	case r.Detail == "", r.Action == "force-unlock" && r.Detail == "forced": // which says the same
	case r.Version == "" && r.Run == 0: // such as a tag
		object.WriteString(" " + r.Detail)
	default: // why, or for what
		object.WriteString(": " + r.Detail)
	}
	return strings.TrimSpace(object.String())
}

// Entry is a record and, for a change, its process and its number there, from 1.
type Entry struct {
	Process string `json:"process,omitempty"`
	N       int64  `json:"n,omitempty"`
	Record
}

// maxField bounds each text of a record, in bytes.
const maxField = 1 << 10

// These are the messages of records that are not a plain change.
const (
	decision = "decision"
	refused  = "refused" // a request that was allowed and changed nothing
	depotRun = "depot"   // a run of the depot file, without a caller
)

// handler copies records to the log and passes them on.
type handler struct {
	t     *Log
	next  slog.Handler // nil: none
	attrs []slog.Attr
}

// Handler returns a handler that adds records to the log, and passes them on to next, if not nil.
func (t *Log) Handler(next slog.Handler) slog.Handler { return &handler{t: t, next: next} }

// Enabled implements [slog.Handler].
func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements [slog.Handler].
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	rec := Record{Time: r.Time.UTC().Round(0)}
	texts := rec.texts()
	next := 0
	for _, a := range h.attrs {
		next = rec.setField(texts[:], next, a)
	}
	failed := false
	r.Attrs(func(a slog.Attr) bool {
		next = rec.setField(texts[:], next, a)
		failed = failed || a.Key == "error" && a.Value.String() != ""
		return true
	})
	cloneTexts(texts[serverTexts:])
	switch {
	case r.Message == decision, r.Message == refused && !rec.isLostWrite():
		h.t.decisions.addDecision(rec)
	case r.Message == depotRun:
		rec.Kind = depotRun
		rec.Mode = depotRun
		rec.Outcome = access.Done
		if failed {
			rec.Outcome = access.Failed
		}
		h.t.own.keepRecord(rec)
	default:
		h.t.own.keepRecord(rec)
	}
	if h.next == nil {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := &handler{t: h.t, next: h.next, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
	if h.next != nil {
		n.next = h.next.WithAttrs(attrs)
	}
	return n
}

// WithGroup implements [slog.Handler]. No field of a record is in a group.
func (h *handler) WithGroup(name string) slog.Handler {
	n := &handler{t: h.t, attrs: h.attrs}
	if h.next != nil {
		n.next = h.next.WithGroup(name)
	}
	return n
}

// setField copies a field. It looks first at texts[next], and returns where the field after it is.
func (r *Record) setField(texts []field, next int, a slog.Attr) int {
	if a.Value.Kind() == slog.KindInt64 {
		switch a.Key {
		case "status":
			r.Status = int(a.Value.Int64())
		case "run":
			r.Run = int(a.Value.Int64())
		}
		return next
	}
	name := a.Key
	switch name {
	case "entry": // this and the next two are fields of a run of the depot file
		name = "address"
	case "reason", "error":
		name = "detail"
	}
	for n := range texts {
		if i := (next + n) % len(texts); texts[i].name == name {
			if value := a.Value.String(); value != "" {
				*texts[i].to = text.Clip(text.Line(value), maxField)
			}
			return i + 1
		}
	}
	return next
}

// cloneTexts clones what may be part of a request, into one piece of memory.
func cloneTexts(texts []field) {
	size := 0
	for _, f := range texts {
		size += len(*f.to)
	}
	var all strings.Builder
	all.Grow(size)
	for _, f := range texts {
		all.WriteString(*f.to)
	}
	rest := all.String()
	for _, f := range texts {
		n := len(*f.to)
		*f.to = rest[:n]
		rest = rest[n:]
	}
}

// field is a text of a record, by its name in the log.
type field struct {
	name string
	to   *string
}

// serverTexts is how many of the texts are the server's own, not part of a request.
const serverTexts = 5

// texts returns an array: each decision of the server is recorded, without memory for this.
func (r *Record) texts() [17]field {
	return [...]field{
		{"action", &r.Action}, {"decision", &r.Decision}, {"rule", &r.Rule}, {"mode", &r.Mode}, {"outcome", &r.Outcome},
		{"request_id", &r.RequestID}, {"kind", &r.Kind}, {"address", &r.Address}, {"version", &r.Version}, {"from_version", &r.From},
		{"digest", &r.Digest}, {"lock_id", &r.Lock}, {"detail", &r.Detail}, {"subject", &r.Subject}, {"issuer", &r.Issuer}, {"client_ip", &r.ClientIP}, {"user_agent", &r.UserAgent},
	}
}
