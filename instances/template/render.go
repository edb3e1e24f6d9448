// SPDX-License-Identifier: Apache-2.0

package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
)

// maxOutputDepth bounds the nesting of an output of a run.
const maxOutputDepth = 64

// Scope holds what the expressions of a template may name.
type Scope struct {
	ID         string
	Owner      Owner
	Parameters map[string]json.RawMessage // as returned by [Schema.CheckParameters]
	Claims     map[string]string          // those of [Template.Claims]
	Config     map[string]string          // free values of the server
	Outputs    map[string]json.RawMessage // in connections only
	Stopped    bool                       // by its schedule, or by a user
}

// Render returns a run's variables: parameters, overridden by inputs and schedule, as data that is
// not parsed. Of a chart, what inputs refer to is not at the top level too.
func Render(t *Template, s Scope) (map[string]json.RawMessage, error) {
	inputs, err := t.decodedInputs()
	if err != nil {
		return nil, err
	}
	var placed []string
	if t.Chart != nil {
		placed = parametersIn(inputs)
	}
	out := map[string]json.RawMessage{}
	for _, p := range t.Parameters {
		if value, ok := s.Parameters[p.Name]; ok && !slices.Contains(placed, p.Name) {
			out[p.Name] = value
		}
	}
	s.Outputs = nil
	v, err := s.evaluator(t)
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", t.Name, err)
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		b, err := v.render(inputs[name])
		if err != nil {
			return nil, fmt.Errorf("template %s: inputs.%s: %w", t.Name, name, err)
		}
		out[name] = b
	}
	if t.Schedule != nil {
		out[t.Schedule.Variable] = t.Schedule.Value(s.Stopped)
	}
	return out, nil
}

func parametersIn(inputs map[string]any) []string {
	var all []string
	for _, s := range stringsIn(inputs) {
		if tree, err := parseTree(s); err == nil { // a wrong one is an error when it is filled in
			all = append(all, namesAfter(tree, nameParameters)...)
		}
	}
	return all
}

func (t *Template) decodedInputs() (map[string]any, error) {
	inputs := map[string]any{}
	if len(t.Inputs) == 0 {
		return inputs, nil
	}
	if err := decodeData(t.Inputs, maxDepth, &inputs); err != nil {
		return nil, fmt.Errorf("template %s: inputs: %w", t.Name, err)
	}
	return inputs, nil
}

// RenderConnection returns how to reach an instance: the connection, else the output url, or nil.
func RenderConnection(t *Template, s Scope) (*Connection, error) {
	c := t.Connection
	if c == nil {
		var address string
		if err := json.Unmarshal(s.Outputs["url"], &address); err != nil || !slices.Contains(t.Outputs, "url") {
			return nil, nil // there is no output url, or it is not text
		}
		c = &Connection{Type: ConnectionWeb, URL: "${outputs.url}"}
	}
	v, err := s.evaluator(t)
	if err != nil {
		return nil, fmt.Errorf("template %s: connection: %w", t.Name, err)
	}
	out := &Connection{Type: c.Type}
	if c.URL != "" {
		if out.URL, err = v.renderURL(c.URL); err != nil {
			return nil, fmt.Errorf("template %s: connection: url: %w", t.Name, err)
		}
	}
	if c.Message != "" {
		if out.Message, err = v.renderMessage(c.Message); err != nil {
			return nil, fmt.Errorf("template %s: connection: message: %w", t.Name, err)
		}
	}
	return out, nil
}

func (s Scope) evaluator(t *Template) (*evaluator, error) {
	variables, err := s.variables(t)
	if err != nil {
		return nil, err
	}
	return &evaluator{hcl.EvalContext{Variables: variables, Functions: allowedFunctions()}}, nil
}

// render fills in one input: the strings in it, at any depth, are templates.
func (v *evaluator) render(input any) (json.RawMessage, error) {
	value, err := v.fillInput(input)
	if err != nil {
		return nil, err
	}
	b, err := encodeJSON(value)
	if err != nil {
		return nil, err
	}
	if len(b) > maxResult {
		return nil, fmt.Errorf("a value of %d bytes, the limit is %d", len(b), maxResult)
	}
	return b, nil
}

func (v *evaluator) fillInput(input any) (any, error) {
	switch input := input.(type) {
	case string:
		tree, err := parseTree(input)
		if err != nil {
			return nil, err
		}
		val, err := v.evaluateExpr(tree)
		if err != nil {
			return nil, err
		}
		b, err := ctyjson.SimpleJSONValue{Value: val}.MarshalJSON()
		return json.RawMessage(b), err
	case []any:
		out := make([]any, 0, len(input))
		for _, element := range input {
			filled, err := v.fillInput(element)
			if err != nil {
				return nil, err
			}
			out = append(out, filled)
		}
		return out, nil
	case map[string]any:
		out := map[string]any{}
		for key, element := range input {
			filled, err := v.fillInput(element)
			if err != nil {
				return nil, err
			}
			out[key] = filled
		}
		return out, nil
	}
	return input, nil
}

// renderMessage renders a text that is safe to show.
func (v *evaluator) renderMessage(source string) (string, error) {
	tree, err := parseTree(source)
	if err != nil {
		return "", err
	}
	val, err := v.evaluateExpr(tree)
	if err != nil {
		return "", err
	}
	message, err := asText(val)
	if err != nil {
		return "", err
	}
	if len(message) > maxResult {
		return "", fmt.Errorf("a string of %d bytes, the limit is %d", len(message), maxResult)
	}
	return text.Block(message), nil
}

// renderURL renders an address: users' values are percent-encoded, and may only follow the host.
func (v *evaluator) renderURL(source string) (string, error) {
	tree, err := parseTree(source)
	if err != nil {
		return "", err
	}
	address, err := v.joinParts(urlParts(tree), func(before, value string, part hclsyntax.Expression) (string, error) {
		if isTrusted(part) {
			return value, nil
		}
		if !hasHost(before) {
			return "", errors.New("only id, config and outputs may appear before the path")
		}
		return percentEncode(value, part), nil
	})
	if err != nil {
		return "", err
	}
	return address, checkURL(address)
}

func urlParts(tree hclsyntax.Expression) []hclsyntax.Expression {
	switch tree := tree.(type) {
	case *hclsyntax.TemplateExpr:
		return tree.Parts
	case *hclsyntax.TemplateWrapExpr:
		return []hclsyntax.Expression{tree.Wrapped}
	}
	return []hclsyntax.Expression{tree}
}

// isTrusted reports whether a part refers only to values of the server or module.
func isTrusted(part hclsyntax.Expression) bool {
	return !slices.ContainsFunc(part.Variables(), func(t hcl.Traversal) bool {
		return !slices.Contains([]string{nameID, nameConfig, nameOutputs}, t.RootName())
	})
}

// hasHost reports whether an address continues beyond its host.
func hasHost(before string) bool {
	_, rest, ok := strings.Cut(before, "://")
	i := strings.IndexAny(rest, "/?#")
	return ok && i > 0 && checkURL(before) == nil
}

// percentEncode encodes all but letters, digits and "-._~", once.
func percentEncode(value string, part hclsyntax.Expression) string {
	if call, ok := part.(*hclsyntax.FunctionCallExpr); ok && call.Name == "urlencode" {
		return value
	}
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

// checkURL accepts http and https addresses with a host and without user information.
func checkURL(address string) error {
	if len(address) > maxResult {
		return fmt.Errorf("an address of %d bytes, the limit is %d", len(address), maxResult)
	}
	if strings.ContainsFunc(address, func(r rune) bool { return text.Hidden(r) || r == ' ' || r == '\\' }) {
		return errors.New("a control character, blank or backslash in the address")
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("not a valid address")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must begin with http:// or https://")
	case u.User != nil || strings.Contains(u.Host, "@"):
		return errors.New("must not have a user before the host")
	case u.Hostname() == "" || u.Opaque != "":
		return errors.New("has no host")
	}
	return nil
}

func valuesObject(m map[string]json.RawMessage) (cty.Value, error) {
	out := map[string]cty.Value{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		raw := m[name]
		if err := syntax.CheckData(raw, maxOutputDepth); err != nil {
			return cty.NilVal, fmt.Errorf("%s: %w", name, err)
		}
		kind, err := ctyjson.ImpliedType(raw)
		if err != nil {
			return cty.NilVal, fmt.Errorf("%s is not valid JSON", name)
		}
		v, err := ctyjson.Unmarshal(raw, kind)
		if err != nil {
			return cty.NilVal, fmt.Errorf("%s is not valid JSON", name)
		}
		out[name] = v
	}
	return cty.ObjectVal(out), nil
}

// encodeJSON encodes JSON with sorted keys, without white space and without HTML escaping.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// decodeData decodes JSON of at most depth levels; numbers keep their digits.
func decodeData(b []byte, depth int, to any) error {
	if err := syntax.CheckData(b, depth); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return dec.Decode(to)
}
