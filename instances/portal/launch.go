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
	"time"

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

// createInstance launches a template that the body names.
func createInstance(s *server, w http.ResponseWriter, r call[struct{}]) error {
	var body api.Create
	a, err := readBody(r.request, r.caller, &body)
	if err != nil {
		return err
	}
	c, err := checkLaunch(s, r.request, r.caller, body.Template)
	if err != nil {
		return err
	}
	return launchOne(s, w, r.request, c, r.view, a, body, false)
}

// runTemplate creates, claims or returns the caller's single instance of a template.
func runTemplate(s *server, w http.ResponseWriter, r call[string]) error {
	var body api.Create
	a, err := readBody(r.request, r.caller, &body)
	if err != nil {
		return err
	}
	if body.Template != "" && body.Template != r.at {
		return fieldError("/template", "must be %s, as in the path", r.at)
	}
	body.Template = r.at
	return launchOne(s, w, r.request, r.caller, r.view, a, body, true)
}

// launchOne is create for a template that is known.
func launchOne(s *server, w http.ResponseWriter, r *http.Request, c caller, v lifecycle.View, a ask, body api.Create, single bool) error {
	had, ok, err := storedAnswer(c, v, a)
	if err == nil && !ok {
		var event lifecycle.Create
		if event, err = readCreation(r.Context(), s, c, body); err == nil {
			event.One = single
			had, err = s.commitEvent(r, c, "create", body.Template, a, event)
		}
	}
	if err != nil {
		return err
	}
	return s.sendAnswer(w, r, c, had)
}

// readCreation makes the event of a request to launch a template.
func readCreation(ctx context.Context, s *server, c caller, body api.Create) (lifecycle.Create, error) {
	e, err := s.o.Catalog.Pin(ctx, body.Template, body.Version)
	switch {
	case errors.Is(err, lifecycle.ErrNotFound):
		return lifecycle.Create{}, noTemplate(body.Template)
	case err != nil:
		return lifecycle.Create{}, err
	case !e.Template.Enabled:
		return lifecycle.Create{}, fmt.Errorf("template %s is disabled: %w", body.Template, lifecycle.ErrPaused)
	case body.Version != "" && e.Template.Pool != nil:
		return lifecycle.Create{}, fieldError("/version", "instances of a pool have the version of the template: omit version")
	case e.Problem != "":
		return lifecycle.Create{}, &apiError{Status: http.StatusConflict, Reason: api.ReasonPaused, Text: "template " + body.Template + ": " + e.Problem}
	}
	parameters, err := e.Schema.CheckParameters(body.Parameters)
	if err != nil {
		return lifecycle.Create{}, prefixErrors("/parameters", err)
	}
	owner, err := c.ownerFor(e.Template, body.Owner)
	if err != nil {
		return lifecycle.Create{}, err
	}
	claims, err := c.claimsFor(e.Template)
	if err == nil {
		err = optionalReason(body.Reason)
	}
	return lifecycle.Create{
		Template: e.Template, Digest: e.Digest, Source: e.Source, Owner: owner, Name: body.Name,
		Parameters: parameters, Sensitive: sensitiveNames(e, parameters), Claims: claims, TTL: time.Duration(body.TTL), Version: body.Version, Given: slices.Sorted(maps.Keys(body.Parameters)), Forced: body.Force, Why: body.Reason,
	}, err
}

// prefixErrors prefixes the paths of field errors with a member of the body.
func prefixErrors(path string, err error) error {
	fields := fieldErrors(err)
	if len(fields) == 0 {
		return err
	}
	moved := make([]error, len(fields))
	for i, f := range fields {
		moved[i] = &template.FieldError{Path: path + f.Path, Text: f.Text}
	}
	return joined(moved)
}

type joined []error

func (j joined) Error() string { return fmt.Sprint([]error(j)) }

func (j joined) Unwrap() []error { return j }

func (c caller) claimsFor(t *template.Template) (map[string]string, error) {
	var claims map[string]string
	for _, name := range t.Claims() {
		value, ok := c.grant.Claims[name]
		if !ok {
			return nil, &service.Error{Status: http.StatusForbidden, Text: fmt.Sprintf("template %s requires the claim %q, which your token lacks", t.Name, name)}
		}
		if claims == nil {
			claims = map[string]string{}
		}
		claims[name] = value
	}
	return claims, nil
}

// ownerFor returns the owner that the caller names, or the only one that fits.
func (c caller) ownerFor(t *template.Template, named string) (template.Owner, error) {
	own, err := c.owners(t)
	if err != nil {
		return template.Owner{}, err
	}
	if named == "" && len(own) == 1 {
		return own[0], nil
	}
	var texts []string
	for _, o := range own {
		if text := ownerText(o); text == named {
			return o, nil
		} else {
			texts = append(texts, text)
		}
	}
	if named == "" {
		return template.Owner{}, fieldError("/owner", "must be one of: %s", strings.Join(texts, ", "))
	}
	return template.Owner{}, fieldError("/owner", "must be one of %s", strings.Join(texts, ", "))
}

func (c caller) owners(t *template.Template) ([]template.Owner, error) {
	claim, ok := strings.CutPrefix(t.Owner, "claim:")
	switch {
	case ok:
		value := c.grant.Claims[claim]
		if value == "" {
			return nil, &service.Error{Status: http.StatusForbidden, Text: fmt.Sprintf("instances of %s belong to the claim %q, which your token lacks", t.Name, claim)}
		}
		return []template.Owner{{Kind: template.OwnerClaim, Issuer: c.actor.Issuer, ID: value, Label: value}}, nil
	case t.Owner != template.OwnerGroup:
		return []template.Owner{c.owner()}, nil
	case c.stale != nil:
		return nil, c.stale
	}
	own := c.groups(t)
	if len(own) == 0 {
		return nil, &service.Error{Status: http.StatusForbidden, Text: "instances of " + t.Name + " belong to groups, and you are in none that it allows"}
	}
	return own, nil
}

func (c caller) groups(t *template.Template) []template.Owner {
	var own []template.Owner
	for _, g := range c.actor.Groups {
		if t.AdmitsGroup(g) {
			own = append(own, template.Owner{Kind: template.OwnerGroup, Issuer: c.actor.Issuer, ID: g, Label: g})
		}
	}
	return own
}

// ownerText is how bodies and queries name an owner.
func ownerText(o template.Owner) string { return o.Kind + ":" + o.ID }

// Adopter recovers instances that a lost or restored ledger no longer names.
type Adopter struct {
	Client *oci.Client
	Layout addr.Layout
	Sealer artifact.Sealer // nil: nothing is sealed
	// Trusted says that only this server writes to the registry, so unsealed content is trusted.
	Trusted bool
	Known   template.Known // what templates may name here
}

// Find reads what adopting the state in a repository, with or without host, needs: its last sealed
// result, and source and template of it. id is for shared repositories. The admin becomes the
// owner.
func (a Adopter) Find(ctx context.Context, repository, id string, owner template.Owner) (lifecycle.Adopt, error) {
	if a.Sealer == nil && !a.Trusted {
		return lifecycle.Adopt{}, fmt.Errorf("%w: states are not encrypted here, so any account with write access to the registry could have created it", template.ErrInvalid)
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
		return lifecycle.Adopt{}, &template.FieldError{Path: "/id", Text: "instances share this repository: specify the ID"}
	}
	repo, err := a.Client.Repo(path)
	if err != nil {
		return lifecycle.Adopt{}, err
	}
	in := records.InstanceRepo{Repo: repo, Sealer: a.Sealer}
	if err := refuseEnded(ctx, in, id); err != nil {
		return lifecycle.Adopt{}, err
	}
	return a.adoptInstance(ctx, in, id, it.Template, owner)
}

func refuseEnded(ctx context.Context, in records.InstanceRepo, id string) error {
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

func (a Adopter) adoptInstance(ctx context.Context, in records.InstanceRepo, id, name string, owner template.Owner) (lifecycle.Adopt, error) {
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
	t, err := a.readSnapshot(ctx, in, source, report.Snapshot)
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

// readSnapshot reads the template snapshot beside a source, if it has the wanted digest.
func (a Adopter) readSnapshot(ctx context.Context, in records.InstanceRepo, s records.SourceManifest, want string) (*template.Template, error) {
	b, err := in.Template(ctx, s)
	if err != nil {
		return nil, err
	}
	t, err := template.ParseCanonical(b, a.Known)
	if err != nil {
		return nil, fmt.Errorf("%w: the template of the source: %w", template.ErrInvalid, err)
	}
	if d, err := t.Digest(); err != nil || d != want {
		return nil, fmt.Errorf("the template of the source does not match the result: %w", oci.ErrCorrupt)
	}
	return t, nil
}

// adoptInstance creates a record for an instance that the ledger lost, owned by the admin.
func adoptInstance(s *server, w http.ResponseWriter, r call[struct{}]) error {
	var body api.Adopt
	a, err := readBody(r.request, r.caller, &body)
	if err != nil {
		return err
	}
	if s.o.Adopter == nil {
		return &service.Error{Status: http.StatusNotImplemented, Text: "nothing can be adopted here"}
	}
	if had, ok, err := storedAnswer(r.caller, r.view, a); ok || err != nil {
		if err != nil {
			return err
		}
		return s.sendAnswer(w, r.request, r.caller, had)
	}
	e, err := s.o.Adopter.Find(r.request.Context(), body.Repository, body.ID, r.owner())
	if err != nil {
		return fmt.Errorf("adopting %q: %w", body.Repository, err)
	}
	e.Record.CreatedBy = r.actor
	e.Record.Sensitive = lostSensitive(s, e)
	c := r.caller
	c.actor.Admin = true
	answer, err := s.commitEvent(r.request, c, "adopt", recordAddress(&e.Record), a, e)
	if err != nil {
		return err
	}
	return s.sendAnswer(w, r.request, r.caller, answer)
}

// lostSensitive names an adopted instance's hidden parameters: all without the module's schema.
func lostSensitive(s *server, e lifecycle.Adopt) []string {
	if now, ok := s.o.Catalog.Current(e.Record.Template); ok && now.Schema != nil {
		return sensitiveNames(now, e.Record.Parameters)
	}
	return slices.Sorted(maps.Keys(e.Record.Parameters))
}
