// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
)

const (
	// maxPart bounds what one request gets of a log.
	maxPart     = 1 << 20
	defaultPart = 64 << 10
	// logTime is how much longer than its run the address of a log is good.
	logTime = 15 * time.Minute

	// What a log begins and ends with, by which its readers know that it is whole.
	startOfText = 2
	endOfText   = 3
)

type phaseAttributes struct {
	Status     string `json:"status"`
	HasChanges bool   `json:"has-changes"`
	Add        int    `json:"resource-additions"`
	Change     int    `json:"resource-changes"`
	Remove     int    `json:"resource-destructions"`
	Log        string `json:"log-read-url"`
}

// phaseStatus is the status of a plan or an apply. Only at "canceled", "errored",
// "finished" and "unreachable" readers of the log stop.
func (r Run) phaseStatus(p Phase) string {
	planned := r.Plan != "" || r.Status == RunPlannedAndFinished
	switch {
	case p == PhasePlan && planned:
		return "finished"
	case r.Status == RunErrored:
		return "errored"
	case r.Status == RunCanceled:
		return "canceled"
	case r.Status == RunDiscarded, p == PhaseApply && r.Status.final() && r.Status != RunApplied:
		return "unreachable"
	case p == PhasePlan && r.Status == RunPlanning, p == PhaseApply && r.Status == RunApplying:
		return "running"
	case p == PhaseApply && r.Status == RunConfirmed:
		return "queued"
	case r.Status == RunPending, p == PhaseApply && r.Status != RunApplied:
		return "pending"
	}
	return "finished"
}

// phase is a plan or an apply, with an address for its log: who reads it sends no
// token.
func (s *server) phase(r *http.Request, id runID, run Run, g access.Grant, p Phase) (resource, error) {
	at := id.of(prefixOf(p))
	t := ticket{Kind: ticketLog, Workspace: at, Mode: g.Mode, Issuer: g.Issuer, Subject: g.Subject}
	token, err := s.tickets.issue(t, s.o.RunTime+logTime)
	if err != nil {
		return resource{}, err
	}
	kind := "plans"
	if p == PhaseApply {
		kind = "applies"
	}
	return resource{Type: kind, ID: at, Attributes: phaseAttributes{
		Status: run.phaseStatus(p), HasChanges: run.HasChanges, Add: run.Add, Change: run.Change, Remove: run.Remove, Log: s.address(r, "logs/"+token),
	}}, nil
}

// showPhase is the handler of plans or of applies.
func (s *server) showPhase(p Phase) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, g, err := s.findRun(r, prefixOf(p), access.Read)
		if err != nil {
			return err
		}
		r, cancel := within(r)
		defer cancel()
		run, _, err := s.readRun(r.Context(), id)
		if err != nil {
			return err
		}
		d, err := s.phase(r, id, run, g, p)
		if err != nil {
			return err
		}
		return answer(w, http.StatusOK, document{Data: d})
	}
}

// header is what stands before the log of a phase. The tools drop the first three
// lines of an apply, which repeat those of the plan elsewhere.
func (r runID) header(p Phase) string {
	if p == PhasePlan {
		return string(rune(startOfText))
	}
	return fmt.Sprintf("%c%s\n%s\n\n", startOfText, r.place, r)
}

// readLog answers with a part of a log.
func (s *server) readLog(w http.ResponseWriter, r *http.Request) error {
	t, err := s.tickets.redeem(r.PathValue("token"))
	if err != nil {
		return err
	}
	p := PhasePlan
	id, err := parseRunID(t.Workspace, planPrefix)
	if err != nil {
		p = PhaseApply
		id, err = parseRunID(t.Workspace, applyPrefix)
	}
	if err != nil || t.Kind != ticketLog || s.o.Runs == nil {
		return errTicket()
	}
	offset, limit := readNumber(r, "offset", 0), readNumber(r, "limit", defaultPart)
	if offset < 0 || limit < 1 {
		return malformed("offset and limit must be numbers, and limit not 0")
	}
	r, cancel := within(r)
	defer cancel()
	part, err := s.part(r, id, p, offset, min(limit, maxPart))
	if err != nil {
		return runError(err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(part)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(part) // the client is gone; there is nobody to tell
	return nil
}

// readNumber is a number of a query, -1 if it is none.
func readNumber(r *http.Request, name string, without int64) int64 {
	text := r.URL.Query().Get(name)
	if text == "" {
		return without
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// part is what a log has at an offset, with what stands before and behind it.
func (s *server) part(r *http.Request, id runID, p Phase, offset, limit int64) ([]byte, error) {
	header := id.header(p)
	var out []byte
	if offset < int64(len(header)) {
		out = append(out, header[offset:min(int64(len(header)), offset+limit)]...)
		limit -= int64(len(out))
	}
	if limit == 0 {
		return out, nil
	}
	// One byte before what is asked for tells whether the end is behind it or at it.
	at := max(0, offset-int64(len(header)))
	before := min(at, 1)
	raw, end, err := s.o.Runs.Log(r.Context(), id.asWorkspace(), id.record, id.n, p, at-before, limit+before)
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) < before { // it ended before
		return out, nil
	}
	raw = raw[before:]
	for _, b := range raw {
		if b == startOfText || b == endOfText { // which would end it for its readers
			b = '?'
		}
		out = append(out, b)
	}
	if end && int64(len(raw)) < limit {
		out = append(out, endOfText)
	}
	return out, nil
}
