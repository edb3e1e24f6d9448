// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
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
func (s logs) phase(r *http.Request, id runID, run Run, g access.Grant, p Phase) (resource, error) {
	at := id.of(prefixOf(p))
	t := signedUpload{Kind: signedLog, Workspace: at, Mode: g.Mode, Issuer: g.Issuer, Subject: g.Subject}
	token, err := s.signer.issue(t, s.o.RunTime+logTime)
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
func (s logs) showPhase(p Phase) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, g, err := s.runs().findRun(r, prefixOf(p), rights.Read)
		if err != nil {
			return err
		}
		r, cancel := within(r)
		defer cancel()
		run, _, err := s.runs().readRun(r.Context(), id)
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
	return fmt.Sprintf("%c%s\n%s\n\n", startOfText, r.workspaceRef, r)
}

// readLog answers with a part of a log.
func (s logs) readLog(w http.ResponseWriter, r *http.Request) error {
	t, err := s.signer.redeem(r.PathValue("token"))
	if err != nil {
		return err
	}
	p := PhasePlan
	id, err := parseRunID(t.Workspace, planPrefix)
	if err != nil {
		p = PhaseApply
		id, err = parseRunID(t.Workspace, applyPrefix)
	}
	if err != nil || t.Kind != signedLog || s.o.Runs == nil {
		return errUploadURL()
	}
	offset := readNumber(r, "offset", 0)
	limit := readNumber(r, "limit", defaultPart)
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
func (s logs) part(r *http.Request, id runID, p Phase, offset, limit int64) ([]byte, error) {
	header := id.header(p)
	var out []byte
	if offset < int64(len(header)) {
		out = append(out, header[offset:min(int64(len(header)), offset+limit)]...)
		limit -= int64(len(out))
	}
	if limit == 0 {
		return out, nil
	}
	at := max(0, offset-int64(len(header)))
	read := func(at, limit int64) ([]byte, bool, error) {
		return s.o.Runs.Log(r.Context(), id.asWorkspace(), id.record, id.n, p, at, limit)
	}
	raw, end, err := read(at, limit)
	if err != nil {
		return nil, err
	}
	if end && len(raw) == 0 && at > 0 { // the byte before shows whether the end is here or was
		if last, _, err := read(at-1, 1); err != nil || len(last) == 0 {
			return out, err
		}
	}
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

// planDocs are the routes by which a plan that was saved is shown.
type planDocs struct{ *server }

// whole is what `show -json` says of a plan.
func (p planDocs) whole(w http.ResponseWriter, r *http.Request) error {
	return p.show(w, r, func(d PlanDocument) (any, error) { return d.Plan, nil })
}

// redacted is a plan with its schemas, as the tools show it.
func (p planDocs) redacted(w http.ResponseWriter, r *http.Request) error {
	return p.show(w, r, PlanDocument.forTool)
}

func (p planDocs) show(w http.ResponseWriter, r *http.Request, as func(PlanDocument) (any, error)) error {
	id, _, err := p.runs().findRun(r, planPrefix, rights.Read)
	if err != nil {
		return err
	}
	r, cancel := within(r)
	defer cancel()
	b, err := p.o.Runs.PlanJSON(r.Context(), id.asWorkspace(), id.record, id.n)
	if err != nil {
		return runError(err)
	}
	if b == nil {
		return absent("of this plan no JSON is kept: only of one that is saved, by -out")
	}
	var d PlanDocument
	if err := json.Unmarshal(b, &d); err != nil {
		return fmt.Errorf("the JSON of a plan: %w", err)
	}
	doc, err := as(d)
	if err != nil {
		return fmt.Errorf("the JSON of a plan: %w", err)
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

// forTool is a plan in the form in which the tools take it to show it. Sensitive values
// are others, of the same kind.
func (d PlanDocument) forTool() (any, error) {
	var plan struct {
		Format   string                    `json:"format_version"`
		Outputs  map[string]map[string]any `json:"output_changes"`
		Changes  []map[string]any          `json:"resource_changes"`
		Drift    []map[string]any          `json:"resource_drift"`
		Relevant json.RawMessage           `json:"relevant_attributes,omitempty"`
	}
	var schemas struct {
		Format    string          `json:"format_version"`
		Providers json.RawMessage `json:"provider_schemas"`
	}
	for b, v := range map[*json.RawMessage]any{&d.Plan: &plan, &d.Schemas: &schemas} {
		if err := decodeExactly(*b, v); err != nil {
			return nil, err
		}
	}
	for _, change := range plan.Outputs {
		redactChange(change)
	}
	for _, r := range append(plan.Changes, plan.Drift...) {
		if change, ok := r["change"].(map[string]any); ok {
			redactChange(change)
		}
	}
	return map[string]any{
		"plan_format_version": plan.Format, "output_changes": plan.Outputs, "resource_changes": plan.Changes, "resource_drift": plan.Drift,
		"relevant_attributes": plan.Relevant, "provider_format_version": schemas.Format, "provider_schemas": schemas.Providers,
	}, nil
}

// decodeExactly keeps numbers as they are written.
func decodeExactly(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(v)
}

// redactChange takes the sensitive values out of a change.
func redactChange(change map[string]any) {
	same := reflect.DeepEqual(change["before"], change["after"])
	for side, other := range map[string]string{"before": "old", "after": "new"} {
		if same {
			other = "same"
		}
		change[side] = redact(change[side], change[side+"_sensitive"], other)
	}
}

// redact replaces what the marks say is sensitive, by which values of two sides that
// differ do so still.
func redact(value, marks any, by string) any {
	all, _ := marks.(bool)
	switch v := value.(type) {
	case map[string]any:
		under, _ := marks.(map[string]any)
		for key := range v {
			mark := under[key]
			if all {
				mark = true
			}
			v[key] = redact(v[key], mark, by)
		}
	case []any:
		under, _ := marks.([]any)
		for i := range v {
			switch {
			case all:
				v[i] = redact(v[i], true, by)
			case i < len(under):
				v[i] = redact(v[i], under[i], by)
			}
		}
	case string:
		if all {
			return "sensitive, " + by
		}
	case bool:
		if all {
			return by == "new"
		}
	case json.Number:
		if all {
			return json.Number(map[string]string{"old": "0", "new": "1", "same": "0"}[by])
		}
	}
	return value
}
