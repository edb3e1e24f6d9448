// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"net/http"
	"slices"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
)

// A project is a label of workspaces. It exists while a workspace has it.
const (
	// defaultProject is the project of workspaces without one.
	defaultProject = "Default Project"
	maxProject     = 128 // characters, at most 4 bytes each
)

type projects struct {
	gate   *gate
	stores *stores
}

func (p projects) addRoutes(t table) {
	t.onOrganization("GET", "organizations/{organization}/projects", rights.Read, p.list)
	t.onOrganization("POST", "organizations/{organization}/projects", manage, p.create)
	t.addRoute("GET", "projects/{id}", handleOne(p.gate.findProject, rights.Read, p.show))
	t.addRoute("PATCH", "projects/{id}", handleOne(p.gate.findProject, manage, p.update))
	t.addRoute("DELETE", "projects/{id}", handleOne(p.gate.findProject, manage, p.delete))
}

type namedProject struct {
	organization, name string
	g                  access.Grant
}

// findProject is allowRef for the routes with the id of a project in the path.
func (s *gate) findProject(r *http.Request, action rights.Action) (p namedProject, err error) {
	if p.organization, p.name, err = parseProjectID(r.PathValue("id")); err != nil {
		return p, err
	}
	p.g, err = s.allowRef(r, action, workspaceRef{organization: p.organization})
	return p, err
}

// projectResource returns a label as a resource; organization "" means that none was named.
func projectResource(organization, name string) resource {
	r := resource{Type: "projects", ID: projectID(organization, name), Attributes: map[string]string{"name": name}}
	if organization != "" {
		r.Relationships = map[string]relation{"organization": relationTo("organizations", organization)}
	}
	return r
}

// list lists the labels of the workspaces that the caller may read.
func (p projects) list(w http.ResponseWriter, r *http.Request, organization string, g access.Grant) error {
	all, err := p.stores.readableWorkspaces(r.Context(), organization, g)
	if err != nil {
		return err
	}
	names := []string{defaultProject}
	for _, ws := range all {
		if live := ws.Live(); live != nil && live.Project != "" {
			names = append(names, live.Project)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if want := r.URL.Query().Get("filter[names]"); want != "" {
		wanted := splitWords(want)
		if len(wanted) > maxFilters {
			return invalidError("more than %d names", maxFilters)
		}
		names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(wanted, n) })
	}
	return answerPage(w, r, names, func(name string) resource { return projectResource(organization, name) })
}

type projectBody struct {
	Data struct {
		Attributes struct {
			Name        string `json:"name"`
			Description string `json:"description"`
		} `json:"attributes"`
	} `json:"data"`
}

// create stores nothing: the label of a project is in the records of its workspaces, which follow.
func (p projects) create(w http.ResponseWriter, r *http.Request, organization string, _ access.Grant) error {
	var body projectBody
	if err := p.gate.readBody(w, r, smallBody, &body); err != nil {
		return err
	}
	name := body.Data.Attributes.Name
	if body.Data.Attributes.Description != "" {
		return invalidError("a project is a label of workspaces and has no description")
	}
	if !validProject(name) {
		return invalidError("a project name must be at most %d characters", maxProject)
	}
	return sendDocument(w, http.StatusCreated, document{Data: projectResource(organization, name)})
}

func validProject(name string) bool {
	return validLabel(name, 4*maxProject) && len([]rune(name)) <= maxProject
}

func (projects) show(w http.ResponseWriter, _ *http.Request, named namedProject) error {
	return sendDocument(w, http.StatusOK, document{Data: projectResource(named.organization, named.name)})
}

// delete has nothing to delete: it refuses labels that workspaces still have.
func (p projects) delete(w http.ResponseWriter, r *http.Request, named namedProject) error {
	name := named.name
	all, err := p.stores.readableWorkspaces(r.Context(), named.organization, named.g)
	if err != nil {
		return err
	}
	for _, ws := range all {
		if live := ws.Live(); name == defaultProject || live != nil && live.Project == name {
			return newRefusal(http.StatusUnprocessableEntity, "project is in use", "project %q has workspaces\nhint: assign them to another project first", name)
		}
	}
	return noContent(w)
}

// update refuses a new name, since each workspace stores the name.
func (p projects) update(w http.ResponseWriter, r *http.Request, named namedProject) error {
	var body projectBody
	if err := p.gate.readBody(w, r, smallBody, &body); err != nil {
		return err
	}
	if a := body.Data.Attributes; a.Name != "" && a.Name != named.name || a.Description != "" {
		return invalidError("a project is a label of workspaces: it has no description and cannot be renamed\nhint: create another project, and assign it to the workspaces")
	}
	return sendDocument(w, http.StatusOK, document{Data: projectResource(named.organization, named.name)})
}
