// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// setRoutes are the routes for sets. To change one needs the right to all of its organization.
type setRoutes struct {
	gate   *gate
	finder *finder
	books  *books
	wrote  func(ctx context.Context, name string) <-chan struct{}
}

const (
	setKind   = "varsets"
	setPrefix = "varset-"
	maxSet    = 90  // characters of a name
	maxUses   = 500 // in one body
)

func (s setRoutes) addRoutes(t table) {
	t.onOrganization("GET", "organizations/{organization}/varsets", rights.Read, s.list)
	t.addRoute("POST", "organizations/{organization}/varsets", s.create)
	t.onWorkspace("GET", "workspaces/{id}/varsets", rights.Read, s.listOfWorkspace)
	t.addRoute("GET", "projects/{id}/varsets", handleOne(s.gate.findProject, rights.Read, s.listOfProject))
	t.addRoute("GET", "varsets/{set}", handleOne(s.holderOfSet, rights.Read, s.show))
	t.addRoute("PATCH", "varsets/{set}", handleOne(s.holderOfSet, manage, s.update))
	t.addRoute("DELETE", "varsets/{set}", handleOne(s.holderOfSet, manage, s.delete))
	for _, kind := range []string{"workspaces", "projects"} {
		t.addRoute("POST", "varsets/{set}/relationships/"+kind, handleOne(s.holderOfSet, manage, s.useHandler(false)))
		t.addRoute("DELETE", "varsets/{set}/relationships/"+kind, handleOne(s.holderOfSet, manage, s.useHandler(true)))
	}
}

// allowAll decides about all of an organization. To change what runs get needs the right to run,
// even if this server executes none: another one may.
func (s setRoutes) allowAll(r *http.Request, action rights.Action, organization string) (access.Grant, error) {
	g, err := s.gate.allowRef(r, action, workspaceRef{organization: organization})
	if err != nil || action != manage {
		return g, err
	}
	if !s.gate.mayChangeSets(g, organization) {
		return g, newRefusal(http.StatusForbidden, "forbidden", "a variable set applies to all workspaces of %q, but the caller lacks the right to write and run all of them", organization)
	}
	return g, nil
}

// allowProjectChange decides whether a workspace may join or leave a project, whose sets of variables its
// workspaces get as if they used each. "" is the default project, open to all callers.
func (s *books) allowProjectChange(r *http.Request, p workspaceRef, project string) error {
	g, err := s.gate.allowRef(r, manage, p)
	if err != nil || project == "" || s.gate.mayChangeSets(g, p.organization) {
		return err
	}
	book, err := s.open(r.Context(), p.organization)
	if err != nil {
		return err
	}
	_, uses, err := book.Sets(r.Context())
	if err == nil && slices.ContainsFunc(uses, func(u variables.Use) bool { return u.Project == project }) {
		err = newRefusal(http.StatusForbidden, "forbidden", "project %q uses variable sets, which apply to its workspaces, but the caller lacks the right to write and run all of %q\nhint: ask someone with these rights, or leave the workspace in its project", project, p.organization)
	}
	return err
}

func (s setRoutes) holderOfSet(r *http.Request, action rights.Action) (holder, error) {
	id, ok := cutID(r.PathValue("set"), setPrefix)
	if !ok || !shortRE().MatchString(id) {
		return holder{}, errNoID()
	}
	g, err := s.gate.ask(r, rights.Read, "", "")
	if err != nil {
		return holder{}, err
	}
	var h holder
	err = s.finder.eachOrganization(r.Context(), g, id[:lettersOfOrganization], func(name string) error {
		book, err := s.books.open(r.Context(), name)
		if err != nil {
			return err
		}
		sets, _, err := book.Sets(r.Context())
		if err != nil {
			return err
		}
		for _, set := range sets {
			if set.ID == id && (set.Global || s.gate.mayAll(g, rights.Read, name)) {
				h = holder{workspaceRef: workspaceRef{organization: name}, set: &set, id: setPrefix + id, book: book}
			}
		}
		return nil
	}, func() bool { return h.set != nil })
	if err != nil {
		return h, err
	}
	if h.set == nil {
		return h, errNoID()
	}
	h.g, err = s.allowAll(r, action, h.organization)
	return h, err
}

type setAttributes struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Global      bool   `json:"global"`
	Priority    bool   `json:"priority"`
	Workspaces  int    `json:"workspace-count"`
	Projects    int    `json:"project-count"`
}

// setResource returns a set with the workspaces that the caller may read, but no variables.
func (s setRoutes) setResource(g access.Grant, organization string, set variables.Set, uses []variables.Use) resource {
	workspaces := []ref{}
	projects := []ref{}
	for _, u := range uses {
		switch {
		case u.Set != set.ID, !s.gate.mayAct(g, rights.Read, organization, u.Workspace):
		case u.Workspace != "":
			workspaces = append(workspaces, ref{"workspaces", s.finder.issueID(workspaceRef{organization, u.Workspace})})
		default:
			projects = append(projects, ref{"projects", projectID(organization, u.Project)})
		}
	}
	return resource{Type: setKind, ID: setPrefix + set.ID, Attributes: setAttributes{
		Name: set.Name, Description: set.Description, Global: set.Global, Priority: set.Priority, Workspaces: len(workspaces), Projects: len(projects),
	}, Relationships: map[string]relation{
		"organization": relationTo("organizations", organization), "parent": relationTo("organizations", organization),
		"workspaces": {workspaces}, "projects": {projects},
	}}
}

func (s setRoutes) list(w http.ResponseWriter, r *http.Request, organization string, g access.Grant) error {
	all := s.gate.mayAll(g, rights.Read, organization)
	q := r.URL.Query().Get("q")
	return s.answerSets(w, r, g, organization, func(set variables.Set, _ []variables.Use) bool {
		return (all || set.Global) && strings.Contains(set.Name, q)
	})
}

func (s setRoutes) listOfWorkspace(w http.ResponseWriter, r *http.Request, p workspaceRef, _ commandID, g access.Grant) error {
	if _, err := s.books.stores.openWorkspace(r.Context(), p); err != nil {
		return err
	}
	book, err := s.books.open(r.Context(), p.organization)
	if err != nil {
		return err
	}
	settings, err := book.Settings(r.Context(), p.workspace)
	if err != nil {
		return err
	}
	return s.answerSets(w, r, g, p.organization, func(set variables.Set, uses []variables.Use) bool {
		return len(variables.Applying([]variables.Set{set}, uses, p.workspace, projectName(settings[p.workspace].Project))) > 0
	})
}

func (s setRoutes) listOfProject(w http.ResponseWriter, r *http.Request, p namedProject) error {
	all := s.gate.mayAll(p.g, rights.Read, p.organization)
	return s.answerSets(w, r, p.g, p.organization, func(set variables.Set, uses []variables.Use) bool {
		return (all || set.Global) && len(variables.Applying([]variables.Set{set}, uses, "", p.name)) > 0
	})
}

func (s setRoutes) answerSets(w http.ResponseWriter, r *http.Request, g access.Grant, organization string, want func(variables.Set, []variables.Use) bool) error {
	book, err := s.books.open(r.Context(), organization)
	if err != nil {
		return err
	}
	sets, uses, err := book.Sets(r.Context())
	if err != nil {
		return err
	}
	sets = slices.DeleteFunc(sets, func(set variables.Set) bool { return !want(set, uses) })
	return answerPage(w, r, sets, func(set variables.Set) resource { return s.setResource(g, organization, set, uses) })
}

type refs struct {
	Data []ref `json:"data"`
}

// setBody is the body that creates or changes a set; nil: not set.
type setBody struct {
	Data struct {
		Attributes struct {
			Name        *string `json:"name"`
			Description *string `json:"description"`
			Global      *bool   `json:"global"`
			Priority    *bool   `json:"priority"`
		} `json:"attributes"`
		Relationships struct {
			Workspaces *refs                      `json:"workspaces"`
			Projects   *refs                      `json:"projects"`
			Variables  *struct{ Data []struct{} } `json:"vars"`
			Parent     struct{ Data *ref }        `json:"parent"`
		} `json:"relationships"`
	} `json:"data"`
}

func (b setBody) applyTo(to *variables.Set) error {
	a := b.Data.Attributes
	setGiven(map[*string]*string{a.Name: &to.Name, a.Description: &to.Description})
	setGiven(map[*bool]*bool{a.Global: &to.Global, a.Priority: &to.Priority})
	to.Description = printableText(to.Description)
	switch rel := b.Data.Relationships; {
	case !validLabel(to.Name, 4*maxSet) || len([]rune(to.Name)) > maxSet:
		return invalidError("the name of a set must be at most %d characters", maxSet)
	case rel.Parent.Data != nil && rel.Parent.Data.Type == "projects":
		return invalidError("parent: a set belongs to its organization\nhint: remove parent_project_id, and let the project use the set")
	case rel.Variables != nil && len(rel.Variables.Data) > 0:
		return invalidError("vars: variables are added to a set one by one")
	}
	return nil
}

func (s setRoutes) usesNamed(r *http.Request, organization, set, kind string, list []ref) ([]variables.Use, error) {
	if len(list) > maxUses {
		return nil, invalidError("more than %d %s at once", maxUses, kind)
	}
	var uses []variables.Use
	for _, one := range list {
		switch kind {
		case "workspaces":
			p, _, err := s.gate.parseWorkspace(r, one.ID)
			if err != nil || p.organization != organization {
				return nil, invalidError("%s: workspace not found in organization %q", kind, organization)
			}
			if _, err := s.books.stores.openWorkspace(r.Context(), p); err != nil {
				return nil, err
			}
			uses = append(uses, variables.Use{Set: set, Workspace: p.workspace})
		default:
			of, name, err := parseProjectID(one.ID)
			if err != nil || of != "" && of != organization {
				return nil, invalidError("%s: project not found in organization %q", kind, organization)
			}
			uses = append(uses, variables.Use{Set: set, Project: name})
		}
	}
	return uses, nil
}

func (s setRoutes) create(w http.ResponseWriter, r *http.Request) error {
	organization := r.PathValue("organization")
	g, err := s.allowAll(r, manage, organization)
	if err != nil {
		return err
	}
	var body setBody
	if err := s.gate.readBody(w, r, largeBody, &body); err != nil {
		return err
	}
	set := variables.Set{ID: newID(organization)}
	if err := body.applyTo(&set); err != nil {
		return err
	}
	book, err := s.books.open(r.Context(), organization)
	if err != nil {
		return err
	}
	h := holder{workspaceRef: workspaceRef{organization: organization}, set: &set, id: setPrefix + set.ID, book: book, g: g}
	s.finder.knowOrganization(organization)
	announceOrganization(r.Context(), s.wrote, organization)
	return s.keepSet(w, r, h, set, body, "create", http.StatusCreated)
}

func (s setRoutes) keepSet(w http.ResponseWriter, r *http.Request, h holder, set variables.Set, body setBody, action string, status int) error {
	sets, uses, err := h.book.Sets(r.Context())
	if err != nil {
		return err
	}
	if slices.ContainsFunc(sets, func(o variables.Set) bool { return o.ID != set.ID && o.Name == set.Name }) {
		return invalidError("Name has already been taken")
	}
	wanted := map[string]*refs{"workspaces": body.Data.Relationships.Workspaces, "projects": body.Data.Relationships.Projects}
	var next, gone []variables.Use
	for kind, list := range wanted {
		if list == nil {
			continue
		}
		all, err := s.usesNamed(r, h.organization, set.ID, kind, list.Data)
		if err != nil {
			return err
		}
		next = append(next, all...)
		for _, u := range uses {
			if u.Set == set.ID && (u.Workspace != "") == (kind == "workspaces") && !slices.Contains(all, u) {
				gone = append(gone, u)
			}
		}
	}
	next = slices.DeleteFunc(next, func(u variables.Use) bool { return slices.Contains(uses, u) })
	changed := !slices.Contains(sets, set)
	if changed {
		if err := h.book.PutSet(r.Context(), set, false, authorOf(h.g.Caller)); err != nil {
			return explainFull(err)
		}
	}
	if err := h.putUses(r, next, false); err != nil {
		return err
	}
	if err := h.putUses(r, gone, true); err != nil {
		return err
	}
	h.set = &set
	if changed || len(next)+len(gone) > 0 {
		h.recordSet(action, status)
	}
	_, uses, err = h.book.Sets(r.Context())
	if err != nil {
		return err
	}
	return sendDocument(w, status, document{Data: s.setResource(h.g, h.organization, set, uses)})
}

func (h holder) putUses(r *http.Request, uses []variables.Use, gone bool) error {
	for _, u := range uses {
		if err := h.book.PutUse(r.Context(), u, gone, authorOf(h.g.Caller)); err != nil {
			return explainFull(err)
		}
	}
	return nil
}

func (h holder) recordSet(action string, status int) {
	h.g.Record(h.String(), access.Change{Action: rights.Action("variables-" + action), Version: h.id, Detail: "set " + printableText(h.set.Name), Status: status})
}

func (s setRoutes) show(w http.ResponseWriter, r *http.Request, h holder) error {
	_, uses, err := h.book.Sets(r.Context())
	if err != nil {
		return err
	}
	its, err := h.variables(r.Context())
	if err != nil {
		return err
	}
	d := s.setResource(h.g, h.organization, *h.set, uses)
	list := []ref{}
	for _, one := range its {
		list = append(list, ref{variableKind, variablePrefix + one.ID})
	}
	d.Relationships["vars"] = relation{list}
	return sendDocument(w, http.StatusOK, document{Data: d})
}

func (s setRoutes) update(w http.ResponseWriter, r *http.Request, h holder) error {
	var body setBody
	if err := s.gate.readBody(w, r, largeBody, &body); err != nil {
		return err
	}
	set := *h.set
	if err := body.applyTo(&set); err != nil {
		return err
	}
	return s.keepSet(w, r, h, set, body, "update", http.StatusOK)
}

func (s setRoutes) delete(w http.ResponseWriter, r *http.Request, h holder) error {
	if err := h.book.PutSet(r.Context(), *h.set, true, authorOf(h.g.Caller)); err != nil {
		return err
	}
	h.recordSet("delete", http.StatusNoContent)
	return noContent(w)
}

func (s setRoutes) useHandler(gone bool) func(http.ResponseWriter, *http.Request, holder) error {
	return func(w http.ResponseWriter, r *http.Request, h holder) error {
		var body refs
		if err := s.gate.readBody(w, r, largeBody, &body); err != nil {
			return err
		}
		kind := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		uses, err := s.usesNamed(r, h.organization, h.set.ID, kind, body.Data)
		if err != nil {
			return err
		}
		_, have, err := h.book.Sets(r.Context())
		if err != nil {
			return err
		}
		uses = slices.DeleteFunc(uses, func(u variables.Use) bool { return slices.Contains(have, u) != gone })
		if len(uses) == 0 {
			return noContent(w)
		}
		if err := h.putUses(r, uses, gone); err != nil {
			return err
		}
		h.recordSet("update", http.StatusNoContent)
		return noContent(w)
	}
}
