// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"net/http"

	"github.com/seed-141914ff/okara/internal/access"
)

// listVariables answers the tools, which ask for the variables of a workspace: none
// are kept here.
func (s *server) listVariables(w http.ResponseWriter, r *http.Request) error {
	p, _, _, err := s.allowWorkspace(r, access.Read)
	if err != nil {
		return err
	}
	r, cancel := within(r)
	defer cancel()
	if _, err := s.open(r.Context(), p); err != nil {
		return err
	}
	_, _, meta := readPage(r.URL.Query()).of(0)
	return answer(w, http.StatusOK, document{Data: []resource{}, Meta: meta})
}

// errVariables says that nothing here would give a variable to a run.
func errVariables() error {
	return invalid("this server keeps no variables of workspaces\nhint: runs on the server have the credentials of their organization, and -var or files of values in the configuration; other values belong where the tool is started")
}

// refuseVariable answers who wants a variable of a workspace kept.
func (s *server) refuseVariable(_ http.ResponseWriter, r *http.Request) error {
	if _, _, _, err := s.allowWorkspace(r, manage); err != nil {
		return err
	}
	return errVariables()
}

// listVariableSets has none.
func (s *server) listVariableSets(w http.ResponseWriter, r *http.Request) error {
	if _, _, err := s.allowOrganization(r, access.Read); err != nil {
		return err
	}
	_, _, meta := readPage(r.URL.Query()).of(0)
	return answer(w, http.StatusOK, document{Data: []resource{}, Meta: meta})
}

// refuseVariableSet answers who wants one kept.
func (s *server) refuseVariableSet(_ http.ResponseWriter, r *http.Request) error {
	if _, _, err := s.allowOrganization(r, manage); err != nil {
		return err
	}
	return errVariables()
}
