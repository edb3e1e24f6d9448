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

// Canonical returns the template in the JSON syntax of HCL, with sorted keys and no white
// space: the content of an artifact, and the input of the digest.
func (t *Template) Canonical() ([]byte, error) {
	b, err := encodeJSON(map[string]any{"template": map[string]any{t.Name: t.body()}})
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", t.Name, err)
	}
	if len(b) > maxTemplate {
		return nil, fmt.Errorf("template %s has %d bytes as JSON, at most %d", t.Name, len(b), maxTemplate)
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
		return nil, fmt.Errorf("a template of %d bytes as JSON, at most %d", len(b), maxTemplate)
	}
	list, err := Parse(b, canonicalName, known)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("%d templates, not one", len(list))
	}
	return list[0], nil
}

// object is a body without zero values.
type object map[string]any

func (o object) setNonEmpty(name, value string) {
	if value != "" {
		o[name] = value
	}
}

func (o object) setNumber(name string, n int) {
	if n != 0 {
		o[name] = n
	}
}

func (o object) setTrue(name string, b bool) {
	if b {
		o[name] = true
	}
}

func (o object) setDuration(name string, d time.Duration) {
	if d != 0 {
		o[name] = d.String()
	}
}

func (o object) setList(name string, list []string) {
	if len(list) > 0 {
		o[name] = list
	}
}

func (t *Template) body() object {
	o := object{
		"enabled": t.Enabled, "visible": t.Visible, "executor": t.Executor, "owner": t.Owner,
		"approval": t.Approval, "retries": t.Retries, "update": t.Update, "timeout": t.Timeout.String(),
	}
	if t.Chart != nil {
		o["chart"] = t.Chart
	} else {
		module := object{"address": t.Module.Address}
		module.setNonEmpty("version", t.Module.Version)
		module.setNonEmpty("path", t.Module.Path)
		o["module"] = module
	}
	o.setNonEmpty("title", t.Title)
	o.setNonEmpty("description", t.Description)
	o.setNonEmpty("icon", t.Icon)
	o.setNonEmpty("category", t.Category)
	o.setList("groups", t.Groups)
	o.setNumber("per_owner", t.PerOwner)
	o.setNumber("max", t.Max)
	o.setList("outputs", t.Outputs)
	o.setList("credentials", t.Credentials)
	o.setTrue("protection", t.Protection)
	if len(t.Inputs) > 0 {
		o["inputs"] = t.Inputs
	}
	for _, d := range t.Notices {
		notices, _ := o["notices"].([]string)
		o["notices"] = append(notices, d.String())
	}
	for _, p := range t.Parameters {
		parameters, _ := o["parameter"].([]object)
		o["parameter"] = append(parameters, object{p.Name: p.body()}) // a list keeps the order of the parameters
	}
	t.blocks(o)
	return o
}

func (t *Template) blocks(o object) {
	if t.Endless {
		o["ttl"] = object{"default": endless}
	}
	if l := t.TTL; l != nil {
		ttl := object{"default": l.Default.String(), "on_expire": l.OnExpire}
		ttl.setDuration("max", l.Max)
		ttl.setDuration("extend", l.Extend)
		ttl.setNumber("extends", l.Extends)
		ttl.setDuration("failed", l.Failed)
		o["ttl"] = ttl
	}
	if p := t.Pool; p != nil {
		pool := object{"size": p.Size, "when_empty": p.WhenEmpty}
		pool.setNumber("max", p.Max)
		pool.setDuration("max_age", p.MaxAge)
		o["pool"] = pool
	}
	if c := t.Connection; c != nil {
		connection := object{"type": c.Type}
		connection.setNonEmpty("url", c.URL)
		connection.setNonEmpty("message", c.Message)
		o["connection"] = connection
	}
	if d := t.Drift; d != nil {
		drift := object{"every": d.Every.String()}
		drift.setTrue("remediate", d.Remediate)
		o["drift"] = drift
	}
	if c := t.Cost; c != nil {
		o["cost"] = object{"hourly": c.Hourly, "currency": c.Currency}
	}
	if t.Schedule != nil {
		o["schedule"] = scheduleBody(t.Schedule)
	}
}

func (p Parameter) body() object {
	o := object{"link": p.Link}
	o.setNonEmpty("title", p.Title)
	o.setNonEmpty("help", p.Help)
	o.setNonEmpty("pattern", p.Pattern)
	o.setTrue("update", p.Update)
	if p.Default != nil {
		o["default"] = p.Default
	}
	if p.Enum != nil {
		o["enum"] = p.Enum
	}
	if p.When != nil {
		o["when"] = p.When
	}
	if p.Minimum != nil {
		o["minimum"] = *p.Minimum
	}
	if p.Maximum != nil {
		o["maximum"] = *p.Maximum
	}
	return o
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

// CheckExpressions refuses unknown names in inputs and connection. A template returned by
// Parse has none; defaults of a server may.
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

// Claims returns the names of the token claims that the template needs: the claim that
// determines the owner, and those that its expressions name.
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

// plainJSON rewrites JSON with sorted keys and without white space. It refuses duplicate
// keys and invalid UTF-8.
func plainJSON(b []byte, depth int) (json.RawMessage, error) {
	var v any
	if err := decodeData(b, depth, &v); err != nil {
		return nil, err
	}
	return encodeJSON(v)
}
