// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// variableRoutes are the routes for variables of workspaces; variable_set.go has those of sets.
type variableRoutes struct {
	gate   *gate
	finder *finder
	books  *books
	sets   setRoutes
}

func (v variableRoutes) addRoutes(t table) {
	for _, path := range []string{"workspaces/{id}/vars", "varsets/{set}/relationships/vars"} {
		t.addRoute("GET", path, handleOne(v.holderIn, rights.Read, v.list))
		t.addRoute("POST", path, handleOne(v.holderIn, manage, v.create))
		t.addRoute("GET", path+"/{variable}", handleOne(v.findVariable, rights.Read, v.show))
		t.addRoute("PATCH", path+"/{variable}", handleOne(v.findVariable, manage, v.update))
		t.addRoute("DELETE", path+"/{variable}", handleOne(v.findVariable, manage, v.delete))
	}
	t.addRoute("GET", "workspaces/{id}/all-vars", handleOne(v.holderIn, rights.Read, v.listAll))
	// Of older clients: the workspace is in the filter, in the body, or found by the variable.
	t.addRoute("GET", "vars", handleOne(v.holderIn, rights.Read, v.list))
	t.addRoute("POST", "vars", v.createNamed)
	t.addRoute("GET", "vars/{variable}", handleOne(v.findVariable, rights.Read, v.show))
	t.addRoute("PATCH", "vars/{variable}", handleOne(v.findVariable, manage, v.update))
	t.addRoute("DELETE", "vars/{variable}", handleOne(v.findVariable, manage, v.delete))
}

// books read and write what decides about the runs of organizations.
type books struct {
	gate   *gate
	stores *stores
	runs   Runs // nil: no runs are executed here
	sealer artifact.Sealer
	moved  func(ctx context.Context, organization string) error // Options.Moved
	known  variables.Known                                      // of all organizations
}

// open lists what decides about the runs of an organization.
func (s *books) open(ctx context.Context, organization string) (*variables.Listing, error) {
	if s.moved != nil {
		if err := s.moved(ctx, organization); err != nil {
			return nil, err
		}
	}
	store, err := s.stores.openNamed(ctx, organization)
	if err != nil {
		return nil, err
	}
	book, err := variables.Open(store.Repo(), s.sealer, s.gate.now, &s.known)
	if err != nil {
		return nil, err
	}
	return book.List(ctx)
}

// holder is the owner of the variables in a request: a workspace or a set.
type holder struct {
	workspaceRef
	set  *variables.Set // nil: the workspace
	id   string         // of the holder, as documents have it
	book *variables.Listing
	g    access.Grant
}

// String is the name of the holder in records of changes.
func (h holder) String() string {
	if h.set != nil {
		return h.organization
	}
	return h.workspaceRef.String()
}

func (v variableRoutes) holderIn(r *http.Request, action rights.Action) (holder, error) {
	switch {
	case r.PathValue("set") != "":
		return v.sets.holderOfSet(r, action)
	case r.PathValue("id") != "":
		return v.holderOf(r, r.PathValue("id"), action)
	case r.PathValue("variable") != "":
		return v.holderWith(r, action)
	}
	p, err := filteredWorkspace(r)
	if err != nil {
		return holder{}, err
	}
	return v.ofWorkspace(r, p, v.finder.issueID(p), action)
}

func (v variableRoutes) holderOf(r *http.Request, id string, action rights.Action) (holder, error) {
	p, _, err := v.gate.parseWorkspace(r, id)
	if err != nil {
		return holder{}, err
	}
	if !isShort(strings.TrimPrefix(id, "ws-")) {
		id = p.workspaceID("")
	}
	return v.ofWorkspace(r, p, id, action)
}

// holderWith returns the workspace with the variable that a request names only by its id.
func (v variableRoutes) holderWith(r *http.Request, action rights.Action) (holder, error) {
	id, ok := cutID(r.PathValue("variable"), variablePrefix)
	if !ok || !shortRE().MatchString(id) {
		return holder{}, errNoID()
	}
	g, err := v.gate.ask(r, rights.Read, "", "")
	if err != nil {
		return holder{}, err
	}
	var found *workspaceRef
	err = v.finder.eachOrganization(r.Context(), g, id[:lettersOfOrganization], func(name string) error {
		book, err := v.books.open(r.Context(), name)
		if err != nil {
			return err
		}
		one, err := book.Variable(r.Context(), id)
		if err == nil && one != nil && one.Set == "" && v.finder.checkVisible(g, workspaceRef{name, one.Workspace}) == nil {
			found = &workspaceRef{name, one.Workspace}
		}
		return err
	}, func() bool { return found != nil })
	if err != nil {
		return holder{}, err
	}
	if found == nil {
		return holder{}, errNoID()
	}
	return v.ofWorkspace(r, *found, v.finder.issueID(*found), action)
}

// ofWorkspace decides about a workspace's variables. To change what a run gets needs the right to
// run, even if this server executes no runs: another one may.
func (v variableRoutes) ofWorkspace(r *http.Request, p workspaceRef, id string, action rights.Action) (h holder, err error) {
	h = holder{workspaceRef: p, id: id}
	if h.g, err = v.gate.allowRef(r, action, p); err != nil {
		return h, err
	}
	if action == manage {
		if _, err := v.gate.allowRef(r, rights.Run, p); err != nil {
			return h, err
		}
	}
	if _, err := v.books.stores.openWorkspace(r.Context(), p); err != nil {
		return h, err
	}
	h.book, err = v.books.open(r.Context(), p.organization)
	return h, err
}

func (h holder) variables(ctx context.Context) ([]variables.Variable, error) {
	if h.set != nil {
		return h.book.SetVariables(ctx, h.set.ID)
	}
	return h.book.Variables(ctx, h.workspace)
}

// variableAttributes are a variable's attributes. A sensitive value is null, in every answer.
type variableAttributes struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	Description string  `json:"description"`
	Category    string  `json:"category"`
	HCL         bool    `json:"hcl"`
	Sensitive   bool    `json:"sensitive"`
}

const (
	variableKind   = "vars"
	variablePrefix = "var-"
)

func (h holder) variableResource(one variables.Variable) resource {
	a := variableAttributes{Key: one.Key, Value: &one.Value, Description: one.Description, Category: one.Category, HCL: one.HCL, Sensitive: one.Sensitive}
	if one.Sensitive {
		a.Value = nil
	}
	d := resource{Type: variableKind, ID: variablePrefix + one.ID, Attributes: a}
	if h.set != nil {
		d.Relationships = map[string]relation{"varset": relationTo(setKind, h.id)}
	} else {
		d.Relationships = map[string]relation{"configurable": relationTo("workspaces", h.id)}
	}
	return d
}

func (v variableRoutes) list(w http.ResponseWriter, r *http.Request, h holder) error {
	all, err := h.variables(r.Context())
	if err != nil {
		return err
	}
	return h.sendVariables(w, r, all)
}

func (h holder) sendVariables(w http.ResponseWriter, r *http.Request, all []variables.Variable) error {
	return answerPage(w, r, all, h.variableResource)
}

// listAll lists the variables in effect for a workspace: its own, and those of its sets.
func (v variableRoutes) listAll(w http.ResponseWriter, r *http.Request, h holder) error {
	own, sets, err := v.listApplied(r.Context(), h)
	if err != nil {
		return err
	}
	return h.sendVariables(w, r, variables.Counting(own, sets))
}

func (v variableRoutes) listApplied(ctx context.Context, h holder) ([]variables.Variable, []variables.Applied, error) {
	set, err := h.book.Settings(ctx, h.workspace)
	if err != nil {
		return nil, nil, err
	}
	return h.book.Of(ctx, h.workspace, projectName(set[h.workspace].Project))
}

// projectName returns the name of a project; "" is the default one.
func projectName(project string) string { return cmp.Or(project, defaultProject) }

type variableBody struct {
	Data struct {
		Attributes struct {
			Key         *string `json:"key"`
			Value       *string `json:"value"`
			Description *string `json:"description"`
			Category    *string `json:"category"`
			HCL         *bool   `json:"hcl"`
			Sensitive   *bool   `json:"sensitive"`
		} `json:"attributes"`
		Relationships struct {
			Workspace struct{ Data ref } `json:"workspace"` // if the path names none
		} `json:"relationships"`
	} `json:"data"`
}

// applyTo writes a body into a variable. Sensitive stays sensitive, or its value could be read.
func (b variableBody) applyTo(to *variables.Variable) error {
	a := b.Data.Attributes
	if to.Sensitive && a.Sensitive != nil && !*a.Sensitive {
		return invalidError("sensitive: a sensitive variable cannot be made readable\nhint: delete it and create a new one")
	}
	if a.Category != nil && to.Category != "" && *a.Category != to.Category {
		return invalidError("category: the category of a variable cannot be changed\nhint: delete it and create a new one")
	}
	if to.Sensitive && a.Key != nil && *a.Key != to.Key && a.Value == nil {
		return invalidError("key: a sensitive variable can only be renamed together with a new value")
	}
	setGiven(map[*string]*string{a.Key: &to.Key, a.Value: &to.Value, a.Description: &to.Description, a.Category: &to.Category})
	setGiven(map[*bool]*bool{a.HCL: &to.HCL, a.Sensitive: &to.Sensitive})
	to.Description = printableText(to.Description)
	return nil
}

// setGiven sets what a request has a value for.
func setGiven[T any](fields map[*T]*T) {
	for value, to := range fields {
		if value != nil {
			*to = *value
		}
	}
}

// checkVariable refuses a variable that cannot be stored, or given to a run.
func (v variableRoutes) checkVariable(one variables.Variable, others []variables.Variable) error {
	if err := one.Check(); err != nil {
		return invalidError("%w", err)
	}
	if one.Category == variables.Environment && v.books.runs != nil {
		if err := v.books.runs.CheckEnvironment(one.Key); err != nil {
			return invalidError("key: %w", err)
		}
	}
	if one.Sensitive && v.books.sealer == nil {
		return invalidError("sensitive: this server has no state keys, so the registry would store the value unencrypted\nhint: configure a state key, or pass the value to runs with credentials of the organization")
	}
	if isTaken(one, others) {
		return invalidError("Key has already been taken")
	}
	return nil
}

func isTaken(one variables.Variable, others []variables.Variable) bool {
	return slices.ContainsFunc(others, func(o variables.Variable) bool {
		return o.ID != one.ID && o.Key == one.Key && o.Category == one.Category
	})
}

func newID(organization string) string {
	return organizationLetters(organization) + rand.Text()[:variables.IDLength-lettersOfOrganization]
}

func (v variableRoutes) create(w http.ResponseWriter, r *http.Request, h holder) error {
	var body variableBody
	if err := v.gate.readBody(w, r, largeBody, &body); err != nil {
		return err
	}
	return v.makeVariable(w, r, h, body)
}

// createNamed creates a variable. A right to run is needed before the body tells where.
func (v variableRoutes) createNamed(w http.ResponseWriter, r *http.Request) error {
	if _, err := v.gate.allowRef(r, rights.Run, workspaceRef{}); err != nil {
		return err
	}
	var body variableBody
	if err := v.gate.readBody(w, r, largeBody, &body); err != nil {
		return err
	}
	h, err := v.holderOf(r, body.Data.Relationships.Workspace.Data.ID, manage)
	if err != nil {
		return err
	}
	return v.makeVariable(w, r, h, body)
}

func (v variableRoutes) makeVariable(w http.ResponseWriter, r *http.Request, h holder, body variableBody) error {
	one := variables.Variable{ID: newID(h.organization), Workspace: h.workspace}
	if h.set != nil {
		one.Set = h.set.ID
		one.Workspace = ""
	}
	if err := body.applyTo(&one); err != nil {
		return err
	}
	if err := v.keepVariable(r, h, one, "create"); err != nil {
		return err
	}
	if err := v.keepAlone(r, h, one); err != nil {
		return err
	}
	return sendDocument(w, http.StatusCreated, document{Data: h.variableResource(one)})
}

func (v variableRoutes) keepVariable(r *http.Request, h holder, one variables.Variable, action string) error {
	others, err := h.variables(r.Context())
	if err != nil {
		return err
	}
	if err := v.checkVariable(one, others); err != nil {
		return err
	}
	if slices.Contains(others, one) {
		return nil
	}
	if err := h.book.PutVariable(r.Context(), one, false, authorOf(h.g.Caller)); err != nil {
		return explainFull(err)
	}
	h.recordVariable(one, action, http.StatusOK)
	return nil
}

// keepAlone removes a new variable if another client made one of its key, which both see by now.
func (v variableRoutes) keepAlone(r *http.Request, h holder, one variables.Variable) error {
	var err error
	if h.book, err = v.books.open(r.Context(), h.organization); err != nil {
		return err
	}
	others, err := h.variables(r.Context())
	if err != nil || !isTaken(one, others) {
		return err
	}
	if err := h.book.PutVariable(r.Context(), one, true, authorOf(h.g.Caller)); err != nil {
		return err
	}
	h.recordVariable(one, "delete", http.StatusUnprocessableEntity)
	return invalidError("key: another caller is creating a variable with this key\nhint: try again")
}

// recordVariable names the variable in the record of changes, but never its value.
func (h holder) recordVariable(one variables.Variable, action string, status int) {
	detail := fmt.Sprintf("%s %s", one.Category, printableText(one.Key))
	if h.set != nil {
		detail += " of set " + printableText(h.set.Name)
	}
	h.g.Record(h.String(), access.Change{Action: rights.Action("variable-" + action), Version: variablePrefix + one.ID, Detail: detail, Status: status})
}

func explainFull(err error) error {
	if errors.Is(err, variables.ErrFull) {
		return invalidError("%w", err)
	}
	return err
}

// holdsVariable reports whether a variable belongs to the holder: its set, or else its workspace.
func (h holder) holdsVariable(one variables.Variable) bool {
	if h.set != nil {
		return one.Set == h.set.ID
	}
	return one.Set == "" && one.Workspace == h.workspace
}

type heldVariable struct {
	holder
	one variables.Variable
}

// findVariable returns the variable that a request names, which must belong to the holder.
func (v variableRoutes) findVariable(r *http.Request, action rights.Action) (heldVariable, error) {
	h, err := v.holderIn(r, action)
	if err != nil {
		return heldVariable{}, err
	}
	id, ok := cutID(r.PathValue("variable"), variablePrefix)
	if !ok || !shortRE().MatchString(id) {
		return heldVariable{}, errNoID()
	}
	one, err := h.book.Variable(r.Context(), id)
	if err != nil {
		return heldVariable{}, err
	}
	if one == nil || !h.holdsVariable(*one) {
		return heldVariable{}, errNoID()
	}
	return heldVariable{h, *one}, nil
}

func (v variableRoutes) show(w http.ResponseWriter, _ *http.Request, h heldVariable) error {
	return sendDocument(w, http.StatusOK, document{Data: h.variableResource(h.one)})
}

func (v variableRoutes) update(w http.ResponseWriter, r *http.Request, h heldVariable) error {
	var body variableBody
	if err := v.gate.readBody(w, r, largeBody, &body); err != nil {
		return err
	}
	if err := body.applyTo(&h.one); err != nil {
		return err
	}
	if err := v.keepVariable(r, h.holder, h.one, "update"); err != nil {
		return err
	}
	return sendDocument(w, http.StatusOK, document{Data: h.variableResource(h.one)})
}

func (v variableRoutes) delete(w http.ResponseWriter, r *http.Request, h heldVariable) error {
	if err := h.book.PutVariable(r.Context(), h.one, true, authorOf(h.g.Caller)); err != nil {
		return err
	}
	h.recordVariable(h.one, "delete", http.StatusNoContent)
	return noContent(w)
}
