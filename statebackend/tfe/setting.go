// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// A setting is stored if it has an effect here, or nobody would miss that; else it is refused.

// requestedSettings are the settings in a body; nil: not set.
type requestedSettings struct {
	AutoApply    *bool   `json:"auto-apply"`
	AllowDestroy *bool   `json:"allow-destroy-plan"`
	FileTriggers *bool   `json:"file-triggers-enabled"`
	QueueAll     *bool   `json:"queue-all-runs"`
	Speculative  *bool   `json:"speculative-enabled"`
	Structured   *bool   `json:"structured-run-output-enabled"`
	Folder       *string `json:"working-directory"`
	Tool         *string `json:"terraform-version"`

	// These are refused unless the value means that the setting is not wanted.
	Global       *bool           `json:"global-remote-state"`
	InProject    *bool           `json:"project-remote-state"`
	AutoTrigger  *bool           `json:"auto-apply-run-trigger"`
	Assessments  *bool           `json:"assessments-enabled"`
	AgentPool    *string         `json:"agent-pool-id"`
	Repository   json.RawMessage `json:"vcs-repo"`
	Prefixes     []string        `json:"trigger-prefixes"`
	Patterns     []string        `json:"trigger-patterns"`
	DestroyAt    json.RawMessage `json:"auto-destroy-at"`
	DestroyAfter json.RawMessage `json:"auto-destroy-activity-duration"`
}

// Names of settings in records.
const (
	settingAutoApply    = "auto-apply"
	settingAllowDestroy = "allow-destroy-plan"
	settingFileTriggers = "file-triggers-enabled"
	settingQueueAll     = "queue-all-runs"
	settingSpeculative  = "speculative-enabled"
	settingStructured   = "structured-run-output-enabled"
	settingFolder       = "working-directory"
)

var deciding = [...]string{settingAutoApply, settingAllowDestroy, settingSpeculative}

func runDecisions(r statebackend.Record) variables.Settings {
	d := variables.Settings{Workspace: r.Workspace, Project: r.Project, Mode: r.Mode, Options: map[string]string{}}
	for _, name := range deciding {
		if value := r.Settings[name]; value != "" {
			d.Options[name] = value
		}
	}
	return d
}

func hasDecisions(d variables.Settings) bool {
	return d.Project != "" || d.Mode != "" || len(d.Options) > 0
}

// applyDecisions lets d replace what a record, which writers of states may write, says about runs.
func applyDecisions(r statebackend.Record, d variables.Settings) statebackend.Record {
	r.Project = d.Project
	r.Mode = d.Mode
	all := map[string]string{}
	maps.Copy(all, r.Settings)
	for _, name := range deciding {
		delete(all, name)
	}
	maps.Copy(all, d.Options)
	if r.Settings = all; len(all) == 0 {
		r.Settings = nil
	}
	return r
}

// settleRecord reads what decides about a workspace's runs, which replaces what its record says.
func (s *books) settleRecord(ctx context.Context, at *located) (err error) {
	if at.book, err = s.open(ctx, at.organization); err != nil {
		return err
	}
	all, err := at.book.Settings(ctx, at.workspaceRef.workspace)
	if err == nil && at.liveRecord() != nil {
		r := applyDecisions(*at.record, all[at.workspaceRef.workspace])
		at.record = &r
	}
	return err
}

// settleRemote is settleRecord where the record does not say that nothing runs here.
func (s *books) settleRemote(ctx context.Context, at *located) error {
	if !s.runsHere(at.liveRecord()) {
		return nil
	}
	return s.settleRecord(ctx, at)
}

func defaultSetting(name string) bool { return name != settingAutoApply }

func isOn(r *statebackend.Record, name string) bool {
	if r != nil && r.Settings[name] != "" {
		return r.Settings[name] == "true"
	}
	return defaultSetting(name)
}

func isEmptyJSON(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(raw, []byte("null")) || bytes.Equal(raw, []byte(`""`))
}

func (a requestedSettings) whyRefused() error {
	given := func(b *bool) bool { return b != nil && *b }
	switch {
	case !isEmptyJSON(a.Repository):
		return invalidError("vcs-repo: no push starts a run on this server\nhint: leave out vcs_repo, and let CI of that repository plan and apply")
	case len(a.Prefixes)+len(a.Patterns) > 0:
		return invalidError("trigger-prefixes and trigger-patterns: no push starts a run on this server\nhint: leave them out")
	case a.Global != nil && !*a.Global, given(a.InProject):
		return invalidError("global-remote-state false and project-remote-state: the rights of callers decide who may read a state, and no setting of a workspace restricts them\nhint: set global_remote_state = true, even if the resource has it unset and sends false, and give the right to read to fewer callers")
	case given(a.AutoTrigger):
		return invalidError("auto-apply-run-trigger: this server has no run triggers")
	case given(a.Assessments):
		return invalidError("assessments-enabled: this server does not check workspaces for drift\nhint: plan on a schedule in CI")
	case a.AgentPool != nil && *a.AgentPool != "":
		return invalidError("agent-pool-id: there are no agents; runs are executed by the server or where the tool is started")
	case !isEmptyJSON(a.DestroyAt), !isEmptyJSON(a.DestroyAfter):
		return invalidError("auto-destroy: this server does not destroy on a schedule")
	}
	return a.checkTool()
}

// checkTool refuses a tool version that no tool could compare with its own.
func (a requestedSettings) checkTool() error {
	if a.Tool == nil || *a.Tool == "" || *a.Tool == anyTool {
		return nil
	}
	if _, err := addr.ParseConstraint(*a.Tool); err != nil || strings.TrimSpace(*a.Tool) == "" {
		return invalidError("terraform-version must be a version such as 1.12.6, a constraint such as ~> 1.12.0, or %s", anyTool)
	}
	return nil
}

func sameRuns(a, b *statebackend.Record) bool {
	return isOn(a, settingAutoApply) == isOn(b, settingAutoApply) && isOn(a, settingAllowDestroy) == isOn(b, settingAllowDestroy) &&
		isOn(a, settingSpeculative) == isOn(b, settingSpeculative)
}

func (a requestedSettings) keepSettings(r *statebackend.Record) error {
	if err := a.whyRefused(); err != nil {
		return err
	}
	next := map[string]string{}
	maps.Copy(next, r.Settings)
	for name, value := range map[string]*bool{
		settingAutoApply: a.AutoApply, settingAllowDestroy: a.AllowDestroy, settingFileTriggers: a.FileTriggers, settingQueueAll: a.QueueAll,
		settingSpeculative: a.Speculative, settingStructured: a.Structured,
	} {
		switch {
		case value == nil:
		case *value == defaultSetting(name):
			delete(next, name)
		default:
			next[name] = strconv.FormatBool(*value)
		}
	}
	if a.Folder != nil {
		if next[settingFolder] = *a.Folder; *a.Folder == "" {
			delete(next, settingFolder)
		}
	}
	if a.Tool != nil {
		if r.Tool = *a.Tool; r.Tool == anyTool {
			r.Tool = ""
		}
	}
	if r.Settings = next; len(next) == 0 {
		r.Settings = nil
	}
	if r.Mode == modeRemote && next[settingFolder] != "" {
		return invalidError("working-directory: a run on this server starts in the uploaded folder\nhint: remove it, and start the tool in that folder")
	}
	return nil
}
