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
// Namespace and name are lower-cased, see [Module.Fold]. The error is a
// [*SyntaxError].
func ParseModule(s string) (Module, error) {
	m, err := ParseWritten(s)
	return m.Fold(), err
}

// ParseWritten is ParseModule for an address that keeps its case: for display,
// and for requests to an origin that distinguishes it.
func ParseWritten(s string) (Module, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return Module{}, syntaxError("module", s, "must be NAMESPACE/NAME/SYSTEM")
	}
	m := Module{Namespace: parts[0], Name: parts[1], System: parts[2]}
	return m, m.Fold().Validate()
}

// Fold returns the module under which addresses that differ only in the case of
// namespace and name are stored, as public registries do: OpenTofu's keeps its
// index in lower case (opentofu/registry, pull request 506), and Terraform
// compares registry sources in lower case (internal/registry/regsrc,
// Module.Equal). Both tools refuse upper case in a system.
func (m Module) Fold() Module {
	m.Namespace = strings.ToLower(m.Namespace)
	m.Name = strings.ToLower(m.Name)
	return m
}

// Title returns how the module is written for readers: as in the address
// written, if that is one of m, and else in lower case.
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
