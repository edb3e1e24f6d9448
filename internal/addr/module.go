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

// ParseModule parses "namespace/name/system", folded as by [Module.Fold]. The error is a
// [*SyntaxError].
func ParseModule(s string) (Module, error) {
	m, err := ParseWritten(s)
	return m.Fold(), err
}

// ParseWritten is ParseModule that keeps the case, for display and for origins.
func ParseWritten(s string) (Module, error) {
	parts := strings.Split(s, "/")
	if len(parts) == 4 && hasHost(s) {
		return Module{}, syntaxError("module", s, "omit the host: %s", strings.Join(parts[1:], "/"))
	}
	if len(parts) != 3 {
		return Module{}, syntaxError("module", s, "must be NAMESPACE/NAME/SYSTEM")
	}
	m := Module{Namespace: parts[0], Name: parts[1], System: parts[2]}
	return m, m.Fold().Validate()
}

// Fold returns the module as it is stored, namespace and name in lower case, as public registries
// do: OpenTofu's index (opentofu/registry, pull request 506), Terraform's comparison
// (internal/registry/regsrc, Module.Equal). Both tools refuse upper case in a system.
func (m Module) Fold() Module {
	m.Namespace = strings.ToLower(m.Namespace)
	m.Name = strings.ToLower(m.Name)
	return m
}

// Title returns the module as in the address written, if that is m's, else in lower case.
func (m Module) Title(written string) string {
	if as, err := ParseWritten(written); err == nil && as.Fold() == m {
		return written
	}
	return m.String()
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
