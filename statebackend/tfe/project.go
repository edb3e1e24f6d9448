// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/statebackend"
)

// A project is a label of workspaces, and is there while one of them has it.
const (
	// defaultProject is that of workspaces without one.
	defaultProject = "Default Project"
	maxProject     = 128 // characters, at most 4 bytes each
)

func project(name string) resource {
	return resource{Type: "projects", ID: projectID(name), Attributes: map[string]string{"name": name}}
}

// projectOf is the id of the project of a workspace.
func projectOf(r *statebackend.Record) string { return projectID(cmp.Or(r.Project, defaultProject)) }

// listProjects lists the labels of the workspaces that may be read.
func (s *server) listProjects(w http.ResponseWriter, r *http.Request) error {
	organization, g, err := s.allowOrganization(r, access.Read)
	if err != nil {
		return err
	}
	r, cancel := within(r)
	defer cancel()
	all, err := s.readable(r.Context(), organization, g)
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
	q := r.URL.Query()
	if want := q.Get("filter[names]"); want != "" {
		wanted := words(want)
		if len(wanted) > maxFilters {
			return invalid("more than %d names", maxFilters)
		}
		names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(wanted, n) })
	}
	from, to, meta := readPage(q).of(len(names))
	list := make([]resource, 0, to-from)
	for _, name := range names[from:to] {
		list = append(list, project(name))
	}
	return answer(w, http.StatusOK, document{Data: list, Meta: meta})
}

// createProject stores nothing: the tools make a project before the first workspace
// in it, which brings the label.
func (s *server) createProject(w http.ResponseWriter, r *http.Request) error {
	if _, _, err := s.allowOrganization(r, manage); err != nil {
		return err
	}
	var body struct {
		Data struct {
			Attributes struct {
				Name string `json:"name"`
			} `json:"attributes"`
		} `json:"data"`
	}
	if err := s.readBody(w, r, smallBody, &body); err != nil {
		return err
	}
	name := body.Data.Attributes.Name
	if !validProject(name) {
		return invalid("a project has a name of at most %d characters", maxProject)
	}
	return answer(w, http.StatusCreated, document{Data: project(name)})
}

func validProject(name string) bool {
	return validLabel(name, 4*maxProject) && len([]rune(name)) <= maxProject
}

// showProject answers for every label, since nothing says which of them are in use
// where.
func (s *server) showProject(w http.ResponseWriter, r *http.Request) error {
	name, err := parseProjectID(r.PathValue("id"))
	if err != nil {
		return err
	}
	if _, err := s.allow(r, access.Read, place{}); err != nil {
		return err
	}
	return answer(w, http.StatusOK, document{Data: project(name)})
}
