// SPDX-License-Identifier: Apache-2.0

package states

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
)

// Output is one output of a state.
type Output struct {
	Value     json.RawMessage
	Type      json.RawMessage // in cty's encoding: "string", ["list","number"]; nil: not known, as until version 3
	Sensitive bool            // according to the configuration
}

// Outputs reads a state's outputs by name. The error may be [ErrEncrypted].
func Outputs(state []byte) (map[string]Output, error) {
	d, err := indexState(state)
	if err != nil {
		return nil, err
	}
	all := map[string]Output{}
	for _, e := range d.entries {
		if e.of.Mode != ModeOutput {
			continue
		}
		m, err := membersOf(newDecoder(orNull(e.json)))
		if err != nil { // until version 2 an output is its value
			m = members{"value": e.json}
		}
		o := Output{Value: json.RawMessage(m["value"]), Sensitive: string(m["sensitive"]) == "true"}
		if !d.old {
			o.Type = json.RawMessage(m["type"])
		}
		all[e.of.Name] = o
	}
	return all, nil
}

// HasResources reports whether a state has managed instances. The error may be [ErrEncrypted].
func HasResources(state []byte) (bool, error) {
	d, err := indexState(state)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(d.entries, func(e entry) bool { return e.of.Mode == ModeManaged }), nil
}

// instancesWith returns the addresses of resources whose instances have a member.
func (d *Document) instancesWith(member string) (all []string) {
	for _, e := range d.entries {
		if m, err := membersOf(newDecoder(e.json)); e.of.Mode == ModeManaged && err == nil && !isNothing(m[member]) {
			all = append(all, e.address)
		}
	}
	return all
}

// ofInstances returns instances with own providers, as of OpenTofu's for_each. Terraform (1.11 was
// tried) drops them without a word when it writes.
func (d *Document) ofInstances() []string { return d.instancesWith("provider") }

// LeftBehind returns what a destroy leaves for destroy = false (OpenTofu 1.12), if state is
// readable.
func LeftBehind(state []byte) []string {
	d, err := indexState(state)
	if err != nil {
		return nil
	}
	return d.instancesWith("skip_destroy")
}

// ExplainDropped explains that all instances with providers of their own are gone since before, with
// the command that restores them; "" if they are not, or the tool of one version wrote both.
func ExplainDropped(before, after *Document, restore string) string {
	gone := before.ofInstances()
	same := bytes.Equal(before.rest["terraform_version"], after.rest["terraform_version"])
	if len(gone) == 0 || same || len(after.ofInstances()) > 0 {
		return ""
	}
	return "Terraform drops resources whose instances have providers of their own (for_each of OpenTofu). Unless a plan destroyed them, restore them with `" + restore + "`: " + text.Excerpt(strings.Join(gone, ", "))
}

// WarnOther warns of a state that the tool of a User-Agent does not understand, or "".
func WarnOther(agent string, state []byte) string {
	if !strings.Contains(agent, "Terraform/") {
		return ""
	}
	d, err := indexState(state)
	if err != nil || len(d.ofInstances()) == 0 {
		return ""
	}
	return "OpenTofu wrote this state, with instances that have providers of their own. Terraform will drop them at its first write: use tofu. Affected: " + text.Excerpt(strings.Join(d.ofInstances(), ", "))
}

// OtherTool reports whether Terraform wrote a version after OpenTofu wrote the one before it.
func OtherTool(before, tool string) bool {
	return strings.HasPrefix(before, "OpenTofu/") && strings.HasPrefix(tool, "Terraform/")
}
