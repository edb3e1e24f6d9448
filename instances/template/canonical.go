// SPDX-License-Identifier: Apache-2.0

package template

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	maxTemplate = 64 << 10 // the JSON of one template, in bytes
	maxDepth    = 16       // of values

	canonicalName = "template.tf.json" // file name of an artifact, for messages
)

// Canonical returns a template as JSON of HCL, keys sorted, no white space: an artifact's content.
func (t *Template) Canonical() ([]byte, error) {
	block, err := t.block()
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", t.Name, err)
	}
	b, err := encodeJSON(map[string]any{"template": map[string]any{t.Name: block}})
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", t.Name, err)
	}
	if len(b) > maxTemplate {
		return nil, fmt.Errorf("template %s has %d bytes as JSON, the limit is %d", t.Name, len(b), maxTemplate)
	}
	return b, nil
}

// Digest returns "sha256:" and the SHA-256 of [Template.Canonical] in hex.
func (t *Template) Digest() (string, error) {
	b, err := t.Canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// ParseCanonical parses the JSON of exactly one template.
func ParseCanonical(b []byte, known Known) (*Template, error) {
	if len(b) > maxTemplate {
		return nil, fmt.Errorf("a template of %d bytes as JSON, the limit is %d", len(b), maxTemplate)
	}
	list, err := Parse(b, canonicalName, known)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("%d templates, expected one", len(list))
	}
	return list[0], nil
}

// block returns the body of the template's block, durations as texts, parameters in order.
func (t *Template) block() (map[string]any, error) {
	b, err := encodeJSON(t)
	if err != nil {
		return nil, err
	}
	var o map[string]any
	if err := decodeData(b, 2*maxDepth, &o); err != nil {
		return nil, err
	}
	delete(o, "name")
	delete(o, "endless")
	if t.Chart != nil {
		delete(o, "module")
	}
	if !t.Protection {
		delete(o, "protection")
	}
	if t.Endless && t.TTL == nil {
		o["ttl"] = map[string]any{"default": endless}
	}
	spellDurations(o, "timeout")
	for name, durations := range map[string][]string{"ttl": {"default", "max", "extend", "failed"}, "pool": {"max_age"}, "drift": {"every"}} {
		if part, ok := o[name].(map[string]any); ok {
			spellDurations(part, durations...)
		}
	}
	notices, _ := o["notices"].([]any)
	for i, d := range t.Notices {
		notices[i] = d.String()
	}
	parameters, _ := o["parameters"].([]any)
	for i, p := range t.Parameters {
		body, _ := parameters[i].(map[string]any)
		delete(body, "name")
		body["link"] = p.Link
		parameters[i] = map[string]any{p.Name: body}
	}
	if delete(o, "parameters"); len(parameters) > 0 {
		o["parameter"] = parameters
	}
	return o, nil
}

// spellDurations writes members of an object, in nanoseconds, as HCL writes durations.
func spellDurations(o map[string]any, names ...string) {
	for _, name := range names {
		if n, ok := o[name].(json.Number); ok {
			d, _ := n.Int64() // as encodeJSON wrote it
			o[name] = time.Duration(d).String()
		}
	}
}

// Defaults are the server's values for what templates leave out.
type Defaults struct {
	TTL        *TTL        // for templates that do not say that they have no end
	Connection *Connection // its texts are HCL templates over id, config, owner and the template's other names
}

// WithDefaults returns the template with the server's defaults filled in.
func (t *Template) WithDefaults(d Defaults) *Template {
	out := *t
	if out.TTL == nil && !out.Endless {
		out.TTL = d.TTL
	}
	if out.Connection == nil {
		out.Connection = d.Connection
	}
	return &out
}

// CheckExpressions refuses unknown names in inputs and connection, as a server's defaults may have.
func (t *Template) CheckExpressions(known Known) error {
	n := names{config: known.Config, anonymous: t.Pool != nil}
	for _, p := range t.Parameters {
		n.parameters = append(n.parameters, p.Name)
	}
	inputs, err := t.decodedInputs()
	if err != nil {
		return err
	}
	all := stringsIn(inputs)
	for _, text := range all {
		if _, err := parseExpression(text, n); err != nil {
			return fmt.Errorf("template %s: inputs: %w", t.Name, err)
		}
	}
	if t.Connection == nil {
		return nil
	}
	n.outputs = append([]string{}, t.Outputs...)
	for _, text := range []string{t.Connection.URL, t.Connection.Message} {
		if _, err := parseExpression(text, n); err != nil {
			return fmt.Errorf("template %s: connection: %w", t.Name, err)
		}
	}
	if t.Connection.URL == "" {
		return nil
	}
	tree, err := parseTree(t.Connection.URL)
	if err == nil {
		err = checkURLTemplate(tree)
	}
	if err != nil {
		return fmt.Errorf("template %s: connection: url: %w", t.Name, err)
	}
	return nil
}

// Claims returns the token claims that the template needs: of the owner, and of expressions.
func (t *Template) Claims() []string {
	found := map[string]bool{}
	if name, ok := strings.CutPrefix(t.Owner, OwnerClaim+":"); ok {
		found[name] = true
	}
	inputs, _ := t.decodedInputs() // Parse wrote valid JSON
	all := stringsIn(inputs)
	if t.Connection != nil {
		all = append(all, t.Connection.URL, t.Connection.Message)
	}
	for _, text := range all {
		if tree, err := parseTree(text); err == nil {
			for _, name := range namesAfter(tree, nameClaims) {
				found[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func stringsIn(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, element := range v {
			all = append(all, stringsIn(element)...)
		}
		return all
	case map[string]any:
		var all []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, stringsIn(v[key])...)
		}
		return all
	}
	return nil
}

// plainJSON rewrites JSON, keys sorted, no white space. Duplicate keys, invalid UTF-8 are refused.
func plainJSON(b []byte, depth int) (json.RawMessage, error) {
	var v any
	if err := decodeData(b, depth, &v); err != nil {
		return nil, err
	}
	return encodeJSON(v)
}
