// SPDX-License-Identifier: Apache-2.0

package states

import (
	"bytes"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
)

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
