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
