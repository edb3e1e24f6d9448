// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
)

// outputs answers those that the template lists; sensitive ones are named only.
func (s *server) outputs(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return service.WriteJSON(w, http.StatusOK, api.Outputs{Outputs: shownOutputs(r.view.Document, r.at), Connection: connectionDoc(r.at.Connection)})
}

// shownOutputs are the outputs of an instance. The record keeps none that is
// sensitive: what the template lists beside them is one.
func shownOutputs(d *lifecycle.Document, r *lifecycle.Record) map[string]json.RawMessage {
	shown := make(map[string]json.RawMessage, len(r.Outputs))
	if t := d.Templates[r.Snapshot]; t != nil && !r.ReadyAt.IsZero() {
		for _, name := range t.Outputs {
			shown[name] = hidden()
		}
	}
	maps.Copy(shown, r.Outputs)
	return shown
}

// reveal answers one output as the state has it, for the owner, and records that.
func (s *server) reveal(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	var body api.Reveal
	if _, err := readBody(r.Request, r.caller, &body); err != nil {
		return err
	}
	t := r.view.Document.Templates[r.at.Snapshot]
	if t == nil || !slices.Contains(t.Outputs, body.Name) {
		return field("/name", "the template lists no such output")
	}
	status := http.StatusOK
	one, err := s.output(r, body.Name)
	if err != nil {
		status = http.StatusInternalServerError
		if code, _, ok := service.Own(err); ok {
			status = code
		}
	}
	r.Record(recordAddress(r.at), access.Change{Action: "reveal", Version: body.Name, Status: status})
	if err != nil {
		return err
	}
	return service.WriteJSON(w, http.StatusOK, api.Revealed{Name: body.Name, Value: one.Value, Sensitive: one.Sensitive})
}

func (s *server) output(r call[*lifecycle.Record], name string) (Output, error) {
	if s.o.Results == nil {
		return Output{}, notHere("states")
	}
	all, err := s.o.Results.Outputs(r.Context(), r.at)
	if err != nil {
		return Output{}, absent(err, "state")
	}
	one, ok := all[name]
	if !ok {
		return Output{}, &service.Error{Status: http.StatusNotFound, Text: "the state of instance " + r.at.ID + " has no such output"}
	}
	return one, nil
}

// resources answers what the last state of an instance has.
func (s *server) resources(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	if s.o.Results == nil {
		return notHere("states")
	}
	doc := api.Resources{Resources: []string{}}
	all, err := s.o.Results.Resources(r.Context(), r.at)
	if err != nil && !errors.Is(err, oci.ErrNotFound) { // without a state there are none
		return absent(err, "state")
	}
	doc.Resources = append(doc.Resources, all...)
	return service.WriteJSON(w, http.StatusOK, doc)
}

// absent turns what the registry does not have into 404, and keeps its other
// errors from the caller, who cannot mend them.
func absent(err error, what string) error {
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return &service.Error{Status: http.StatusNotFound, Text: "there is no " + what + " of this"}
	case errors.Is(err, oci.ErrCorrupt), errors.Is(err, oci.ErrUnavailable), errors.Is(err, oci.ErrRateLimited), errors.Is(err, oci.ErrDenied), errors.Is(err, oci.ErrUnauthenticated):
		return fmt.Errorf("%w: %w", &service.Error{Status: http.StatusBadGateway, Text: "the registry does not give the " + what}, err)
	}
	return err
}
