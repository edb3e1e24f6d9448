// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"cmp"
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/statebackend"
)

// Execution modes.
const (
	modeLocal  = "local"
	modeRemote = "remote"
)

// workspaceAttributes are the attributes of a workspace. The tools need most of them.
type workspaceAttributes struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Mode        string            `json:"execution-mode"`
	Operations  bool              `json:"operations"`
	AutoApply   bool              `json:"auto-apply"`
	Locked      *bool             `json:"locked,omitempty"` // nil: not checked
	Tool        string            `json:"terraform-version"`
	Tags        []string          `json:"tag-names"`
	Structured  bool              `json:"structured-run-output-enabled"`
	Destroy     bool              `json:"allow-destroy-plan"`
	Files       bool              `json:"file-triggers-enabled"`
	Queue       bool              `json:"queue-all-runs"`
	Speculative bool              `json:"speculative-enabled"`
	Global      bool              `json:"global-remote-state"` // rights decide about reading
	Folder      string            `json:"working-directory"`
	Values      map[string]string `json:"tag-values,omitempty"` // only tags with a value
	Created     string            `json:"created-at,omitempty"`
	Updated     string            `json:"updated-at,omitempty"`
	Actions     map[string]bool   `json:"actions"`
	Permissions map[string]bool   `json:"permissions"`
}

// anyTool is the tool version that accepts any. The tools compare any other with their own.
const anyTool = "latest"

type workspaces struct {
	gate    *gate
	stores  *stores
	docs    workspaceDocs
	recent  *recent
	outputs outputRoutes
}

func (s workspaces) addRoutes(t table) {
	t.onOrganization("GET", "organizations/{organization}/workspaces", rights.Read, s.listWorkspaces)
	for _, at := range workspacePaths {
		t.onWorkspace("GET", at, rights.Read, s.showWorkspace)
	}
}

var workspacePaths = [...]string{"organizations/{organization}/workspaces/{workspace}", "workspaces/{id}"}

type workspaceDocs struct {
	gate   *gate
	finder *finder
	books  *books
}

// workspaceResource returns a workspace; one without a record came through another API.
func (s workspaceDocs) workspaceResource(p workspaceRef, h commandID, g access.Grant, r *statebackend.Record) resource {
	if r == nil {
		r = &statebackend.Record{}
	}
	write := s.gate.mayAct(g, rights.Write, p.organization, p.workspace)
	manages := write && g.Mode != modeOfRuns
	run := s.gate.mayAct(g, rights.Run, p.organization, p.workspace)
	mode := modeLocal
	if s.books.runsHere(r) {
		mode = modeRemote
	}
	queue := run && s.books.runs != nil
	a := workspaceAttributes{
		Name: p.workspace, Description: r.Description,
		Mode:       mode, // the mode in effect, whatever the record says if runs are not executed here
		Operations: mode == modeRemote,
		AutoApply:  isOn(r, settingAutoApply), Destroy: isOn(r, settingAllowDestroy), Files: isOn(r, settingFileTriggers), Queue: isOn(r, settingQueueAll),
		Speculative: isOn(r, settingSpeculative), Global: true, Folder: r.Settings[settingFolder],
		Tool:       cmp.Or(r.Tool, anyTool),
		Tags:       append([]string{}, slices.Sorted(maps.Keys(r.Tags))...),
		Structured: isOn(r, settingStructured),
		Values:     tagsWithValue(r.Tags),
		Created:    formatTime(r.Created), Updated: formatTime(r.Updated),
		Actions: map[string]bool{"is-destroyable": write},
		Permissions: map[string]bool{
			"can-read-settings": true, "can-read-state-outputs": true, "can-read-state-versions": true, "can-create-state-versions": write,
			"can-update": manages, "can-destroy": manages, "can-force-delete": manages,
			"can-lock": write, "can-unlock": write, "can-force-unlock": write,
			"can-queue-run": queue, "can-queue-apply": queue, "can-queue-destroy": queue,
			"can-manage-tags": manages, "can-read-variable": true, "can-update-variable": manages && run, // they decide what runs execute
		},
	}
	return resource{Type: "workspaces", ID: p.workspaceID(h), Attributes: a, Relationships: map[string]relation{
		"organization": relationTo("organizations", p.organization),
		"project":      relationTo("projects", projectID(p.organization, cmp.Or(r.Project, defaultProject))),
	}}
}

func tagsWithValue(tags map[string]string) map[string]string {
	all := maps.Clone(tags)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// forClient adapts a workspace. Tools are told that there is no structured output, which runs here
// lack. Others get an id that the provider hashicorp/tfe accepts, unless they used another one.
func (s workspaceDocs) forClient(r *http.Request, w resource) resource {
	a, ok := w.Attributes.(workspaceAttributes)
	if !ok {
		return w
	}
	if ofTool(r) {
		a.Structured = false
		w.Attributes = a
		return w
	}
	asked, _ := cutID(r.PathValue("id"), "ws-")
	if p, h, err := parseWorkspaceID(w.ID, s.gate.now()); err == nil && h == "" && (asked == "" || isShort(asked)) {
		w.ID = s.finder.issueID(p)
	}
	return w
}

func (w resource) withLock(l *statebackend.Held) resource {
	a, ok := w.Attributes.(workspaceAttributes)
	if !ok {
		return w
	}
	a.Locked = new(l != nil)
	w.Attributes = a
	if l != nil {
		w.Relationships["locked-by"] = relationTo("users", orUnknown(l.Info.Who))
	}
	return w
}

// formatTime formats a time for documents; "" for the zero time.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// ofTool reports whether a tool's command calls, which gets a command ID. Others keep stable ids.
func ofTool(r *http.Request) bool { return r.Header.Get("Terraform-Version") != "" }

func (s workspaces) showWorkspace(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error {
	command := r.PathValue("id") == "" && ofTool(r)
	listed := s.gate.now()
	var at located
	var err error
	if command {
		at, listed, err = s.openFor(r.Context(), readerOf(r, p, g))
	} else {
		at, err = s.stores.openWorkspace(r.Context(), p)
	}
	if err == nil {
		err = s.docs.books.settleRemote(r.Context(), &at)
	}
	if err != nil {
		return err
	}
	if command && s.docs.hasCommandIDs(g, at.liveRecord()) {
		h = s.docs.commandIDFor(at.record, listed)
	}
	d, err := s.docs.describeWorkspace(r.Context(), at, h, g)
	if err != nil {
		return err
	}
	doc := document{Data: s.docs.forClient(r, d)}
	if includesRelated(r, "effective_tag_bindings") {
		bound := tagBindings("effective-tag-bindings", at.liveRecord())
		d.Relationships["effective-tag-bindings"] = toAll(bound)
		doc.Included = bound
	}
	if includesRelated(r, "outputs") {
		included, release, err := s.outputs.includedOutputs(r.Context(), g, at)
		if err != nil {
			return err
		}
		defer release()
		doc.Included = append(doc.Included, included...)
		d.Relationships["outputs"] = toAll(included)
	}
	return sendDocument(w, http.StatusOK, doc)
}

// openFor is openWorkspace for a command, from its recent list. It returns when that was requested.
func (s workspaces) openFor(ctx context.Context, by reader) (located, time.Time, error) {
	now := s.gate.now()
	if known := s.recent.get(by, now); known.list != nil {
		store, err := s.stores.openNamed(ctx, by.organization)
		if err != nil {
			return located{}, now, err
		}
		at, err := s.stores.locateIn(ctx, by.workspaceRef, store, known.list)
		return at, known.at, err
	}
	at, err := s.stores.openWorkspace(ctx, by.workspaceRef)
	if err == nil {
		s.recent.keep(by, dated{at.list, now})
	}
	return at, now, err
}

// describeWorkspace returns a workspace, whose record is settled, with its lock.
func (s workspaceDocs) describeWorkspace(ctx context.Context, at located, h commandID, g access.Grant) (resource, error) {
	states, err := at.states(ctx)
	if err != nil {
		return resource{}, err
	}
	held, err := states.Held(ctx, at.workspace)
	if err != nil {
		return resource{}, err
	}
	d := s.workspaceResource(at.workspaceRef, h, g, at.liveRecord()).withLock(held)
	if !s.books.runsHere(at.liveRecord()) {
		return d, nil
	}
	view, err := s.books.runs.View(ctx, at.asWorkspace())
	if err != nil {
		return resource{}, runError(err)
	}
	if id, ok := view.currentRun(at.workspaceRef); ok {
		d.Relationships["current-run"] = relationTo("runs", id.String())
	}
	return d, nil
}

// hasCommandIDs reports whether commands get ids with a command ID: not where runs are executed
// here, as two commands may share a saved plan and compare ids; only the run writes states there.
func (s workspaceDocs) hasCommandIDs(g access.Grant, r *statebackend.Record) bool {
	return !s.books.runsHere(r) || g.Mode == modeOfRuns
}

// liveRecord returns the record, unless it says deleted.
func (at located) liveRecord() *statebackend.Record {
	if at.record == nil || at.record.Deleted {
		return nil
	}
	return at.record
}

// tagList is a list of tags in a body: names, or names with values.
type tagList struct {
	Data []struct {
		Attributes struct {
			Name  string `json:"name"`
			Key   string `json:"key"`
			Value string `json:"value"`
		} `json:"attributes"`
	} `json:"data"`
}

// addToRecord adds the tags to a record. A tag without a value keeps its current value.
func (l tagList) addToRecord(r *statebackend.Record) error {
	tags := maps.Clone(r.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	for _, t := range l.Data {
		a := t.Attributes
		if name := a.Name; name != "" {
			if _, ok := tags[name]; !ok {
				tags[name] = ""
			}
			continue
		}
		if a.Key == "" {
			return invalidError("a tag has no name")
		}
		tags[a.Key] = a.Value
	}
	r.Tags = tags
	return nil
}

func (l tagList) removeFrom(r *statebackend.Record) error {
	tags := maps.Clone(r.Tags)
	for _, t := range l.Data {
		name := t.Attributes.Name
		name = cmp.Or(name, t.Attributes.Key)
		delete(tags, name)
	}
	r.Tags = tags
	return nil
}

type tags struct {
	gate    *gate
	stores  *stores
	records workspaceRecords
}

func (s tags) addRoutes(t table) {
	t.onWorkspace("POST", "workspaces/{id}/relationships/tags", manage, s.changeTags(tagList.addToRecord))
	t.onWorkspace("DELETE", "workspaces/{id}/relationships/tags", manage, s.changeTags(tagList.removeFrom))
	t.onWorkspace("GET", "workspaces/{id}/tag-bindings", rights.Read, s.listTagBindings)
	t.onWorkspace("PATCH", "workspaces/{id}/tag-bindings", manage, s.addTagBindings)
	t.onWorkspace("GET", "workspaces/{id}/effective-tag-bindings", rights.Read, s.listTagBindings)
}

func (s tags) changeTags(change func(tagList, *statebackend.Record) error) workspaceHandler {
	return func(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error {
		if _, err := s.editTags(w, r, p, h, g, change); err != nil {
			return err
		}
		return noContent(w)
	}
}

func (s tags) editTags(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant, change func(tagList, *statebackend.Record) error) (statebackend.Record, error) {
	var body tagList
	if err := s.gate.readBody(w, r, smallBody, &body); err != nil {
		return statebackend.Record{}, err
	}
	_, record, err := s.records.changeRecord(r.Context(), p, h, g, false, func(r *statebackend.Record) error { return change(body, r) })
	return record, err
}

type binding struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func tagBindings(kind string, r *statebackend.Record) []resource {
	list := []resource{}
	if r != nil {
		for _, key := range slices.Sorted(maps.Keys(r.Tags)) {
			id := "tb-" + base64.RawURLEncoding.EncodeToString([]byte(key))
			list = append(list, resource{Type: kind, ID: id, Attributes: binding{key, r.Tags[key]}})
		}
	}
	return list
}

func (s tags) listTagBindings(w http.ResponseWriter, r *http.Request, p workspaceRef, _ commandID, _ access.Grant) error {
	kind := "tag-bindings"
	if strings.HasSuffix(r.URL.Path, "/effective-tag-bindings") {
		kind = "effective-tag-bindings"
	}
	at, err := s.stores.openWorkspace(r.Context(), p)
	if err != nil {
		return err
	}
	return sendDocument(w, http.StatusOK, document{Data: tagBindings(kind, at.liveRecord())})
}

func (s tags) addTagBindings(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error {
	record, err := s.editTags(w, r, p, h, g, tagList.addToRecord)
	if err != nil {
		return err
	}
	return sendDocument(w, http.StatusOK, document{Data: tagBindings("tag-bindings", &record)})
}
