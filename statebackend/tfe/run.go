// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

func (s RunStatus) isFinal() bool {
	return slices.Contains([]RunStatus{RunPlannedAndFinished, RunApplied, RunErrored, RunDiscarded, RunCanceled}, s)
}

// isExecuting reports whether the run executes, so that only it may end the lock of its workspace.
func (s RunStatus) isExecuting() bool {
	return slices.Contains([]RunStatus{RunPlanning, RunConfirmed, RunApplying}, s)
}

type runBody struct {
	Data struct {
		Attributes struct {
			AutoApply     *bool                 `json:"auto-apply"` // nil: as the workspace has it
			IsDestroy     bool                  `json:"is-destroy"`
			PlanOnly      bool                  `json:"plan-only"`
			Refresh       *bool                 `json:"refresh"`
			RefreshOnly   bool                  `json:"refresh-only"`
			SavePlan      bool                  `json:"save-plan"`
			AllowConfig   bool                  `json:"allow-config-generation"`
			AllowEmpty    bool                  `json:"allow-empty-apply"`
			Targets       []string              `json:"target-addrs"`
			Replace       []string              `json:"replace-addrs"`
			InvokeActions []string              `json:"invoke-action-addrs"`
			Policies      []string              `json:"policy-paths"`
			Variables     []variables.Requested `json:"variables"`
			Message       string                `json:"message"`
		}
		Relationships struct {
			Workspace     struct{ Data ref }
			Configuration struct{ Data ref } `json:"configuration-version"`
		}
	}
}

// runOptions returns the options that the body requests, if they are supported.
func (b runBody) runOptions(c configurationID, r *statebackend.Record) (RunOptions, error) {
	a := b.Data.Attributes
	o := RunOptions{
		Speculative: a.PlanOnly || c.isSpeculative(), AutoApply: isOn(r, settingAutoApply) && !a.SavePlan, Destroy: a.IsDestroy, RefreshOnly: a.RefreshOnly,
		NoRefresh: a.Refresh != nil && !*a.Refresh, SavePlan: a.SavePlan, Targets: a.Targets, Replace: a.Replace, Message: printableText(a.Message),
	}
	if a.AutoApply != nil {
		o.AutoApply = *a.AutoApply
	}
	switch {
	case o.Destroy && !o.Speculative && !isOn(r, settingAllowDestroy):
		return o, invalidError("allow-destroy-plan is off: this workspace cannot be destroyed")
	case o.Speculative && !isOn(r, settingSpeculative):
		return o, invalidError("speculative-enabled is off: plan-only runs are not allowed in this workspace\nhint: save the plan with -out, or start a run that waits for confirmation")
	case a.AllowConfig:
		return o, invalidError("a run on the server generates no configuration; set the execution mode to local for -generate-config-out")
	case a.AllowEmpty, len(a.InvokeActions) > 0, len(a.Policies) > 0:
		return o, invalidError("allow-empty-apply, invoke-action-addrs and policy-paths are not supported by this server")
	case o.Destroy && o.RefreshOnly, o.RefreshOnly && o.NoRefresh, o.RefreshOnly && len(o.Replace) > 0, o.Destroy && len(o.Replace) > 0:
		return o, invalidError("is-destroy, refresh-only, refresh and replace-addrs are mutually exclusive")
	case o.SavePlan && o.AutoApply:
		return o, invalidError("save-plan and auto-apply are mutually exclusive")
	}
	if err := errors.Join(checkAddresses("target-addrs", o.Targets), checkAddresses("replace-addrs", o.Replace)); err != nil {
		return o, err
	}
	var err error
	if o.Variables, err = variables.Parse(a.Variables); err != nil {
		return o, invalidError("%w", err)
	}
	return o, nil
}

type runRoutes struct {
	configurations configurations
	gate           *gate
	reader         runReader
	docs           workspaceDocs
	organizations  organizations
	phases         phases
}

func (s runRoutes) addRoutes(t table) {
	t.addRoute("POST", "runs", s.createRun)
	t.addRoute("GET", "runs/{id}", s.showRun)
	t.addRoute("GET", "runs/{id}/run-events", s.listRunEvents)
	for _, action := range []RunAction{RunConfirm, RunDiscard, RunCancel, RunForceCancel} {
		t.addRoute("POST", "runs/{id}/actions/"+string(action), s.actionHandler(action))
	}
	t.onWorkspace("GET", "workspaces/{id}/runs", rights.Read, s.listRuns)
	t.addRoute("GET", "organizations/{organization}/runs/queue", s.runQueue)
	t.addRoute("GET", "organizations/{organization}/capacity", s.showCapacity)
}

// createRun queues a run of an upload. A right to run is needed before the body tells where.
func (s runRoutes) createRun(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.gate.allowRef(r, rights.Run, workspaceRef{}); err != nil {
		return err
	}
	var body runBody
	if err := s.gate.readBody(w, r, largeBody, &body); err != nil {
		return err
	}
	p, _, err := s.gate.parseWorkspace(r, body.Data.Relationships.Workspace.Data.ID)
	if err != nil {
		return err
	}
	g, err := s.gate.allowRef(r, rights.Run, p)
	if err != nil {
		return err
	}
	if body.Data.Relationships.Configuration.Data.ID == "" {
		return invalidError("configuration-version is missing: a run executes what was uploaded for it")
	}
	c, err := parseConfigurationID(body.Data.Relationships.Configuration.Data.ID)
	if err != nil {
		return err
	}
	if c.workspaceRef != p {
		return errNoID()
	}
	at, err := s.configurations.books.openRemote(r.Context(), p)
	if err != nil {
		return err
	}
	options, err := body.runOptions(c, at.liveRecord())
	if err != nil {
		return err
	}
	given, err := at.givenVariables(r.Context(), options.Variables)
	if err != nil {
		return err
	}
	run, err := s.queueRun(r.Context(), c, options, given, g)
	if err != nil {
		return err
	}
	id := runID{p, c.record, run.N}
	return sendDocument(w, http.StatusCreated, document{Data: s.reader.runResource(id, run, g)})
}

// largeBody bounds the body of a run, which may have many variables.
const largeBody = 256 << 10

// queueRun queues a run, and records it with its configuration. The key of a run does not cover the
// variables of the workspace: a repeated request is one run even if they changed.
func (s runRoutes) queueRun(ctx context.Context, c configurationID, o RunOptions, given variables.Given, g access.Grant) (Run, error) {
	repo, its, _, err := s.configurations.uploadsOf(ctx, c)
	switch {
	case err != nil:
		return Run{}, err
	case len(its) > 1:
		return Run{}, errTwice(c)
	case len(its) == 0:
		return Run{}, invalidError("configuration version %s has not been uploaded", c)
	}
	layer, err := format.ReadConfiguration(ctx, repo, its[0])
	if err != nil {
		return Run{}, err
	}
	n := NewRun{
		Configuration: c.hex, Manifest: its[0].Manifest.String(), Archive: layer.Digest.String(), Size: layer.Size, RunOptions: o, By: g.Caller,
	}
	options, err := json.Marshal(o)
	if err != nil {
		return Run{}, err
	}
	sum := sha256.Sum256(fmt.Appendf(options, "\x00%s\x00%s\x00%s", c.hex, n.Manifest, subjectOf(g.Caller)))
	n.Key = hex.EncodeToString(sum[:])
	n.Variables = given.Variables
	n.Environment = given.Environment
	n.Masked = given.Masked
	run, err := s.reader.runs.Create(ctx, c.asWorkspace(), c.record, n)
	if err != nil {
		return Run{}, runError(err)
	}
	if !run.Repeated {
		g.Record(c.workspaceRef.String(), access.Change{Action: rights.Run, Run: run.N, Digest: n.Manifest, Status: http.StatusCreated})
	}
	return run, nil
}

func runError(err error) error {
	switch {
	case errors.Is(err, ErrNoRun):
		return newRefusal(http.StatusNotFound, "not found", "%w", err)
	case errors.Is(err, ErrRunStatus):
		return newRefusal(http.StatusConflict, "transition not allowed", "%w", err)
	case errors.Is(err, ErrRunPending):
		return newRefusal(http.StatusConflict, "workspace has a run", "%w\nhint: discard or cancel it first", err)
	case errors.Is(err, ErrTooManyRuns):
		return newRefusal(http.StatusConflict, "too many runs", "%w\nhint: discard or cancel some", err)
	case errors.Is(err, oci.ErrTooLarge):
		return invalidError("%w\nhint: pass large values to runs in files of the configuration", err)
	}
	return err
}

type runReader struct {
	gate *gate
	runs Runs
}

func (s runReader) findRun(r *http.Request, prefix string, action rights.Action) (runID, access.Grant, error) {
	id, err := parseRunID(r.PathValue("id"), prefix)
	if err != nil {
		return runID{}, access.Grant{}, err
	}
	g, err := s.gate.allowRef(r, action, id.workspaceRef)
	return id, g, err
}

func (s runReader) readNamed(r *http.Request, prefix string) (runID, Run, access.Grant, error) {
	id, g, err := s.findRun(r, prefix, rights.Read)
	if err != nil {
		return id, Run{}, g, err
	}
	run, err := s.readRun(r.Context(), id)
	return id, run, g, err
}

func (s runReader) readRun(ctx context.Context, id runID) (Run, error) {
	view, err := s.runs.View(ctx, id.asWorkspace())
	if err != nil {
		return Run{}, runError(err)
	}
	at := slices.IndexFunc(view.Runs, func(r Run) bool { return r.N == id.n })
	if view.Record != id.record || at < 0 {
		return Run{}, errAbsent("workspace %q has no run %s", id.workspaceRef, id)
	}
	return view.Runs[at], nil
}

type runAttributes struct {
	Status       RunStatus       `json:"status"`
	Message      string          `json:"message"`
	Created      string          `json:"created-at,omitempty"` // the tools reject an empty value
	HasChanges   bool            `json:"has-changes"`
	AutoApply    bool            `json:"auto-apply"`
	IsDestroy    bool            `json:"is-destroy"`
	PlanOnly     bool            `json:"plan-only"`
	Refresh      bool            `json:"refresh"`
	RefreshOnly  bool            `json:"refresh-only"`
	SavePlan     bool            `json:"save-plan"`
	Targets      []string        `json:"target-addrs,omitempty"`
	Replace      []string        `json:"replace-addrs,omitempty"`
	Source       string          `json:"source"`
	Position     int             `json:"position-in-queue"`
	Actions      map[string]bool `json:"actions"`
	Permissions  map[string]bool `json:"permissions"`
	ErrorMessage string          `json:"error-message,omitempty"`
}

func (r Run) isConfirmable() bool {
	return r.Status == RunPlanned || r.Status == RunPlannedAndSaved
}

// runResource returns a run. The tools skip missing parts (cost estimates, policies, task stages).
func (s runReader) runResource(id runID, run Run, g access.Grant) resource {
	may := s.gate.mayAct(g, rights.Run, id.organization, id.workspace)
	stops := slices.Contains([]RunStatus{RunPending, RunPlanning, RunConfirmed, RunApplying}, run.Status)
	return resource{Type: "runs", ID: id.String(), Attributes: runAttributes{
		Status: run.Status, Message: run.Message, Created: formatTime(run.Created), HasChanges: run.HasChanges,
		AutoApply: run.AutoApply, IsDestroy: run.Destroy, PlanOnly: run.Speculative, Refresh: !run.NoRefresh, RefreshOnly: run.RefreshOnly,
		SavePlan: run.SavePlan, Targets: run.Targets, Replace: run.Replace, Source: "tfe-api", ErrorMessage: run.Error,
		Actions: map[string]bool{
			"is-cancelable": stops && !run.Cancelled, "is-confirmable": run.isConfirmable(),
			"is-discardable": run.isConfirmable() || run.Status == RunPending, "is-force-cancelable": stops && run.Cancelled,
		},
		Permissions: map[string]bool{"can-apply": may, "can-cancel": may, "can-discard": may, "can-force-cancel": may, "can-force-execute": false},
	}, Relationships: map[string]relation{
		"workspace": relationTo("workspaces", id.workspaceID("")), "plan": relationTo("plans", id.withPrefix(planPrefix)), "apply": relationTo("applies", id.withPrefix(applyPrefix)),
		"configuration-version": relationTo(configurationKind, configurationID{id.workspaceRef, id.record, run.Configuration}.String()),
	}}
}

func (s runRoutes) showRun(w http.ResponseWriter, r *http.Request) error {
	id, run, g, err := s.reader.readNamed(r, runPrefix)
	if err != nil {
		return err
	}
	doc := document{Data: s.reader.runResource(id, run, g)}
	for include := range strings.SplitSeq(r.URL.Query().Get("include"), ",") {
		switch include {
		case "workspace":
			at, err := s.docs.books.stores.locate(r.Context(), id.workspaceRef)
			if err == nil {
				err = s.docs.books.settleRemote(r.Context(), &at)
			}
			if err != nil {
				return err
			}
			doc.Included = append(doc.Included, s.docs.workspaceResource(id.workspaceRef, "", g, at.liveRecord()), s.organizations.organizationResource(id.organization, g))
		case "plan", "apply":
			d, err := s.phases.phaseResource(r, id, run, g, Phase(include))
			if err != nil {
				return err
			}
			doc.Included = append(doc.Included, d)
		}
	}
	return sendDocument(w, http.StatusOK, doc)
}

// listRunEvents answers with an empty list: the tools look for warnings in it.
func (s runRoutes) listRunEvents(w http.ResponseWriter, r *http.Request) error {
	if _, _, _, err := s.reader.readNamed(r, runPrefix); err != nil {
		return err
	}
	return answerPage[resource](w, r, nil, nil)
}

// actionHandler returns the handler of an action. Who approves has seen the run's only plan.
func (s runRoutes) actionHandler(action RunAction) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, g, err := s.reader.findRun(r, runPrefix, rights.Run)
		if err != nil {
			return err
		}
		var body struct {
			Comment string `json:"comment"`
		}
		if err := s.gate.readBody(w, r, smallBody, &body); err != nil {
			return err
		}
		run, err := s.reader.readRun(r.Context(), id)
		if err != nil {
			return err
		}
		d := Decision{Action: action, By: g.Caller, Comment: printableText(body.Comment)}
		if action == RunConfirm {
			d.Plan = run.Plan
		}
		is, err := s.reader.runs.Act(r.Context(), id.asWorkspace(), id.record, id.n, d)
		if err != nil {
			if errors.Is(err, ErrRunStatus) {
				err = fmt.Errorf("run %s is %s: %w", id, run.Status, err)
			}
			return runError(err)
		}
		if !is.Repeated {
			g.Record(id.workspaceRef.String(), access.Change{Action: rights.Action("run-" + action), Run: id.n, Digest: d.Plan, Status: http.StatusAccepted})
		}
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
}

// listRuns lists the runs of a workspace. Tools only count what their run waits for, but would
// count runs that only plan: they get none of these.
func (s runRoutes) listRuns(w http.ResponseWriter, r *http.Request, p workspaceRef, _ commandID, g access.Grant) error {
	view, err := s.reader.runs.View(r.Context(), p.asWorkspace())
	if err != nil {
		return runError(err)
	}
	runs := view.Runs
	if ofTool(r) {
		runs = slices.DeleteFunc(slices.Clone(runs), func(run Run) bool {
			return run.Status == RunPlannedAndFinished || run.Status == RunPlannedAndSaved
		})
	}
	return answerPage(w, r, runs, func(run Run) resource { return s.reader.runResource(runID{p, view.Record, run.N}, run, g) })
}

// currentRun returns the run that is executing or waits for approval, if there is one.
func (v RunView) currentRun(p workspaceRef) (runID, bool) {
	for _, run := range v.Runs {
		if run.Status.isExecuting() || run.Status == RunPlanned {
			return runID{p, v.Record, run.N}, true
		}
	}
	return runID{}, false
}

// waitingQueue returns the queue of an organization, without runs that the caller may not see.
func (s runRoutes) waitingQueue(r *http.Request) (string, access.Grant, RunQueue, error) {
	organization, g, err := s.gate.allowOrganization(r, rights.Read)
	if err != nil {
		return "", g, RunQueue{}, err
	}
	q, err := s.reader.runs.Queue(r.Context(), organization)
	if err != nil {
		return "", g, RunQueue{}, runError(err)
	}
	q.Waiting = slices.DeleteFunc(slices.Clone(q.Waiting), func(run QueuedRun) bool {
		return run.Organization != organization || !s.gate.mayAct(g, rights.Read, organization, run.Name)
	})
	return organization, g, q, nil
}

// runQueue lists the waiting runs. The tools print the position less the running ones.
func (s runRoutes) runQueue(w http.ResponseWriter, r *http.Request) error {
	_, g, q, err := s.waitingQueue(r)
	if err != nil {
		return err
	}
	from, end, meta := readPage(r.URL.Query()).rangeOf(len(q.Waiting))
	list := make([]resource, 0, end-from)
	for i, run := range q.Waiting[from:end] {
		id := runID{workspaceRef{run.Organization, run.Name}, run.Record, run.N}
		d := s.reader.runResource(id, Run{N: run.N, Status: RunPending, Created: time.Time{}}, g)
		if a, ok := d.Attributes.(runAttributes); ok && from+i+q.Running > 0 {
			a.Position = q.Running + from + i + 1
			d.Attributes = a
		}
		delete(d.Relationships, "configuration-version") // the queue does not know it
		list = append(list, d)
	}
	return sendDocument(w, http.StatusOK, document{Data: list, Meta: meta})
}

func (s runRoutes) showCapacity(w http.ResponseWriter, r *http.Request) error {
	organization, _, q, err := s.waitingQueue(r)
	if err != nil {
		return err
	}
	return sendDocument(w, http.StatusOK, document{Data: resource{
		Type: "organization-capacity", ID: organization, Attributes: map[string]int{"pending": len(q.Waiting), "running": q.Running},
	}})
}

// Bounds of the resource addresses that a run is limited to.
const (
	maxAddresses    = 100
	maxAddressBytes = 1 << 10
)

// checkAddresses bounds the addresses that become arguments of a tool, which parses them.
func checkAddresses(name string, list []string) error {
	if len(list) > maxAddresses {
		return fmt.Errorf("%s has more than %d addresses", name, maxAddresses)
	}
	for _, a := range list {
		if !validText(a, maxAddressBytes) {
			return fmt.Errorf("%s has an address that is empty, contains control characters or exceeds %d bytes", name, maxAddressBytes)
		}
	}
	return nil
}

// givenVariables returns what a run gets: the variables of its workspace and of the request.
func (at located) givenVariables(ctx context.Context, requested map[string]json.RawMessage) (variables.Given, error) {
	own, sets, err := at.book.Of(ctx, at.workspaceRef.workspace, projectName(at.liveRecord().Project))
	if err != nil {
		return variables.Given{}, err
	}
	given, err := variables.Give(own, sets, requested)
	if err != nil {
		err = invalidError("%w\nhint: assign another value", err)
	}
	return given, err
}
