// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/span"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
)

func extendInstance(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return handleChange(s, w, r, "extend", func(b api.Extend) (lifecycle.Event, error) {
		return lifecycle.Extend{ID: r.at.ID, By: time.Duration(b.By), Why: b.Reason}, optionalReason(b.Reason)
	})
}

// updateInstance changes only the name, or starts another apply.
func updateInstance(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return handleChange(s, w, r, "update", func(b api.Update) (lifecycle.Event, error) {
		if b.Name == nil {
			return readUpdate(s, r, b)
		}
		if b.Parameters != nil || b.Version != "" {
			return nil, fieldError("/name", "must be the only change")
		}
		return lifecycle.Rename{ID: r.at.ID, Name: *b.Name}, nil
	})
}

// newest is the version that means the newest one that the template takes.
const newest = "newest"

// readUpdate makes the event of an update, with the current or another source.
func readUpdate(s *server, r call[*lifecycle.Record], b api.Update) (lifecycle.Event, error) {
	e := lifecycle.Update{ID: r.at.ID, Why: b.Reason}
	if err := optionalReason(b.Reason); err != nil {
		return nil, err
	}
	version := b.Version
	if version == newest {
		version = ""
	}
	now, err := s.o.Catalog.Pin(r.request.Context(), r.at.Template, version)
	switch {
	case errors.Is(err, lifecycle.ErrNotFound):
		return nil, fmt.Errorf("%w: template %s no longer exists, so the instance cannot be updated", lifecycle.ErrPhase, r.at.Template)
	case err != nil:
		return nil, err
	case now.Problem != "":
		return nil, &apiError{Status: http.StatusConflict, Reason: api.ReasonPaused, Text: "template " + r.at.Template + ": " + now.Problem}
	}
	if e.Parameters, err = now.Schema.CheckUpdate(r.at.Parameters, r.at.WantedParameters(), b.Parameters, !r.at.ReadyAt.IsZero()); err != nil {
		return nil, prefixErrors("/parameters", err)
	}
	e.Sensitive = sensitiveNames(now, e.Parameters)
	if b.Version != "" {
		e.Source = &now.Source
		e.Template = now.Template
		e.Digest = now.Digest
	}
	return e, nil
}

func sensitiveNames(e *template.Entry, parameters map[string]json.RawMessage) []string {
	names := []string{}
	for name := range parameters {
		if e.Schema.Sensitive(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// approveInstance approves a request, or exactly one plan.
func approveInstance(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return handleChange(s, w, r, "approve", func(b api.Approve) (lifecycle.Event, error) {
		if b.Plan == "" {
			return nil, fieldError("/plan", "must be the plan that you reviewed, as the instance shows it")
		}
		return lifecycle.Approve{ID: r.at.ID, Plan: b.Plan, Why: b.Reason}, optionalReason(b.Reason)
	})
}

func rejectInstance(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return handleChange(s, w, r, "reject", func(b api.Reason) (lifecycle.Event, error) {
		return lifecycle.Reject{ID: r.at.ID, Reason: b.Reason}, checkReason(b.Reason)
	})
}

// maxReason bounds a reason, in bytes.
const maxReason = 256

func checkReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return fieldError("/reason", "required, up to %d bytes", maxReason)
	case len(reason) > maxReason:
		return fieldError("/reason", "has %d bytes, maximum is %d", len(reason), maxReason)
	case !utf8.ValidString(reason) || strings.ContainsFunc(reason, func(c rune) bool { return c != '\n' && unicode.IsControl(c) }):
		return fieldError("/reason", "must be UTF-8 text, without control characters other than line breaks")
	}
	return nil
}

func orphanInstance(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return handleChange(s, w, r, "orphan", func(b api.Reason) (lifecycle.Event, error) {
		return lifecycle.Orphan{ID: r.at.ID, Reason: b.Reason}, checkReason(b.Reason)
	})
}

// pauseTemplate stops new instances of a template; resume allows them again.
func pauseTemplate(s *server, w http.ResponseWriter, r call[string]) error {
	var body api.Reason
	a, err := readBody(r.request, r.caller, &body)
	if err == nil && body.Reason != "" {
		err = checkReason(body.Reason)
	}
	if err != nil {
		return err
	}
	return changeTemplate(s, w, r, a, "pause", lifecycle.PauseTemplate{Template: r.at, Reason: body.Reason})
}

func resumeTemplate(s *server, w http.ResponseWriter, r call[string]) error {
	a, err := readBody(r.request, r.caller, &struct{}{})
	if err != nil {
		return err
	}
	return changeTemplate(s, w, r, a, "resume", lifecycle.ResumeTemplate{Template: r.at})
}

func changeTemplate(s *server, w http.ResponseWriter, r call[string], a ask, word string, e lifecycle.Event) error {
	_, done, err := storedAnswer(r.caller, r.view, a)
	if err == nil && !done {
		_, err = s.commitEvent(r.request, r.caller, rights.Action(word), r.at, a, e)
	}
	if err != nil {
		return err
	}
	if r.view, err = s.o.Store.View(r.request.Context()); err != nil {
		return err
	}
	doc, ok := templateDoc(s, r.caller, r.view.Document, r.at)
	if !ok { // the template is gone, but it still has instances
		doc = api.Template{Name: r.at}
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

// transferInstance gives an instance to another owner: an admin to any, an owner among themselves
// and their groups; to others of the issuer it is offered.
func transferInstance(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return handleChange(s, w, r, "transfer", func(b api.Transfer) (lifecycle.Event, error) {
		to, err := findRecipient(r, b)
		return lifecycle.Transfer{ID: r.at.ID, To: to}, err
	})
}

func findRecipient(r call[*lifecycle.Record], b api.Transfer) (template.Owner, error) {
	own := []template.Owner{r.owner()}
	if t := r.view.Document.Templates[r.at.Snapshot]; t != nil && r.stale == nil {
		own = append(own, r.groups(t)...)
	}
	for _, o := range own {
		if ownerText(o) == b.To && (b.Issuer == "" || b.Issuer == o.Issuer) {
			return o, nil
		}
	}
	kind, id, _ := strings.Cut(b.To, ":")
	to := template.Owner{Kind: kind, Issuer: cmp.Or(b.Issuer, r.actor.Issuer), ID: id, Label: cmp.Or(b.Label, id)}
	known := r.server.people.findOwners(r.view.Document, to.Issuer, b.To)
	switch {
	case b.To == "":
		return to, fieldError("/to", "is required")
	case to.Issuer != r.actor.Issuer && !r.actor.Admin:
		return to, fieldError("/issuer", "only an admin can transfer it to an owner of another issuer")
	case r.actor.Admin && id != "" && (kind == template.OwnerUser || kind == template.OwnerGroup) && !strings.ContainsFunc(id+to.Label, unicode.IsControl):
		return to, nil
	case len(known) == 1:
		return known[0], nil
	case len(known) > 1:
		return to, fieldError("/to", "matches several people: use the address, or user:SUBJECT")
	}
	return to, fieldError("/to", "%.80q has not used this portal since it started: ask them to log in, or ask an administrator", b.To)
}

func offerDoc(g *lifecycle.Offer) *api.Offer {
	if g == nil {
		return nil
	}
	return &api.Offer{To: ownerDoc(g.To), By: personDoc(g.By), At: g.At, Until: g.Until()}
}

// offeredInstance is an instance as it is offered: no parameters, outputs or events.
func offeredInstance(t *template.Template, r *lifecycle.Record, have role) api.Instance {
	doc := api.Instance{
		ID: r.ID, Name: r.Name, Template: r.Template, Role: have.name(), Source: api.Source{Module: r.Source.Module, Version: r.Source.Version},
		Owner: ownerDoc(r.Owner), Phase: string(r.Phase), CreatedAt: r.CreatedAt, ReadyAt: r.ReadyAt, ClaimedAt: r.ClaimedAt, ExpiresAt: r.ExpiresAt,
		TTL: span.Span(r.TTL), Extends: r.Extends, Offer: offerDoc(r.Offer),
	}
	addTemplate(&doc, t)
	return doc
}

// storedAnswer returns the stored answer if the request is a repetition.
func storedAnswer(c caller, v lifecycle.View, a ask) (lifecycle.Answer, bool, error) {
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
			return lifecycle.Answer{}, false, missingInstance(had.ID)
		}
	}
	return answer, true, nil
}

// commitEvent commits a caller's event, and writes it to the audit log under its address.
func (s *server) commitEvent(r *http.Request, c caller, action rights.Action, address string, a ask, e lifecycle.Event) (lifecycle.Answer, error) {
	cmd := lifecycle.Command{Event: e, Actor: c.actor, Key: a.key, Caller: c.key, Digest: a.digest}
	if a.of != nil {
		cmd.Of = a.of.ID
		cmd.Owner = a.of.Owner
	}
	if _, err := io.ReadFull(s.o.Random, cmd.Seed[:]); err != nil {
		return lifecycle.Answer{}, fmt.Errorf("random bytes: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), service.Timeout) // the client may disconnect
	defer cancel()
	answer, err := s.o.Store.Do(ctx, cmd)
	change := access.Change{Action: action, Status: answer.Status}
	switch e := e.(type) {
	case lifecycle.Approve:
		change.Digest = e.Plan // the plan that the approver saw
	case lifecycle.Transfer:
		if err == nil && answer.Record.Offer != nil {
			change.Action = "offer" // the owner has not changed yet
		}
	}
	if err != nil {
		change.Status, _ = classifyError(r, err)
		if status, _, ok := service.Own(err); ok {
			change.Status = status
		}
	} else if answer.Record != nil {
		address = recordAddress(answer.Record)
	}
	_, creates := e.(lifecycle.Create)
	if err == nil && (answer.Repeat || creates && answer.Status == http.StatusOK) {
		return answer, nil // nothing was changed
	}
	c.grant.Record(address, change)
	return answer, err
}

// recordAddress is the name of an instance in the audit log.
func recordAddress(r *lifecycle.Record) string { return r.Template + "/" + r.ID }

// sendAnswer sends the changed instance as the caller may see it.
func (s *server) sendAnswer(w http.ResponseWriter, r *http.Request, c caller, answer lifecycle.Answer) error {
	v, err := s.o.Store.View(r.Context())
	if err != nil {
		return err
	}
	record := answer.Record
	have := c.role(v.Document, record)
	if answer.Repeat {
		if have&reads == 0 {
			return missingInstance(record.ID)
		}
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if answer.Status == http.StatusCreated {
		w.Header().Set("Location", "/api/v1/instances/"+record.ID)
	}
	return service.WriteJSON(w, max(answer.Status, http.StatusOK), s.wholeInstance(c, v, record))
}

// handleChange handles every verb: body, stored answer, commit, answer.
func handleChange[B any](s *server, w http.ResponseWriter, r call[*lifecycle.Record], action rights.Action, event func(body B) (lifecycle.Event, error)) error {
	var body B
	a, err := readBody(r.request, r.caller, &body)
	if err != nil {
		return err
	}
	if had, ok, err := storedAnswer(r.caller, r.view, a); ok || err != nil {
		if err != nil {
			return err
		}
		return s.sendAnswer(w, r.request, r.caller, had)
	}
	e, err := event(body)
	if err != nil {
		return err
	}
	a.of = r.at
	answer, err := s.commitEvent(r.request, r.caller, action, recordAddress(r.at), a, e)
	if err != nil && !strings.HasPrefix(err.Error(), "instance ") {
		err = fmt.Errorf("instance %s: %w", r.at.ID, err)
	}
	if err != nil {
		return err
	}
	return s.sendAnswer(w, r.request, r.caller, answer)
}

// ask identifies a change request, so that it is done once however often it is sent.
type ask struct {
	key    string            // of the ledger; "": the request will not be repeated
	digest string            // of query and body
	of     *lifecycle.Record // the instance as the caller was allowed to change it; nil: none
}

// readBody reads a change's body, {} if empty, and returns what identifies the request.
func readBody(r *http.Request, c caller, to any) (ask, error) {
	key := r.Header.Get(api.IdempotencyKey)
	if err := checkKey(key); err != nil {
		return ask{}, err
	}
	body, err := readJSON(r, to)
	if err != nil {
		return ask{}, err
	}
	a := ask{digest: hashParts(r.URL.RawQuery, string(body))}
	if key != "" {
		a.key = hashParts(c.key, r.Method, r.URL.Path, key)
	}
	return a, nil
}

// hashParts returns the SHA-256 in hex of parts, unambiguously separated.
func hashParts(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// maxKey bounds an Idempotency-Key.
const maxKey = 128

// checkKey refuses an invalid Idempotency-Key; "" is valid and means none.
func checkKey(key string) error {
	if len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return &service.Error{Status: http.StatusBadRequest, Text: fmt.Sprintf("%s: must be up to %d visible characters", api.IdempotencyKey, maxKey)}
	}
	return nil
}

// readJSON reads a body of at most 64 KiB, which must be JSON by its content type.
func readJSON(r *http.Request, to any) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.ContentLength != 0 && (err != nil || mediaType != "application/json") {
		return nil, &service.Error{Status: http.StatusUnsupportedMediaType, Text: "the body and its content type must be application/json"}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, &service.Error{Status: http.StatusBadRequest, Text: fmt.Sprintf("the request ended early after %d bytes", len(body))}
	case len(body) > maxBody:
		return nil, errTooLarge()
	case len(bytes.TrimSpace(body)) == 0:
		return nil, nil
	}
	return body, decodeBody(body, to)
}

// decodeBody reads one JSON object and refuses unknown members.
func decodeBody(body []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fieldError("/"+strings.ReplaceAll(wrong.Field, ".", "/"), "%s is not allowed here", wrong.Value)
	}
	if _, name, ok := strings.Cut(fmt.Sprint(err), "unknown field "); ok {
		return fieldError("/"+strings.Trim(name, `"`), "unknown field")
	}
	if err != nil {
		return fmt.Errorf("%w: the body is not the expected JSON: %s", template.ErrInvalid, strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more than one JSON value", template.ErrInvalid)
	}
	return nil
}

// acceptClock lets expiry continue after clocks that disagree have suspended it.
func acceptClock(s *server, w http.ResponseWriter, r call[struct{}]) error {
	a, err := readBody(r.request, r.caller, &struct{}{})
	if err != nil {
		return err
	}
	c := r.caller
	c.actor.Admin = true
	if _, err := s.commitEvent(r.request, c, "accept-clock", "clock", a, lifecycle.AcceptClock{}); err != nil {
		return err
	}
	return service.WriteJSON(w, http.StatusOK, api.Clock{Held: r.view.Document.Clock.Held})
}
