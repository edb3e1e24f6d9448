// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// maxRevealed bounds the size of a state from which one output is read, in bytes.
const maxSensitiveState = 64 << 20

// attemptOf returns the reference of the newest attempt of a run.
func attemptOf(rec *lifecycle.Record, u *lifecycle.Run) lifecycle.Ref {
	return lifecycle.Ref{ID: rec.ID, Kind: u.Kind, N: u.N, Attempt: u.Attempt, Nonce: u.Nonce}
}

// forgotten is the error for a record that was shortened, as final ones are: it no
// longer tells which attempt left the content in the repository.
func forgotten(rec *lifecycle.Record, u *lifecycle.Run) error {
	return fmt.Errorf("run %d of instance %s is over, and its record was shortened: %w", u.N, rec.ID, oci.ErrNotFound)
}

// Log returns the log of a run's newest attempt, from a byte on: on the host where it
// runs as far as it is written, else as far as it was stored.
func (r *Reconciler) Log(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run, offset int64) (io.ReadCloser, error) {
	if u.Attempt == 0 {
		return nil, fmt.Errorf("run %d of instance %s was not started yet: %w", u.N, rec.ID, oci.ErrNotFound)
	}
	if u.Nonce == "" {
		return nil, forgotten(rec, u)
	}
	repo, workspace, err := r.sources().repo(rec.Template, rec.ID)
	if err != nil {
		return nil, err
	}
	for _, x := range r.o.Executors {
		if from, ok := x.(run.LogSource); ok {
			spec := run.Spec{Ref: attemptOf(rec, u), Repository: repo.Repo.String(), Workspace: workspace}
			return from.Log(ctx, spec, run.Handle(u.Handle), offset)
		}
	}
	_, files, err := run.ReadReport(ctx, repo, attemptOf(rec, u))
	if err != nil {
		return nil, err
	}
	log, err := files.Log(ctx)
	return io.NopCloser(bytes.NewReader(log[min(offset, int64(len(log))):])), err
}

// Plan returns the plan of a run as text, as masked by its attempt.
func (r *Reconciler) Plan(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run) ([]byte, error) {
	ref := attemptOf(rec, u)
	if u.Planned != 0 && u.Planned == u.Attempt-1 && u.Before != "" { // this attempt applies the plan of that one
		ref.Kind = lifecycle.RunPlan
		ref.Attempt = u.Planned
		ref.Nonce = u.Before
	}
	if ref.Nonce == "" {
		return nil, forgotten(rec, u)
	}
	repo, _, err := r.sources().repo(rec.Template, rec.ID)
	if err != nil {
		return nil, err
	}
	report, _, err := run.ReadReport(ctx, repo, ref)
	if err != nil {
		return nil, err
	}
	if report.PlanText == "" {
		return nil, fmt.Errorf("run %d of instance %s left no plan: %w", u.N, rec.ID, oci.ErrNotFound)
	}
	return []byte(report.PlanText), nil
}

// stateOf returns the last state of an instance.
func stateOf(ctx context.Context, r *Reconciler, rec *lifecycle.Record) ([]byte, error) {
	repo, workspace, err := r.sources().repo(rec.Template, rec.ID)
	if err != nil {
		return nil, err
	}
	state, _, err := statebackend.New(repo.Repo, statebackend.Options{Sealer: r.o.Sealer, MaxState: maxSensitiveState}).Get(ctx, workspace)
	if errors.Is(err, statebackend.ErrUnsealed) {
		return nil, fmt.Errorf("%w: %w", oci.ErrCorrupt, err)
	}
	return state, err
}

// Outputs returns the outputs in the last state of an instance.
func (r *Reconciler) Outputs(ctx context.Context, rec *lifecycle.Record) (map[string]Output, error) {
	state, err := stateOf(ctx, r, rec)
	if err != nil {
		return nil, err
	}
	all, err := states.Outputs(state)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", oci.ErrCorrupt, err)
	}
	outputs := make(map[string]Output, len(all))
	for name, output := range all {
		outputs[name] = Output{Value: output.Value, Sensitive: output.Sensitive}
	}
	return outputs, nil
}

// Resources returns the addresses of the resources in the last state of an instance,
// without data sources.
func (r *Reconciler) Resources(ctx context.Context, rec *lifecycle.Record) ([]string, error) {
	state, err := stateOf(ctx, r, rec)
	if err != nil {
		return nil, err
	}
	d, err := states.Parse(state)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", oci.ErrCorrupt, err)
	}
	var all []string
	for _, resource := range d.Resources() {
		if resource.Mode == states.ModeManaged {
			all = append(all, resource.Address)
		}
	}
	return all, nil
}

// outputs answers the outputs that the template lists; sensitive ones without a value.
func (s *server) outputs(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return service.WriteJSON(w, http.StatusOK, api.Outputs{Outputs: shownOutputs(r.view.Document, r.at), Connection: connectionDoc(r.at.Connection)})
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
func (s *server) showSensitive(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	var body api.ShowSensitive
	if _, err := readBody(r.Request, r.caller, &body); err != nil {
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
	r.Record(recordAddress(r.at), access.Change{Action: "reveal", Version: body.Name, Status: status})
	if err != nil {
		return err
	}
	return service.WriteJSON(w, http.StatusOK, api.ShownOutput{Name: body.Name, Value: output.Value, Sensitive: output.Sensitive})
}

func (s *server) output(r call[*lifecycle.Record], name string) (Output, error) {
	if s.o.Results == nil {
		return Output{}, notHere("states")
	}
	all, err := s.o.Results.Outputs(r.Context(), r.at)
	if err != nil {
		return Output{}, absent(err, "state")
	}
	output, ok := all[name]
	if !ok {
		return Output{}, &service.Error{Status: http.StatusNotFound, Text: "the state of instance " + r.at.ID + " has no such output"}
	}
	return output, nil
}

// resources answers the resources in the last state of an instance.
func (s *server) resources(w http.ResponseWriter, r call[*lifecycle.Record]) error {
	if s.o.Results == nil {
		return notHere("states")
	}
	doc := api.Resources{Resources: []string{}}
	all, err := s.o.Results.Resources(r.Context(), r.at)
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
