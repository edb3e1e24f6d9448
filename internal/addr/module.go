// SPDX-License-Identifier: Apache-2.0

package addr

import "strings"

// Module is the address of a module in a registry.
type Module struct{ Namespace, Name, System string }

// ModuleVersion is one version of a module.
type ModuleVersion struct {
	Module
	Version Version
}

// ParseModule parses "namespace/name/system" and checks that okara can store it.
// The error is a [*SyntaxError].
func ParseModule(s string) (Module, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return Module{}, invalid("module", s, "must be NAMESPACE/NAME/SYSTEM")
	}
	m := Module{Namespace: parts[0], Name: parts[1], System: parts[2]}
	return m, m.Validate()
}

// Validate checks the parts of m as ParseModule does.
func (m Module) Validate() error {
	if err := checkPart("module namespace", m.Namespace, nameRule()); err != nil {
		return err
	}
	if err := checkPart("module name", m.Name, nameRule()); err != nil {
		return err
	}
	return checkPart("module system", m.System, systemRule())
}

// String returns namespace/name/system.
func (m Module) String() string { return m.Namespace + "/" + m.Name + "/" + m.System }
