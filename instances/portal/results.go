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
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
)

// showOutputs answers the outputs that the template lists; sensitive ones without a
// value.
func showOutputs(_ *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return service.WriteJSON(w, http.StatusOK, api.Outputs{Outputs: shownOutputs(r.view.Document, r.at), Connection: r.at.Connection})
}

// shownOutputs returns the outputs of an instance. The record keeps no sensitive output:
// one that the template lists and the record lacks is sensitive.
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

// showSensitive answers one output of the state to the owner, and records that.
func showSensitive(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	var body api.ShowSensitive
	if _, err := readBody(r.request, r.caller, &body); err != nil {
		return err
	}
	t := r.view.Document.Templates[r.at.Snapshot]
	if t == nil || !slices.Contains(t.Outputs, body.Name) {
		return field("/name", "the template does not list this output")
	}
	status := http.StatusOK
	output, err := s.output(r, body.Name)
	if err != nil {
		status = http.StatusInternalServerError
		if code, _, ok := service.Own(err); ok {
			status = code
		}
	}
	r.grant.Record(recordAddress(r.at), access.Change{Action: "reveal", Version: body.Name, Status: status})
	if err != nil {
		return err
	}
	return service.WriteJSON(w, http.StatusOK, api.ShownOutput{Name: body.Name, Value: output.Value, Sensitive: output.Sensitive})
}

func (s *server) output(r call[*lifecycle.Record], name string) (states.Output, error) {
	if s.o.Results == nil {
		return states.Output{}, notHere("states")
	}
	all, err := s.o.Results.Outputs(r.request.Context(), r.at)
	if err != nil {
		return states.Output{}, absent(err, "state")
	}
	output, ok := all[name]
	if !ok {
		return states.Output{}, &service.Error{Status: http.StatusNotFound, Text: "the state of instance " + r.at.ID + " has no such output"}
	}
	return output, nil
}

// showResources answers the resources in the last state of an instance.
func showResources(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	if s.o.Results == nil {
		return notHere("states")
	}
	doc := api.Resources{Resources: []string{}}
	all, err := s.o.Results.Resources(r.request.Context(), r.at)
	if err != nil && !errors.Is(err, oci.ErrNotFound) { // without a state there are no resources
		return absent(err, "state")
	}
	doc.Resources = append(doc.Resources, all...)
	return service.WriteJSON(w, http.StatusOK, doc)
}

// absent turns content missing in the registry into 404, and hides the other errors of
// the registry from the caller, who cannot fix them.
func absent(err error, what string) error {
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return &service.Error{Status: http.StatusNotFound, Text: "there is no " + what + " of this"}
	case errors.Is(err, oci.ErrCorrupt), errors.Is(err, oci.ErrUnavailable), errors.Is(err, oci.ErrRateLimited), errors.Is(err, oci.ErrDenied), errors.Is(err, oci.ErrUnauthenticated):
		return fmt.Errorf("%w: %w", &service.Error{Status: http.StatusBadGateway, Text: "the registry does not give the " + what}, err)
	}
	return err
}
