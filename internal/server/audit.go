// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"cmp"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
)

// keepAuditLog sets up the audit log: the queue repository, memory, and file unless nil. A portal
// has only the file: it lacks state keys, and the leader records what it forwards.
func (o *Options) keepAuditLog(file slog.Handler, env Env) error {
	if o.claim.Alone {
		if file != nil {
			o.Audit = slog.New(file)
		}
		return nil
	}
	queue, err := o.Client.Repo(o.Layout.QueueRepo())
	if err != nil {
		return err
	}
	o.acts = cmp.Or(o.acts, newActs())
	o.auditLog = auditlog.New(auditlog.Options{Settle: func() { o.acts.settleDeletions(false) }, Repo: queue, Sealer: env.States.Sealer, Logger: env.Log, Now: o.Now, Dropped: o.Metrics.newAuditCounter().Inc})
	o.Audit = slog.New(o.auditLog.Handler(file))
	return nil
}

// newAuditCounter counts changes that are lost.
func (m *Metrics) newAuditCounter() prometheus.Counter {
	return promauto.With(m.all).NewCounter(prometheus.CounterOpts{Name: "okara_audit_dropped_total", Help: "Changes of this replica that are not kept in the registry."})
}

// auditDoc is the answer to GET /api/v1/audit.
type auditDoc struct {
	Total      int               `json:"total"` // matching changes in memory
	Page       int               `json:"page"`
	Complete   bool              `json:"complete"`             // false: other formats have more
	Protected  bool              `json:"protected"`            // by state keys
	Unreadable int               `json:"unreadable,omitempty"` // parts that do not open with these keys
	Waiting    int               `json:"waiting,omitempty"`    // changes of this replica that are not written yet
	Dropped    int64             `json:"dropped,omitempty"`    // changes that will never be written
	ReadAt     time.Time         `json:"read_at,omitzero"`     // when the changes of other replicas were read
	ReadError  bool              `json:"read_error,omitzero"`  // they could not be read since
	Records    []*auditlog.Entry `json:"records"`
}

// maxExports bounds the concurrent downloads of the audit log.
const maxExports = 4

// stallExport is the time in which a client must take 64 KiB of a download.
const stallExport = time.Minute

// serveAudit answers one page of the audit as JSON, or all that matches as CSV or JSON lines.
func (f *Front) serveAudit(w http.ResponseWriter, r *http.Request) error {
	if _, err := f.kit.Guard.Allow(r, rights.Server()); err != nil {
		return err
	}
	q, err := auditlog.ParseQuery(r.URL.Query())
	if err != nil {
		return &service.Error{Status: http.StatusBadRequest, Text: err.Error()}
	}
	switch format := r.URL.Query().Get("format"); format {
	case "", "json":
		return f.kit.Limit(func(w http.ResponseWriter, r *http.Request) error { return f.auditPage(w, r, q) })(w, r)
	case "csv":
		return f.auditExport(w, r, q, "text/csv; charset=utf-8; header=present", "audit.csv", auditlog.WriteCSV)
	case "jsonl":
		return f.auditExport(w, r, q, "application/jsonl", "audit.jsonl", auditlog.WriteJSONLines)
	}
	return &service.Error{Status: http.StatusBadRequest, Text: "format must be json, jsonl or csv"}
}

func (f *Front) auditPage(w http.ResponseWriter, r *http.Request, q auditlog.Query) error {
	found := f.o.auditLog.Find(r.Context(), q)
	doc := auditDoc{
		Total: found.Total, Page: q.Page, Complete: q.Decisions || found.Older == 0 && !found.Read.IsZero(), Protected: found.Protected, Unreadable: found.Unreadable,
		Waiting: found.Waiting, Dropped: found.Dropped, ReadAt: found.Read, ReadError: found.Failed != nil, Records: found.Entries,
	}
	if doc.Records == nil {
		doc.Records = []*auditlog.Entry{}
	}
	return service.Send(w, r, "private, no-cache", doc)
}

// auditExport sends all that matches. A late error cuts the connection, lest a part look whole.
func (f *Front) auditExport(w http.ResponseWriter, r *http.Request, q auditlog.Query, mediaType, name string, write func(io.Writer, func(func(*auditlog.Entry) error) error) error) error {
	release, ok := f.exports.Acquire(f.kit.Client(r), 1)
	if !ok {
		return service.TooMany("audit downloads")
	}
	defer release()
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Cache-Control", "private, no-store")
	begun := service.NewPaced(w, stallExport)
	out := bufio.NewWriterSize(begun, service.PieceSize)
	err := write(out, func(do func(*auditlog.Entry) error) error { return f.o.auditLog.Each(r.Context(), q, do) })
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		return nil
	}
	if begun.Status() == 0 {
		service.Reset(h)
		f.kit.Refuse(w, r, http.StatusBadGateway, "the request to the registry failed", err)
		return nil
	}
	f.kit.Log(r).Warn("audit download ended early", "error", err)
	panic(http.ErrAbortHandler)
}
