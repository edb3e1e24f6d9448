// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
)

const outputKind = "state-version-outputs"

// outputs are the outputs of one version, sorted by name.
type outputs struct {
	of    workspaceRef
	n     int64
	names []string
	all   map[string]states.Output
	// typed says that the tools may build the values from what is sent. Otherwise the types are
	// left out, and the tools read the whole state.
	typed     bool
	encrypted bool // by OpenTofu: the outputs are unknown
}

// readOutputs reads the outputs of a state, whose content is not trusted.
func readOutputs(of workspaceRef, n int64, state []byte) (outputs, error) {
	o := outputs{of: of, n: n}
	all, err := states.Outputs(state)
	if errors.Is(err, states.ErrEncrypted) {
		o.encrypted = true
		return o, nil
	}
	if err != nil {
		return o, err
	}
	o.all = all
	o.names = slices.Sorted(maps.Keys(all))
	o.typed = true
	for _, output := range all {
		if output.Type == nil || !isExact(output.Value) {
			o.typed = false
		}
	}
	return o, nil
}

type outputRoutes struct {
	gate   *gate
	stores *stores
	memory *service.Limiter[string]
}

func (s outputRoutes) addRoutes(t table) {
	t.onWorkspace("GET", "workspaces/{id}/current-state-version-outputs", rights.Read, s.currentOutputs)
	t.addRoute("GET", "state-versions/{id}/outputs", handleOne(s.gate.findVersion, rights.Read, s.versionOutputs))
	t.addRoute("GET", "state-version-outputs/{id}", s.showOutput)
}

// outputsOf reads the outputs of version n; the caller calls release to free their memory.
func (s outputRoutes) outputsOf(ctx context.Context, g access.Grant, at located, n int64) (o outputs, release func(), err error) {
	release = func() {}
	_, err = at.view(ctx, n, func(state []byte) (err error) {
		if release, err = acquireRead(s.memory, g, state); err != nil {
			return err
		}
		if o, err = readOutputs(at.workspaceRef, n, state); err != nil {
			release()
		}
		return err
	})
	return o, release, absentState(at.workspaceRef, n, err)
}

// newestOutputs is outputsOf for the newest listed version; if that is gone, the error is no 404.
func (s outputRoutes) newestOutputs(ctx context.Context, g access.Grant, at located, n int64) (outputs, func(), error) {
	o, release, err := s.outputsOf(ctx, g, at, n)
	if e, ok := errors.AsType[*refusal](err); ok && e.status == http.StatusNotFound {
		err = newRefusal(http.StatusUnprocessableEntity, "the stored state cannot be read", "version %d of workspace %q is no longer the newest: run the command again", n, at.workspaceRef)
	}
	return o, release, err
}

type workspaceOutput struct {
	Name      string          `json:"name"`
	Sensitive bool            `json:"sensitive"`
	Type      string          `json:"output-type"`
	Value     json.RawMessage `json:"value"`
}

// includedOutputs returns the outputs of the newest version as parts of the workspace, with ids to
// read sensitive ones by; none if OpenTofu encrypted the state.
func (s outputRoutes) includedOutputs(ctx context.Context, g access.Grant, at located) (list []resource, release func(), err error) {
	states, err := at.states(ctx)
	if err != nil {
		return nil, nil, err
	}
	v, err := at.describeHead(ctx, states)
	if errors.Is(err, oci.ErrNotFound) {
		return nil, func() {}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	o, release, err := s.newestOutputs(ctx, g, at, v.N)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range o.names {
		d := o.outputResource(name, false)
		a := d.Attributes.(outputAttributes)
		list = append(list, resource{Type: "workspace-outputs", ID: d.ID, Attributes: workspaceOutput{a.Name, a.Sensitive, a.Type, a.Value}})
	}
	return list, release, nil
}

// currentOutputs answers with the newest version's outputs, on one page: the tools read no other.
// Without a state the list is empty: not found would be an error.
func (s outputRoutes) currentOutputs(w http.ResponseWriter, r *http.Request, p workspaceRef, h commandID, g access.Grant) error {
	at, v, err := s.stores.currentVersion(r.Context(), p, h)
	if errors.Is(err, oci.ErrNotFound) {
		return sendDocument(w, http.StatusOK, document{Data: []resource{}})
	}
	if err != nil {
		return err
	}
	o, release, err := s.newestOutputs(r.Context(), g, at, v.N)
	if err != nil {
		return err
	}
	defer release()
	return sendDocument(w, http.StatusOK, document{Data: o.list()})
}

func (s outputRoutes) versionOutputs(w http.ResponseWriter, r *http.Request, id namedVersion) error {
	if id.pending {
		return errAbsent("this version is being uploaded")
	}
	o, release, err := s.openOutputs(r, id.g, id.workspaceRef, id.n)
	if err != nil {
		return err
	}
	defer release()
	return answerPage(w, r, o.list(), func(one resource) resource { return one })
}

func (s outputRoutes) showOutput(w http.ResponseWriter, r *http.Request) error {
	id, err := parseOutputID(r.PathValue("id"))
	if err != nil {
		return err
	}
	g, err := s.gate.allowRef(r, rights.Read, id.workspaceRef)
	if err != nil {
		return err
	}
	o, release, err := s.openOutputs(r, g, id.workspaceRef, id.n)
	if err != nil {
		return err
	}
	defer release()
	data, err := o.oneOutput(id.name)
	if err != nil {
		return err
	}
	return sendDocument(w, http.StatusOK, document{Data: data})
}

func (s outputRoutes) openOutputs(r *http.Request, g access.Grant, p workspaceRef, n int64) (outputs, func(), error) {
	at, err := s.stores.openWorkspace(r.Context(), p)
	if err != nil {
		return outputs{}, nil, err
	}
	return s.outputsOf(r.Context(), g, at, n)
}

// outputAttributes are the attributes of an output. A sensitive value is null; its id reads it.
type outputAttributes struct {
	Name         string          `json:"name"`
	Sensitive    bool            `json:"sensitive"`
	Type         string          `json:"type"`
	Value        json.RawMessage `json:"value"`
	DetailedType json.RawMessage `json:"detailed-type,omitempty"`
}

// list returns the outputs; of an encrypted state one without a value, since none means none.
func (o outputs) list() []resource {
	if o.encrypted {
		const name = "encrypted"
		return []resource{{Type: outputKind, ID: o.of.outputID(o.n, name), Attributes: outputAttributes{Name: name, Sensitive: true, Type: "string"}}}
	}
	list := make([]resource, len(o.names))
	for i, name := range o.names {
		list[i] = o.outputResource(name, false)
	}
	return list
}

// oneOutput returns an output with its value, even if it is sensitive.
func (o outputs) oneOutput(name string) (resource, error) {
	if _, ok := o.all[name]; !ok {
		return resource{}, errNoID()
	}
	return o.outputResource(name, true), nil
}

func (o outputs) outputResource(name string, showSensitive bool) resource {
	output := o.all[name]
	a := outputAttributes{Name: name, Sensitive: output.Sensitive, Type: simpleType(output.Type)}
	if !output.Sensitive || showSensitive {
		a.Value = output.Value
	}
	if o.typed {
		a.DetailedType = output.Type
	}
	return resource{Type: outputKind, ID: o.of.outputID(o.n, name), Attributes: a}
}

// simpleType returns the JSON name of a type that cty encoded.
func simpleType(t json.RawMessage) string {
	var name string
	if json.Unmarshal(t, &name) == nil {
		switch name {
		case "number":
			return "number"
		case "bool":
			return "boolean"
		}
		return "string"
	}
	var parts []json.RawMessage
	if json.Unmarshal(t, &parts) == nil && len(parts) > 0 && json.Unmarshal(parts[0], &name) == nil {
		switch name {
		case "list", "set", "tuple":
			return "array"
		case "map", "object":
			return "object"
		}
	}
	return "string"
}

// isExact reports whether every number in a JSON value survives a client with 64-bit floats.
func isExact(value json.RawMessage) bool {
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	for {
		t, err := dec.Token()
		if err != nil {
			return err == io.EOF
		}
		if n, ok := t.(json.Number); ok && !exactNumber(n.String()) {
			return false
		}
	}
}

func exactNumber(s string) bool {
	f, err := strconv.ParseFloat(s, 64)
	return err == nil && newDecimal(s) == newDecimal(strconv.FormatFloat(f, 'g', -1, 64))
}

// decimal is a JSON number in canonical form, in which equal numbers are equal.
type decimal struct {
	negative bool
	digits   string // without zeros at either end; "" is 0
	exponent int    // of ten, behind the digits
}

func newDecimal(s string) decimal {
	var d decimal
	s, d.negative = strings.CutPrefix(s, "-")
	digits, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	d.exponent, _ = strconv.Atoi(exponent) // a float has a small exponent
	whole, fraction, _ := strings.Cut(digits, ".")
	d.digits = strings.TrimLeft(whole+fraction, "0")
	d.exponent -= len(fraction)
	short := strings.TrimRight(d.digits, "0")
	d.exponent += len(d.digits) - len(short)
	if d.digits = short; short == "" {
		return decimal{}
	}
	return d
}
