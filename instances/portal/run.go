// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"net/http"
	"strconv"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/service"
)

// runOf is one run of an instance.
type runOf struct {
	record *lifecycle.Record
	run    *lifecycle.Run
}

// runIn finds a run, of an instance to which the caller is one of what is needed.
func (s runRoutes) runIn(needed role) finder[runOf] {
	find := s.callers().instanceIn(needed)
	return func(r *http.Request, c caller, v lifecycle.View) (runOf, caller, error) {
		record, c, err := find(r, c, v)
		if err != nil {
			return runOf{}, c, err
		}
		n, err := strconv.Atoi(r.PathValue("n"))
		if run := findRun(record, n); err == nil && run != nil {
			return runOf{record, run}, c, nil
		}
		return runOf{}, c, &service.Error{Status: http.StatusNotFound, Text: "instance " + record.ID + " has no such run, or keeps it no longer"}
	}
}

// findRun returns a run by its number; nil: it is not known any more.
func findRun(r *lifecycle.Record, n int) *lifecycle.Run {
	for _, u := range runs(r) {
		if u.N == n {
			return u
		}
	}
	return nil
}

// runs are those of a record, the newest first.
func runs(r *lifecycle.Record) []*lifecycle.Run {
	var all []*lifecycle.Run
	if r.Run != nil {
		all = append(all, r.Run)
	}
	for i := range r.Runs {
		all = append(all, &r.Runs[i])
	}
	return all
}

func (s runRoutes) listRuns(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	have := r.role(r.view.Document, r.at)
	doc := api.Runs{Runs: []api.Run{}}
	for _, u := range runs(r.at) {
		doc.Runs = append(doc.Runs, *runDoc(r.at, u, have))
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

func (s runRoutes) showRun(w http.ResponseWriter, r call[runOf]) error {
	return service.WriteJSON(w, http.StatusOK, runDoc(r.at.record, r.at.run, r.role(r.view.Document, r.at.record)))
}

// runDoc is a run as somebody sees it who has a role to its instance: what the
// tool said of an error is for those who may read logs, what is planned for those
// who may read plans.
func runDoc(r *lifecycle.Record, u *lifecycle.Run, have role) *api.Run {
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
		doc.Plan, doc.Reason, doc.Cost = u.Plan, u.Why, u.Cost
		if u.Counts != nil {
			doc.Counts = &api.Counts{Add: u.Counts.Add, Change: u.Counts.Change, Remove: u.Counts.Remove, Replace: u.Counts.Replace}
		}
	}
	if u.Confirmed != nil {
		doc.Approved = personDoc(*u.Confirmed)
	}
	if have&readsLogs != 0 {
		doc.Error = u.Error
	}
	return doc
}

// plan answers the plan of a run as text.
func (s runRoutes) plan(w http.ResponseWriter, r call[runOf]) error {
	if s.o.Results == nil {
		return notHere("plans")
	}
	text, err := s.o.Results.Plan(r.Context(), r.at.record, r.at.run)
	if err != nil {
		return absent(err, "plan")
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(text) // the client is gone; there is nobody to tell
	return nil
}

// notHere refuses what this store of instances has not.
func notHere(what string) error {
	return &service.Error{Status: http.StatusNotImplemented, Text: what + " are not kept here"}
}
