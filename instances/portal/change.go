// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"fmt"
	"io"
	"net/http"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/service"
)

// repeated is the answer that a request had before, if it had one.
func repeated(c caller, v lifecycle.View, a ask) (lifecycle.Answer, bool, error) {
	if a.key == "" {
		return lifecycle.Answer{}, false, nil
	}
	had, ok := v.Document.Requests[a.key]
	switch {
	case !ok || had.Caller != c.key:
		return lifecycle.Answer{}, false, nil
	case had.Digest != a.digest:
		return lifecycle.Answer{}, false, lifecycle.ErrKeyReused
	}
	answer := lifecycle.Answer{Status: had.Status, Repeat: true}
	if had.ID != "" {
		if answer.Record, ok = v.Document.Records[had.ID]; !ok {
			return lifecycle.Answer{}, false, missing(had.ID)
		}
	}
	return answer, true, nil
}

// do has an event of a caller kept, and records it. The address is that of what
// it changes.
func (s *server) do(r *http.Request, c caller, action access.Action, address string, a ask, e lifecycle.Event) (lifecycle.Answer, error) {
	cmd := lifecycle.Command{Event: e, Actor: c.actor, Key: a.key, Caller: c.key, Digest: a.digest}
	if _, err := io.ReadFull(s.o.Random, cmd.Seed[:]); err != nil {
		return lifecycle.Answer{}, fmt.Errorf("random bytes: %w", err)
	}
	answer, err := s.o.Store.Do(r.Context(), cmd)
	change := access.Change{Action: action, Status: answer.Status}
	switch e := e.(type) {
	case lifecycle.Approve:
		change.Digest = e.Plan // what the approver looked at
	case lifecycle.Transfer:
		if err == nil && answer.Record.Offer != nil {
			change.Action = "offer" // it is nobody else's yet
		}
	}
	if err != nil {
		change.Status, _ = classify(r, err)
		if status, _, ok := service.Own(err); ok {
			change.Status = status
		}
	} else if answer.Record != nil {
		address = recordAddress(answer.Record)
	}
	c.Record(address, change)
	return answer, err
}

// recordAddress is how the audit log names an instance.
func recordAddress(r *lifecycle.Record) string { return r.Template + "/" + r.ID }

// answer sends what came of a change of an instance, as the caller may see it.
func (s *server) answer(w http.ResponseWriter, r *http.Request, c caller, answer lifecycle.Answer) error {
	v, err := s.o.Store.View(r.Context())
	if err != nil {
		return err
	}
	record := answer.Record
	have := c.role(v.Document, record)
	if answer.Repeat {
		if have&reads == 0 {
			return missing(record.ID)
		}
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if answer.Status == http.StatusCreated {
		w.Header().Set("Location", "/api/v1/instances/"+record.ID)
	}
	return service.WriteJSON(w, max(answer.Status, http.StatusOK), s.whole(c, v, record))
}

// change is the way of every verb: its body, whether it was done before, the
// event, the answer.
func change[B any](s *server, w http.ResponseWriter, r call[*lifecycle.Record], action access.Action, event func(body B) (lifecycle.Event, error)) error {
	var body B
	a, err := readBody(r.Request, r.caller, &body)
	if err != nil {
		return err
	}
	if had, ok, err := repeated(r.caller, r.view, a); ok || err != nil {
		if err != nil {
			return err
		}
		return s.answer(w, r.Request, r.caller, had)
	}
	e, err := event(body)
	if err != nil {
		return err
	}
	answer, err := s.do(r.Request, r.caller, action, recordAddress(r.at), a, e)
	if err != nil {
		return fmt.Errorf("instance %s: %w", r.at.ID, err)
	}
	return s.answer(w, r.Request, r.caller, answer)
}
