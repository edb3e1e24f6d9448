// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"net/http"

	"github.com/seed-141914ff/okara/internal/access"
)

// ping tells which API this is. It asks nobody, since the tools do before they have
// a token.
func (s *server) ping(w http.ResponseWriter, _ *http.Request) error { return noContent(w) }

type userAttributes struct {
	Username string `json:"username"`
	Service  bool   `json:"is-service-account"`
}

// account says whose token it is. The tools test with it one that was pasted.
func (s *server) account(w http.ResponseWriter, r *http.Request) error {
	g, err := s.allow(r, access.Read, place{})
	if err != nil {
		return err
	}
	name := nameOf(g.Caller)
	return answer(w, http.StatusOK, document{Data: resource{
		Type: "users", ID: "user-" + name, Attributes: userAttributes{name, g.Mode != "login" && g.Mode != "session"},
	}})
}
