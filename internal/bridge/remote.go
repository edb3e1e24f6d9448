// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/text"
)

// RemoteState is a data "terraform_remote_state" that reads from a registry.
type RemoteState struct {
	Name string
	// Repository is an HCL expression, which only the tool may be able to evaluate.
	Repository string
	// Backend has the arguments that okara can evaluate; its Repository is "" if that is not one.
	Backend backendblock.Backend
}

// decodeRemote reads one data block; ok is false if its backend is not "oci".
func decodeRemote(block *hcl.Block, sources map[string][]byte, dir string, getenv func(string) string) (r RemoteState, ok bool, err error) {
	content, _, _ := block.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{
		{Name: "backend"}, {Name: "config"},
	}})
	backend := content.Attributes["backend"]
	if backend == nil || len(backend.Expr.Variables()) > 0 {
		return r, false, nil
	}
	if v, _ := backend.Expr.Value(nil); v.Type() != cty.String || !v.IsKnown() || v.IsNull() || v.AsString() != backendType {
		return r, false, nil
	}
	r.Name = block.Labels[1]
	a := backendblock.New(dir)
	if config := content.Attributes["config"]; config != nil {
		if err := r.readConfig(config, a, sources[config.Range.Filename]); err != nil {
			return r, false, err
		}
	}
	if err := a.Environment(getenv); err != nil {
		return r, false, err
	}
	if r.Repository == "" {
		r.Repository = text.HCL(a.Partial().Repository)
	}
	if a.Repository() == "" && r.Repository != text.HCL("") {
		r.Backend = a.Partial()
		return r, true, nil
	}
	if r.Backend, err = a.Backend(); err != nil {
		return r, false, atPosition(block.DefRange, fmt.Errorf("terraform_remote_state %q: %w", r.Name, err))
	}
	// A run that reads another team's state acts on it at once, so it must not read
	// a pointer that a crash left behind.
	r.Backend.StrictReads = true
	return r, true, nil
}

// readConfig reads config; if it is no object literal, its repository is an attribute of its value.
func (r *RemoteState) readConfig(config *hcl.Attribute, a *backendblock.Arguments, src []byte) error {
	pairs, diags := hcl.ExprMap(config.Expr)
	if diags.HasErrors() {
		r.Repository = "(" + string(config.Expr.Range().SliceBytes(src)) + ").repository"
		return nil
	}
	for _, p := range pairs {
		key, diags := p.Key.Value(nil)
		if diags.HasErrors() || key.Type() != cty.String {
			continue
		}
		name := key.AsString()
		if !backendblock.Known(name) {
			return atPosition(p.Key.Range(), backendblock.UnknownArgument(name))
		}
		if name == "repository" || name == "primary_repository" {
			r.Repository = expressionSource(p.Value.Range(), src)
		}
		if len(p.Value.Variables()) > 0 {
			continue
		}
		v, diags := p.Value.Value(nil)
		if err := diagnosticsError(diags); err != nil {
			return err
		}
		if err := a.Set(name, v); err != nil {
			return atPosition(p.Key.Range(), err)
		}
	}
	return nil
}

// expressionSource returns the source of an expression; in JSON it is a string with a template.
func expressionSource(rng hcl.Range, src []byte) string {
	text := string(rng.SliceBytes(src))
	if !strings.HasSuffix(rng.Filename, ".json") {
		return text
	}
	var template string
	if err := json.Unmarshal([]byte(text), &template); err != nil {
		return text
	}
	return `"` + template + `"`
}
