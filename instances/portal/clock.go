// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"net/http"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/service"
)

// acceptClock lets expiry go on, where clocks that disagree hold it.
func (s *server) acceptClock(w http.ResponseWriter, r call[struct{}]) error {
	a, err := readBody(r.Request, r.caller, &struct{}{})
	if err != nil {
		return err
	}
	c := r.caller
	c.actor.Admin = true
	if _, err := s.do(r.Request, c, "accept-clock", "clock", a, lifecycle.AcceptClock{}); err != nil {
		return err
	}
	return service.WriteJSON(w, http.StatusOK, api.Clock{Held: r.view.Document.Clock.Held})
}
