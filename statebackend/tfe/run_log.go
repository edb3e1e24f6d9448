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
	// maxPart bounds the part of a log that one request gets.
	maxPart     = 1 << 20
	defaultPart = 64 << 10
	// logTime is how much longer than its run the address of a log is valid.
	logTime = 15 * time.Minute

	// The bytes that begin and end a log, by which readers know that it is complete.
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

// phaseStatus returns the status of a plan or an apply. Readers of the log stop only at "canceled",
// "errored", "finished" and "unreachable".
func (r Run) phaseStatus(p Phase) string {
	planned := r.Plan != "" || r.Status == RunPlannedAndFinished
	switch {
	case p == PhasePlan && planned:
		return "finished"
	case r.Status == RunErrored:
		return "errored"
	case r.Status == RunCanceled:
		return "canceled"
	case r.Status == RunDiscarded, p == PhaseApply && r.Status.isFinal() && r.Status != RunApplied:
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

type phases struct {
	reader runReader
	signer signer
	time   time.Duration // Options.RunTime
}

func (s phases) addRoutes(t table) {
	t.addRoute("GET", "plans/{id}", s.showPhase(PhasePlan))
	t.addRoute("GET", "plans/{id}/json-output", s.showPlan(func(d PlanDocument) (any, error) { return d.Plan, nil }))
	t.addRoute("GET", "plans/{id}/json-output-redacted", s.showPlan(PlanDocument.forTool))
	t.addRoute("GET", "applies/{id}", s.showPhase(PhaseApply))
	t.addRoute("GET", "logs/{token}", s.readLog)
}

// phaseResource returns a plan or an apply, with a signed log address: readers send no token.
func (s phases) phaseResource(r *http.Request, id runID, run Run, g access.Grant, p Phase) (resource, error) {
	at := id.withPrefix(prefixOf(p))
	token, err := s.signer.issue(signedUpload{Kind: signedLog, Workspace: at}, g.Caller, s.time+logTime)
	if err != nil {
		return resource{}, err
	}
	kind := "plans"
	if p == PhaseApply {
		kind = "applies"
	}
	return resource{Type: kind, ID: at, Attributes: phaseAttributes{
		Status: run.phaseStatus(p), HasChanges: run.HasChanges, Add: run.Add, Change: run.Change, Remove: run.Remove, Log: s.signer.address(r, "logs/"+token),
	}}, nil
}

func (s phases) showPhase(p Phase) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, run, g, err := s.reader.readNamed(r, prefixOf(p))
		if err != nil {
			return err
		}
		d, err := s.phaseResource(r, id, run, g, p)
		if err != nil {
			return err
		}
		return sendDocument(w, http.StatusOK, document{Data: d})
	}
}

// logHeader is the text before a log. The tools drop three lines of an apply, elsewhere the plan's.
func (r runID) logHeader(p Phase) string {
	if p == PhasePlan {
		return string(rune(startOfText))
	}
	return fmt.Sprintf("%c%s\n%s\n\n", startOfText, r.workspaceRef, r)
}

func (s phases) readLog(w http.ResponseWriter, r *http.Request) error {
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
	if err != nil || t.Kind != signedLog {
		return errUploadURL()
	}
	if err := s.reader.gate.kit.Guard.CheckProof(t.Proof, s.reader.gate.right(rights.Read, id.organization, id.workspace)); err != nil {
		return err
	}
	offset := readNumber(r, "offset", 0)
	limit := readNumber(r, "limit", defaultPart)
	if offset < 0 || limit < 1 {
		return malformedError("offset and limit must be numbers, and limit not 0")
	}
	part, err := s.readLogPart(r, id, p, offset, min(limit, maxPart))
	if err != nil {
		return runError(err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(part)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(part) // the client has disconnected
	return nil
}

// readNumber returns a number from the query: without if it is absent, -1 if invalid.
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

// readLogPart returns the part of a log at an offset, including its header and its end.
func (s phases) readLogPart(r *http.Request, id runID, p Phase, offset, limit int64) ([]byte, error) {
	header := id.logHeader(p)
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
		return s.reader.runs.Log(r.Context(), id.asWorkspace(), id.record, id.n, p, at, limit)
	}
	raw, end, err := read(at, limit)
	if err != nil {
		return nil, err
	}
	if end && len(raw) == 0 && at > 0 { // the byte before tells whether offset is at the end or beyond
		if last, _, err := read(at-1, 1); err != nil || len(last) == 0 {
			return out, err
		}
	}
	for _, b := range raw {
		if b == startOfText || b == endOfText { // readers would take it for the end
			b = '?'
		}
		out = append(out, b)
	}
	if end && int64(len(raw)) < limit {
		out = append(out, endOfText)
	}
	return out, nil
}

// showPlan returns the handler of the JSON of plans, in a form that as makes.
func (s phases) showPlan(as func(PlanDocument) (any, error)) service.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, _, err := s.reader.findRun(r, planPrefix, rights.Read)
		if err != nil {
			return err
		}
		b, err := s.reader.runs.PlanJSON(r.Context(), id.asWorkspace(), id.record, id.n)
		if err != nil {
			return runError(err)
		}
		if b == nil {
			return errAbsent("the JSON of this plan is not kept: save the plan with -out")
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
}

// forTool returns a plan in the tools' form, with other values of the same kind for sensitive ones.
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

// decodeExactly keeps numbers in their original spelling.
func decodeExactly(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(v)
}

func redactChange(change map[string]any) {
	same := reflect.DeepEqual(change["before"], change["after"])
	for side, other := range map[string]string{"before": "old", "after": "new"} {
		if same {
			other = "same"
		}
		change[side] = redactMarked(change[side], change[side+"_sensitive"], other)
	}
}

// redactMarked replaces marked, sensitive values by text from by: different ones stay different.
func redactMarked(value, marks any, by string) any {
	all, _ := marks.(bool)
	switch v := value.(type) {
	case map[string]any:
		under, _ := marks.(map[string]any)
		for key := range v {
			mark := under[key]
			if all {
				mark = true
			}
			v[key] = redactMarked(v[key], mark, by)
		}
	case []any:
		under, _ := marks.([]any)
		for i := range v {
			switch {
			case all:
				v[i] = redactMarked(v[i], true, by)
			case i < len(under):
				v[i] = redactMarked(v[i], under[i], by)
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
