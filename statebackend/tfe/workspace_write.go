// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// workspaceBody is the body of POST and PATCH of a workspace, with only the fields that are stored.
type workspaceBody struct {
	Data struct {
		Attributes struct {
			Name        *string `json:"name"`
			Description *string `json:"description"`
			Mode        *string `json:"execution-mode"`
			Operations  *bool   `json:"operations"`
			requestedSettings
		} `json:"attributes"`
		Relationships struct {
			Tags     *tagList `json:"tags"`
			Bindings *tagList `json:"tag-bindings"`
			Project  struct {
				Data *ref `json:"data"`
			} `json:"project"`
		} `json:"relationships"`
	} `json:"data"`
}

// ofTool drops the tool version that commands set unasked, which would keep out the other tool.
func (b *workspaceBody) ofTool(r *http.Request) {
	if ofTool(r) {
		b.Data.Attributes.Tool = nil
	}
}

func (b workspaceBody) applyTo(organization string, r *statebackend.Record) error {
	a := b.Data.Attributes
	rel := b.Data.Relationships
	if a.Description != nil {
		r.Description = *a.Description
	}
	if mode := b.requestedMode(); mode != nil {
		if *mode != modeLocal && *mode != modeRemote {
			return invalidError("execution-mode must be %s or %s", modeLocal, modeRemote)
		}
		r.Mode = *mode
	}
	if err := a.keepSettings(r); err != nil {
		return err
	}
	if rel.Project.Data != nil {
		of, name, err := parseProjectID(rel.Project.Data.ID)
		if err != nil || of != "" && of != organization {
			return invalidError("project not found")
		}
		if name == defaultProject {
			name = ""
		}
		r.Project = name
	}
	if rel.Tags == nil && rel.Bindings == nil {
		return nil
	}
	r.Tags = map[string]string{}
	if rel.Tags != nil {
		if err := rel.Tags.addToRecord(r); err != nil {
			return err
		}
	}
	if rel.Bindings != nil {
		return rel.Bindings.addToRecord(r)
	}
	return nil
}

// recordApplier returns what writes the body into a record. To change settings that affect runs
// needs the right to run; the project, which decides what runs get, has a check in allowProjectChange.
func (b workspaceBody) recordApplier(s *books, r *http.Request, p workspaceRef) func(*statebackend.Record) error {
	return func(record *statebackend.Record) error {
		old := *record
		err := b.applyTo(p.organization, record)
		if err == nil && record.Project != old.Project {
			err = s.allowProjectChange(r, p, record.Project)
			if err == nil {
				err = s.allowProjectChange(r, p, old.Project)
			}
		}
		if err != nil || sameRuns(&old, record) {
			return err
		}
		_, err = s.gate.allowRef(r, rights.Run, p)
		return err
	}
}

// requestedMode returns the execution mode that a body requests; nil if it requests none.
func (b workspaceBody) requestedMode() *string {
	switch a := b.Data.Attributes; {
	case a.Mode != nil || a.Operations == nil: // older clients use operations
		return a.Mode
	case *a.Operations:
		return new(modeRemote)
	}
	return new(modeLocal)
}

// allowMode decides about the requested mode. Remote execution also needs the right to run.
func (s workspaceWrites) allowMode(r *http.Request, p workspaceRef, b workspaceBody) error {
	if mode := b.requestedMode(); mode == nil || *mode != modeRemote {
		return nil
	}
	if _, err := s.gate.allowRef(r, rights.Run, p); err != nil {
		return err
	}
	if s.records.books.runs == nil {
		return invalidError("execution-mode remote: this server executes no runs\nhint: set runs in the tfe block of its configuration, or leave the mode at local")
	}
	return nil
}

// newName matches the names of new workspaces. A store may have others.
var newName = text.Pattern(`^[A-Za-z0-9_.-]{1,90}$`)

// repeated is how long an equal POST is the repetition of one whose answer was lost.
const repeated = 10 * time.Minute

type workspaceWrites struct {
	gate    *gate
	docs    workspaceDocs
	records workspaceRecords
	locker  locker
}

func (s workspaceWrites) addRoutes(t table) {
	t.onOrganization("POST", "organizations/{organization}/workspaces", manage, s.createWorkspace)
	for _, at := range workspacePaths {
		t.onWorkspace("PATCH", at, manage, s.updateWorkspace)
		t.onWorkspace("DELETE", at, manage, s.deleteWorkspace)
		t.onWorkspace("POST", at+"/actions/safe-delete", manage, s.deleteWorkspace)
	}
}

type workspaceRecords struct {
	stores *stores
	books  *books
	recent *recent
	mode   func(organization string) string // of new workspaces that request none
	wrote  func(ctx context.Context, name string) <-chan struct{}
}

// createWorkspace creates the workspace in the body; its right is checked before, and for the name.
func (s workspaceWrites) createWorkspace(w http.ResponseWriter, r *http.Request, organization string, _ access.Grant) error {
	var body workspaceBody
	if err := s.gate.readBody(w, r, smallBody, &body); err != nil {
		return err
	}
	name := body.Data.Attributes.Name
	if name == nil || !newName().MatchString(*name) || *name == "." || *name == ".." {
		return invalidError("a name must be 1 to 90 characters: A-Z, a-z, 0-9, -, _ and .")
	}
	body.ofTool(r)
	p := workspaceRef{organization, *name}
	g, err := s.gate.allowRef(r, manage, p)
	if err != nil {
		return err
	}
	if err := s.allowMode(r, p, body); err != nil {
		return err
	}
	record, fresh, err := s.records.create(r, p, g, body.recordApplier(s.records.books, r, p))
	if err != nil {
		return err
	}
	announceOrganization(r.Context(), s.records.wrote, organization)
	if fresh {
		g.Record(p.String(), access.Change{Action: "create", Status: http.StatusCreated})
	}
	h := commandID("")
	if ofTool(r) && s.docs.hasCommandIDs(g, &record) {
		h = s.docs.commandIDFor(&record, s.gate.now())
	}
	return sendDocument(w, http.StatusCreated, document{Data: s.docs.forClient(r, s.docs.workspaceResource(p, h, g, &record).withLock(nil))})
}

// endFormer deletes variables and settings left of a workspace of this name: created during its
// deletion, or it was deleted without the state keys or by a tag.
func (s workspaceRecords) endFormer(r *http.Request, at located, g access.Grant) error {
	if at.record == nil && s.books.runs == nil || at.record != nil && !at.record.Deleted {
		return nil
	}
	end, err := s.books.endVariables(r, at.workspaceRef, g)
	if err != nil {
		return err
	}
	return end(r.Context())
}

// announceTime bounds how long an answer waits until other servers can find the new workspace.
const announceTime = 5 * time.Second

// announceOrganization adds the organization to the lists by which short ids are found.
func announceOrganization(ctx context.Context, wrote func(context.Context, string) <-chan struct{}, organization string) {
	listed := wrote(ctx, organization)
	if listed == nil {
		return
	}
	select {
	case <-listed:
	case <-ctx.Done():
	case <-time.After(announceTime):
	}
}

// create writes the first record of a workspace. It is not fresh if an earlier request did.
func (s workspaceRecords) create(r *http.Request, p workspaceRef, g access.Grant, apply func(*statebackend.Record) error) (record statebackend.Record, fresh bool, err error) {
	ctx := r.Context()
	at, err := s.stores.locate(ctx, p)
	if err != nil {
		return record, false, err
	}
	defer s.recent.forget(p)
	if err := s.endFormer(r, at, g); err != nil {
		return record, false, err
	}
	exists, err := at.isPresent(ctx)
	if err != nil {
		return record, false, err
	}
	if exists {
		record, err = s.repeatCreation(ctx, at, g, apply)
		return record, false, err
	}
	record, err = at.list.Change(ctx, at.workspaceRef.workspace, func(r *statebackend.Record) error {
		r.By = authorOf(g.Caller)
		if _, fresh := s.stores.gate.split(at.organization); fresh {
			r.State = format.StateSplit
			if !validOrganization(at.organization + "." + at.workspaceRef.workspace) {
				return invalidError("the state of each workspace of %q is in a separate repository, so the name must be lower-case letters and digits with single ., _ or - between them", at.organization)
			}
		}
		r.Mode = s.mode(at.organization)
		return apply(r)
	})
	if err == nil {
		err = s.decide(ctx, &at, record)
	}
	return record, true, err
}

// decide stores what a record says about runs where writers of states cannot push.
func (s workspaceRecords) decide(ctx context.Context, at *located, r statebackend.Record) (err error) {
	d := runDecisions(r)
	if at.book == nil {
		if !hasDecisions(d) {
			return nil
		}
		if at.book, err = s.books.open(ctx, at.organization); err != nil {
			return err
		}
	}
	return explainFull(at.book.PutSettings(ctx, d, r.By))
}

// repeatCreation returns an existing workspace's record, if this request repeats its creation.
func (s workspaceRecords) repeatCreation(ctx context.Context, at located, g access.Grant, apply func(*statebackend.Record) error) (statebackend.Record, error) {
	isTaken := invalidError("workspace %q has already been taken", at.workspaceRef)
	r := at.liveRecord()
	if r == nil || r.By != authorOf(g.Caller) || s.stores.gate.now().Sub(r.Created) > repeated {
		return statebackend.Record{}, isTaken
	}
	if err := s.books.settleRecord(ctx, &at); err != nil {
		return statebackend.Record{}, err
	}
	again := *at.record
	again.Tags = maps.Clone(r.Tags)
	again.Mode = cmp.Or(again.Mode, s.mode(at.organization))
	if err := apply(&again); err != nil {
		return statebackend.Record{}, err
	}
	sameFields := again.Description == r.Description && again.Project == r.Project && again.Mode == r.Mode && again.Tool == r.Tool
	if !sameFields || !maps.Equal(again.Tags, r.Tags) || !maps.Equal(again.Settings, r.Settings) {
		return statebackend.Record{}, isTaken
	}
	states, err := at.states(ctx)
	if err != nil {
		return statebackend.Record{}, err
	}
	if len(states.Numbers(at.workspace)) > 0 {
		return statebackend.Record{}, isTaken
	}
	return *r, s.decide(ctx, &at, *r)
}

// changedFields names what differs in two records, with the values that decide something.
func changedFields(was, is statebackend.Record) string {
	var all []string
	note := func(name, before, after string) {
		if before != after {
			all = append(all, name+"="+printableText(after))
		}
	}
	note("execution-mode", was.Mode, is.Mode)
	note("project", was.Project, is.Project)
	note("terraform-version", was.Tool, is.Tool)
	note(settingFolder, was.Settings[settingFolder], is.Settings[settingFolder])
	for _, name := range []string{settingAutoApply, settingAllowDestroy, settingFileTriggers, settingQueueAll, settingSpeculative, settingStructured} {
		note(name, strconv.FormatBool(isOn(&was, name)), strconv.FormatBool(isOn(&is, name)))
	}
	if was.Description != is.Description {
		all = append(all, "description")
	}
	if !maps.Equal(was.Tags, is.Tags) {
		all = append(all, "tags")
	}
	return strings.Join(all, ", ")
}

func (s workspaceWrites) updateWorkspace(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error {
	var body workspaceBody
	if err := s.gate.readBody(w, r, smallBody, &body); err != nil {
		return err
	}
	body.ofTool(r)
	if name := body.Data.Attributes.Name; name != nil && *name != p.workspace {
		return invalidError("a workspace cannot be renamed: its state is stored under its name")
	}
	if err := s.allowMode(r, p, body); err != nil {
		return err
	}
	at, _, err := s.records.changeRecord(r.Context(), p, h, g, true, body.recordApplier(s.records.books, r, p))
	if err != nil {
		return err
	}
	d, err := s.docs.describeWorkspace(r.Context(), at, h, g)
	if err != nil {
		return err
	}
	return sendDocument(w, http.StatusOK, document{Data: s.docs.forClient(r, d)})
}

// changeRecord changes an existing workspace's record, for a command no older than that. deciding
// says that the change may be one of what decides about runs.
func (s workspaceRecords) changeRecord(ctx context.Context, p workspaceRef, h commandID, g access.Grant, deciding bool, change func(*statebackend.Record) error) (located, statebackend.Record, error) {
	at, err := s.stores.openWorkspace(ctx, p)
	if err != nil {
		return located{}, statebackend.Record{}, err
	}
	if err := notOlder(h, p, at.record); err != nil {
		return located{}, statebackend.Record{}, err
	}
	began, err := at.latestStart(ctx)
	if err != nil {
		return located{}, statebackend.Record{}, err
	}
	var known map[string]variables.Settings
	if deciding {
		if at.book, err = s.books.open(ctx, p.organization); err == nil {
			known, err = at.book.Settings(ctx, p.workspace)
		}
		if err != nil {
			return located{}, statebackend.Record{}, err
		}
	}
	defer s.recent.forget(p)
	var before statebackend.Record
	record, err := at.list.Change(ctx, p.workspace, func(r *statebackend.Record) error {
		if deciding {
			*r = applyDecisions(*r, known[p.workspace])
		}
		r.By = authorOf(g.Caller)
		if at.liveRecord() == nil {
			r.Created = began
		}
		if at.split {
			r.State = format.StateSplit
		}
		before = *r
		before.Tags = maps.Clone(r.Tags)
		return change(r)
	})
	if err == nil && deciding {
		err = s.decide(ctx, &at, record)
	}
	if err != nil {
		return located{}, statebackend.Record{}, err
	}
	if changed := changedFields(before, record); changed != "" {
		g.Record(p.String(), access.Change{Action: "update", Detail: changed, Status: http.StatusOK})
	}
	at.record = &record
	return at, record, nil
}
