// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Adopter recovers instances that a lost or restored ledger no longer names.
type Adopter struct {
	Client *oci.Client
	Layout addr.Layout
	Sealer artifact.Sealer // nil: nothing is sealed
	// Trusted says that nothing but this server writes to the registry, so that unsealed
	// content can be trusted too.
	Trusted bool
	Known   template.Known // what templates may name here
}

// Find reads what is needed to adopt the state in a repository: its last sealed result,
// and the source and template that the result names. The repository is named with or
// without its host; the id is needed where instances share it. The admin becomes the
// owner.
func (a Adopter) Find(ctx context.Context, repository, id string, owner template.Owner) (lifecycle.Adopt, error) {
	if a.Sealer == nil && !a.Trusted {
		return lifecycle.Adopt{}, fmt.Errorf("%w: nothing is sealed here, so any account with write access to the registry could have made it", template.ErrInvalid)
	}
	path := strings.TrimPrefix(repository, a.Client.Host()+"/")
	it, ok := a.Layout.Parse(path)
	if !ok || it.Kind != addr.KindInstance {
		return lifecycle.Adopt{}, &template.FieldError{Path: "/repository", Text: "not the repository of an instance"}
	}
	if it.Instance != "" {
		id = it.Instance
	}
	if err := addr.CheckInstance(id); err != nil {
		return lifecycle.Adopt{}, &template.FieldError{Path: "/id", Text: "instances share this repository: name the id"}
	}
	repo, err := a.Client.Repo(path)
	if err != nil {
		return lifecycle.Adopt{}, err
	}
	in := records.InstanceRepo{Repo: repo, Sealer: a.Sealer}
	if err := ended(ctx, in, id); err != nil {
		return lifecycle.Adopt{}, err
	}
	return a.adopt(ctx, in, id, it.Template, owner)
}

// ended refuses an instance that was ended regularly.
func ended(ctx context.Context, in records.InstanceRepo, id string) error {
	b, err := in.Final(ctx, id)
	if errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrCorrupt) {
		return nil // or the content was not written by okara
	}
	if err != nil {
		return err
	}
	var rec lifecycle.Record
	if err := json.Unmarshal(b, &rec); err != nil {
		return fmt.Errorf("record of instance %s: %w: %w", id, err, oci.ErrCorrupt)
	}
	if rec.Phase == lifecycle.Destroyed || rec.Phase == lifecycle.Rejected {
		return fmt.Errorf("%w: instance %s was %s", lifecycle.ErrPhase, id, rec.Phase)
	}
	return nil
}

func (a Adopter) adopt(ctx context.Context, in records.InstanceRepo, id, name string, owner template.Owner) (lifecycle.Adopt, error) {
	tag, last, err := in.LastRun(ctx, id)
	if err != nil {
		return lifecycle.Adopt{}, err
	}
	var report run.Report
	if err := json.Unmarshal(last.JSON, &report); err != nil {
		return lifecycle.Adopt{}, fmt.Errorf("result %s: %w: %w", tag, err, oci.ErrCorrupt)
	}
	if report.Kind == lifecycle.RunDestroy && report.Outcome == lifecycle.Done && report.Resources == 0 {
		return lifecycle.Adopt{}, fmt.Errorf("%w: instance %s was destroyed by its last run", lifecycle.ErrPhase, id)
	}
	source, err := in.SourceBefore(ctx, id, tag.N, report.Source.Archive)
	if err != nil {
		return lifecycle.Adopt{}, err
	}
	t, err := a.template(ctx, in, source, report.Snapshot)
	if err != nil {
		return lifecycle.Adopt{}, err
	}
	if name != "" && name != t.Name {
		return lifecycle.Adopt{}, fmt.Errorf("%w: the result is of template %s, the repository of %s", template.ErrInvalid, t.Name, name)
	}
	if report.Lock != "" {
		report.Source.Lock = report.Lock
	}
	phase := lifecycle.Failed
	if report.Outcome == lifecycle.Done && report.Kind == lifecycle.RunApply {
		phase = lifecycle.Ready
	}
	parameters := map[string]json.RawMessage{}
	for _, p := range t.Parameters {
		if v, ok := report.Variables[p.Name]; ok {
			parameters[p.Name] = v
		}
	}
	rec := lifecycle.Record{
		ID: id, Template: t.Name, Snapshot: report.Snapshot, Source: report.Source, Owner: owner, Phase: phase, Parameters: parameters,
		Reason: "adopted from " + tag.String(), CreatedAt: report.Started, ReadyAt: report.Ended, Outputs: report.Outputs,
		Runs: []lifecycle.Run{{
			N: tag.N, Attempt: tag.Attempt, Kind: report.Kind, Nonce: report.Nonce, QueuedAt: report.Started, StartedAt: report.Started,
			EndedAt: report.Ended, Source: report.Source, Counts: report.Counts, Error: report.Error, Result: report.Outcome, Applied: true,
		}},
	}
	return lifecycle.Adopt{Record: rec, Template: t}, nil
}

// template reads the template snapshot beside a source, if it has the wanted digest.
func (a Adopter) template(ctx context.Context, in records.InstanceRepo, s records.SourceManifest, want string) (*template.Template, error) {
	b, err := in.Template(ctx, s)
	if err != nil {
		return nil, err
	}
	t, err := template.ParseCanonical(b, a.Known)
	if err != nil {
		return nil, fmt.Errorf("%w: the template beside the source: %w", template.ErrInvalid, err)
	}
	if d, err := t.Digest(); err != nil || d != want {
		return nil, fmt.Errorf("the template beside the source is not the one of the result: %w", oci.ErrCorrupt)
	}
	return t, nil
}

// adoptInstance creates a record for an instance that the ledger lost. The requesting
// admin owns it, and may transfer it.
func adoptInstance(s *server, w http.ResponseWriter, r call[struct{}]) error {
	var body api.Adopt
	a, err := readBody(r.request, r.caller, &body)
	if err != nil {
		return err
	}
	if s.o.Adopter == nil {
		return &service.Error{Status: http.StatusNotImplemented, Text: "nothing can be adopted here"}
	}
	if had, ok, err := repeated(r.caller, r.view, a); ok || err != nil {
		if err != nil {
			return err
		}
		return s.answer(w, r.request, r.caller, had)
	}
	e, err := s.o.Adopter.Find(r.request.Context(), body.Repository, body.ID, r.owner())
	if err != nil {
		return fmt.Errorf("adopting %q: %w", body.Repository, err)
	}
	e.Record.CreatedBy = r.actor
	e.Record.Sensitive = lostSensitive(s, e)
	c := r.caller
	c.actor.Admin = true
	answer, err := s.do(r.request, c, "adopt", recordAddress(&e.Record), a, e)
	if err != nil {
		return err
	}
	return s.answer(w, r.request, r.caller, answer)
}

// lostSensitive names the parameters of an adopted instance whose values are hidden:
// all of them if the schema of the module is not available.
func lostSensitive(s *server, e lifecycle.Adopt) []string {
	if now, ok := s.o.Catalog.Current(e.Record.Template); ok && now.Schema != nil {
		return sensitive(now, e.Record.Parameters)
	}
	return slices.Sorted(maps.Keys(e.Record.Parameters))
}
