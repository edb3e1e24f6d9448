// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
)

type runOf struct {
	record *lifecycle.Record
	run    *lifecycle.Run
}

func findRunOf(needed role) finder[runOf] {
	find := findInstance(needed)
	return func(s *server, r *http.Request, c caller, v lifecycle.View) (runOf, caller, error) {
		record, c, err := find(s, r, c, v)
		if err != nil {
			return runOf{}, c, err
		}
		n, err := strconv.Atoi(r.PathValue("n"))
		if run := record.FindRun(n); err == nil && run != nil {
			return runOf{record, run}, c, nil
		}
		return runOf{}, c, &service.Error{Status: http.StatusNotFound, Text: "instance " + record.ID + " has no such run, or no longer keeps it"}
	}
}

func listRuns(_ *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	have := r.role(r.view.Document, r.at)
	doc := api.Runs{Runs: []api.Run{}}
	for _, u := range r.at.AllRuns() {
		doc.Runs = append(doc.Runs, *runDoc(u, have))
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

func showRun(_ *server, w http.ResponseWriter, r call[runOf]) error {
	return service.WriteJSON(w, http.StatusOK, runDoc(r.at.run, r.role(r.view.Document, r.at.record)))
}

// runDoc is a run as these roles see it: errors for readers of logs, changes for those of plans.
func runDoc(u *lifecycle.Run, have role) *api.Run {
	doc := &api.Run{
		N: u.N, Attempt: u.Attempt, Kind: string(u.Kind), By: personDoc(u.By), QueuedAt: u.QueuedAt, NotBefore: u.NotBefore, StartedAt: u.StartedAt, EndedAt: u.EndedAt,
		Source: sourceDoc(u.Source), Result: u.Result,
	}
	if u.Switch {
		doc.Switch = api.ActStart
	}
	if u.Switch && u.Off {
		doc.Switch = api.ActStop
	}
	if have&(owns|approves|administers) != 0 {
		doc.Plan = u.Plan
		doc.Reason = u.Why
		doc.Cost = u.Cost
		doc.Counts = u.Counts
		doc.Notes = u.Notes
	}
	if u.Confirmed != nil {
		doc.Approved = personDoc(*u.Confirmed)
	}
	if have&readsLogs != 0 {
		doc.Error = u.Error
	}
	return doc
}

func showPlan(s *server, w http.ResponseWriter, r call[runOf]) error {
	if s.o.Results == nil {
		return notHere("plans")
	}
	text, err := s.o.Results.Plan(r.request.Context(), r.at.record, r.at.run)
	if err != nil {
		return absentError(err, "plan")
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(text) // an error means that the client is gone
	return nil
}

// notHere refuses what this store of instances does not keep.
func notHere(what string) error {
	return &service.Error{Status: http.StatusNotImplemented, Text: what + " are not kept here"}
}

// maxLog bounds how much of one log is sent: as much as may be stored.
const maxLog = 64 << 20

// showLog answers the log of a run: as text what exists now, as events also what follows.
func showLog(s *server, w http.ResponseWriter, r call[runOf]) error {
	if s.o.Results == nil {
		return notHere("logs")
	}
	if !wantsEvents(r.request) {
		return showLogText(s, w, r)
	}
	at, err := lastPosition(r.request)
	if err != nil {
		return err
	}
	q := r.request.URL.Query() // set by the page that embeds the stream
	tail := &tail{s: s, r: r, at: at, phase: lifecycle.Phase(q.Get("phase")), waits: lifecycle.WaitState{Reason: q.Get("waits")}, known: q.Get("waits")}
	again := func(ctx context.Context) error {
		_, _, err := tail.currentRun(ctx, true)
		return err
	}
	return s.streams.Answer(w, r.request, r.caller.key, again, tail.sendTail)
}

// lastPosition returns how far a broken stream had come; zero for a new one.
func lastPosition(r *http.Request) (api.LogPosition, error) {
	text := r.Header.Get(service.LastEventID)
	if text == "" {
		return api.LogPosition{}, nil
	}
	at, err := api.ParseLogPosition(text)
	if err != nil {
		return at, service.NotSent(err)
	}
	if at.Offset > maxLog {
		return at, service.NotSent(errors.New("the offset exceeds the maximum size of a log"))
	}
	return at, nil
}

// wantsEvents reports whether a client asks for server-sent events.
func wantsEvents(r *http.Request) bool {
	for mediaType := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if mediaType, _, err := mime.ParseMediaType(mediaType); err == nil && mediaType == "text/event-stream" {
			return true
		}
	}
	return false
}

// showLogText sends the existing part of a log.
func showLogText(s *server, w http.ResponseWriter, r call[runOf]) error {
	from, err := s.o.Results.Log(r.request.Context(), r.at.record, r.at.run, 0)
	if err != nil {
		return absentError(err, "log")
	}
	defer from.Close()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	// The status is sent already; a reader of a truncated log sees that it ends early.
	_, _ = io.Copy(service.NewPaced(w, service.StreamStall), io.LimitReader(from, maxLog))
	return nil
}

// tail follows the log of a run.
type tail struct {
	s     *server
	r     call[runOf]
	at    api.LogPosition // attempt 0: nothing was sent yet
	waits lifecycle.WaitState
	known string          // why it waits, as the reader already knows
	phase lifecycle.Phase // of the instance; "": not known to the reader
}

// currentRun returns the current run, or an error if the caller may no longer see its log. With
// ask the caller's rights are read again.
func (t *tail) currentRun(ctx context.Context, ask bool) (runOf, lifecycle.View, error) {
	v, err := t.s.o.Store.View(ctx)
	if err != nil {
		return runOf{}, v, err
	}
	c := t.r.caller
	if ask {
		if c, err = identifyCaller(t.s, t.r.request); err != nil {
			return runOf{}, v, err
		}
	}
	of, _, err := findRunOf(readsLogs)(t.s, t.r.request, c, v)
	return of, v, err
}

// sendTail sends new lines, and tells why the run waits, of another phase, and of the end.
func (t *tail) sendTail(ctx context.Context, out *service.Stream) (bool, error) {
	of, v, err := t.currentRun(ctx, false)
	if err != nil {
		return true, err
	}
	if now := v.Document.WaitOf(of.record, of.run); now != t.waits {
		t.waits = now
		if now.Reason != t.known || now.Reason == "" {
			out.Send("", "wait", now)
		}
		t.known = ""
	}
	if before := t.phase; before != of.record.Phase {
		t.phase = of.record.Phase
		if before != "" && !hasEnded(of.run) {
			out.Send("", "phase", map[string]lifecycle.Phase{"phase": t.phase})
		}
	}
	if before := t.at.Attempt; before != of.run.Attempt { // each attempt has a log of its own
		t.at = api.LogPosition{Attempt: of.run.Attempt}
		if before != 0 {
			out.Send(t.at.String(), "attempt", t.at.Attempt)
		}
	}
	err = t.copy(ctx, out, of)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return true, err
	}
	if hasEnded(of.run) {
		out.Send("", "end", map[string]string{"result": of.run.Result})
		return true, nil
	}
	return false, nil
}

func hasEnded(u *lifecycle.Run) bool { return u.Result != "" }

// copy sends the log from the offset on.
func (t *tail) copy(ctx context.Context, out *service.Stream, of runOf) error {
	from, err := t.s.o.Results.Log(ctx, of.record, of.run, t.at.Offset)
	if err != nil {
		return err
	}
	defer from.Close()
	t.at.Offset, err = out.Text(from, t.at.Offset, maxLog, hasEnded(of.run), func(offset int64) string {
		return api.LogPosition{Attempt: t.at.Attempt, Offset: offset}.String()
	})
	return err
}

// showOutputs answers the outputs that the template lists; sensitive ones without value.
func showOutputs(_ *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return service.WriteJSON(w, http.StatusOK, api.Outputs{Outputs: shownOutputs(r.view.Document, r.at), Connection: r.at.Connection})
}

// shownOutputs returns the listed outputs. One that the record lacks is sensitive.
func shownOutputs(d *lifecycle.Document, r *lifecycle.Record) map[string]json.RawMessage {
	shown := make(map[string]json.RawMessage, len(r.Outputs))
	if t := d.Templates[r.Snapshot]; t != nil && !r.ReadyAt.IsZero() {
		for _, name := range t.Outputs {
			shown[name] = hiddenValue()
		}
	}
	maps.Copy(shown, r.Outputs)
	return shown
}

// showSensitive answers one output of the state to the owner, and records that.
func showSensitive(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	var body api.ShowSensitive
	if _, err := readBody(r.request, r.caller, &body); err != nil {
		return err
	}
	t := r.view.Document.Templates[r.at.Snapshot]
	if t == nil || !slices.Contains(t.Outputs, body.Name) {
		return fieldError("/name", "the template does not list this output")
	}
	status := http.StatusOK
	output, err := s.readOutput(r, body.Name)
	if err != nil {
		status = http.StatusInternalServerError
		if code, _, ok := service.Own(err); ok {
			status = code
		}
	}
	r.grant.Record(recordAddress(r.at), access.Change{Action: "reveal", Version: body.Name, Status: status})
	if err != nil {
		return err
	}
	return service.WriteJSON(w, http.StatusOK, api.ShownOutput{Name: body.Name, Value: output.Value, Sensitive: output.Sensitive})
}

func (s *server) readOutput(r call[*lifecycle.Record], name string) (states.Output, error) {
	if s.o.Results == nil {
		return states.Output{}, notHere("states")
	}
	all, err := s.o.Results.Outputs(r.request.Context(), r.at)
	if err != nil {
		return states.Output{}, absentError(err, "state")
	}
	output, ok := all[name]
	if !ok {
		return states.Output{}, &service.Error{Status: http.StatusNotFound, Text: "the state of instance " + r.at.ID + " has no such output"}
	}
	return output, nil
}

// showResources answers the resources in the last state of an instance.
func showResources(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	if s.o.Results == nil {
		return notHere("states")
	}
	doc := api.Resources{Resources: []string{}}
	all, err := s.o.Results.Resources(r.request.Context(), r.at)
	if err != nil && !errors.Is(err, oci.ErrNotFound) { // without a state there are no resources
		return absentError(err, "state")
	}
	doc.Resources = append(doc.Resources, all...)
	return service.WriteJSON(w, http.StatusOK, doc)
}

// absentError makes missing content a 404, and hides the registry's other errors.
func absentError(err error, what string) error {
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return &service.Error{Status: http.StatusNotFound, Text: "no " + what + " found"}
	case errors.Is(err, oci.ErrCorrupt), errors.Is(err, oci.ErrUnavailable), errors.Is(err, oci.ErrRateLimited), errors.Is(err, oci.ErrDenied), errors.Is(err, oci.ErrUnauthenticated):
		return fmt.Errorf("%w: %w", &service.Error{Status: http.StatusBadGateway, Text: "the registry did not return the " + what}, err)
	}
	return err
}
