// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/service"
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
		return field("/template", "the path says %s", r.at)
	}
	body.Template = r.at
	return launchOne(s, w, r.request, r.caller, r.view, a, body, true)
}

// launchOne is create for a template that is known.
func launchOne(s *server, w http.ResponseWriter, r *http.Request, c caller, v lifecycle.View, a ask, body api.Create, single bool) error {
	had, ok, err := repeated(c, v, a)
	if err == nil && !ok {
		var event lifecycle.Create
		if event, err = readCreation(r.Context(), s, c, body); err == nil {
			event.One = single
			had, err = s.do(r, c, "create", body.Template, a, event)
		}
	}
	if err != nil {
		return err
	}
	return s.answer(w, r, c, had)
}

// readCreation makes the event of a request to launch a template.
func readCreation(ctx context.Context, s *server, c caller, body api.Create) (lifecycle.Create, error) {
	e, err := s.o.Catalog.Pin(ctx, body.Template, body.Version)
	switch {
	case errors.Is(err, lifecycle.ErrNotFound):
		return lifecycle.Create{}, noTemplate()
	case err != nil:
		return lifecycle.Create{}, err
	case !e.Template.Enabled:
		return lifecycle.Create{}, fmt.Errorf("template %s is switched off: %w", body.Template, lifecycle.ErrPaused)
	case body.Version != "" && e.Template.Pool != nil:
		return lifecycle.Create{}, field("/version", "instances of a pool have the version of the template: leave out version")
	case e.Problem != "":
		return lifecycle.Create{}, &apiError{Status: http.StatusConflict, Reason: api.ReasonPaused, Text: "template " + body.Template + ": " + e.Problem}
	}
	parameters, err := e.Schema.CheckParameters(body.Parameters)
	if err != nil {
		return lifecycle.Create{}, below("/parameters", err)
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
		Parameters: parameters, Sensitive: sensitive(e, parameters), Claims: claims, TTL: time.Duration(body.TTL), Version: body.Version, Given: slices.Sorted(maps.Keys(body.Parameters)), Forced: body.Force, Why: body.Reason,
	}, err
}

// below prefixes the paths of field errors with a member of the body.
func below(path string, err error) error {
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

// claimsFor returns the claims of the caller that a template names.
func (c caller) claimsFor(t *template.Template) (map[string]string, error) {
	var claims map[string]string
	for _, name := range t.Claims() {
		value, ok := c.grant.Claims[name]
		if !ok {
			return nil, &service.Error{Status: http.StatusForbidden, Text: fmt.Sprintf("template %s needs the claim %q, which your token does not have", t.Name, name)}
		}
		if claims == nil {
			claims = map[string]string{}
		}
		claims[name] = value
	}
	return claims, nil
}

// ownerFor returns the owner of a new instance: the one that the caller names, or the
// only one that fits.
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
		return template.Owner{}, field("/owner", "say which of these it is for: %s", strings.Join(texts, ", "))
	}
	return template.Owner{}, field("/owner", "want one of %s", strings.Join(texts, ", "))
}

// owners returns the owners for which the caller may launch a template.
func (c caller) owners(t *template.Template) ([]template.Owner, error) {
	claim, ok := strings.CutPrefix(t.Owner, "claim:")
	switch {
	case ok:
		value := c.grant.Claims[claim]
		if value == "" {
			return nil, &service.Error{Status: http.StatusForbidden, Text: fmt.Sprintf("instances of %s belong to the claim %q, which your token does not have", t.Name, claim)}
		}
		return []template.Owner{{Kind: template.OwnerClaim, Issuer: c.actor.Issuer, ID: value, Label: value}}, nil
	case t.Owner != template.OwnerGroup:
		return []template.Owner{c.owner()}, nil
	case c.stale != nil:
		return nil, c.stale
	}
	own := c.groups(t)
	if len(own) == 0 {
		return nil, &service.Error{Status: http.StatusForbidden, Text: "instances of " + t.Name + " belong to groups, and you are in none that it admits"}
	}
	return own, nil
}

// groups returns the caller's groups that a template admits.
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
