// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"encoding/json"
	"strings"
)

// ModuleDescription is the document of MediaModuleDescription, for readers without the module.
type ModuleDescription struct {
	SchemaVersion int                `json:"schemaVersion"` // 1
	Address       string             `json:"address"`
	Version       string             `json:"version"`
	Root          DescribedModule    `json:"root"`
	Submodules    []DescribedModule  `json:"submodules,omitempty"`
	Examples      []DescribedModule  `json:"examples,omitempty"`
	License       *DescribedLicense  `json:"license,omitempty"`
	Diagnostics   []DescribedProblem `json:"diagnostics,omitempty"`

	Dir string `json:"-"` // of the module in its package, if users address it, as AnnModuleDir says
}

// Below returns the path of what users call first: "", or the first submodule if the root is empty.
func (d ModuleDescription) Below() string {
	r := d.Root
	parts := len(r.InputOrder) + len(r.Outputs) + len(r.RequiredVersion) + len(r.RequiredProviders) + len(r.Resources) + len(r.ModuleCalls)
	if parts > 0 || len(d.Submodules) == 0 {
		return ""
	}
	return d.Submodules[0].Path
}

// DescribedModule is one directory with configuration.
type DescribedModule struct {
	Path              string              `json:"path"` // "" for the root
	Readme            *DescribedReadme    `json:"readme,omitempty"`
	Inputs            json.RawMessage     `json:"inputs,omitempty"` // JSON Schema 2020-12 of an object
	InputOrder        []string            `json:"inputOrder,omitempty"`
	Outputs           []DescribedOutput   `json:"outputs,omitempty"`
	RequiredVersion   []string            `json:"requiredVersion,omitempty"`
	CompatibleWith    map[string]string   `json:"compatibleWith,omitempty"` // constraints of a language block, by tool: opentofu
	OnlyFor           map[string]string   `json:"onlyFor,omitempty"`        // what the other tool refuses, by tool: opentofu, terraform
	RequiredProviders []DescribedProvider `json:"requiredProviders,omitempty"`
	Resources         []DescribedResource `json:"resources,omitempty"`
	ModuleCalls       []DescribedCall     `json:"moduleCalls,omitempty"`
	Moved             []DescribedMove     `json:"moved,omitempty"`
	Terraform         *DescribedModule    `json:"terraform,omitempty"` // what Terraform reads of a folder with .tofu files
}

// DescribedReadme is a readme as Markdown source.
type DescribedReadme struct {
	Path      string `json:"path"`
	Text      string `json:"text"`
	Truncated bool   `json:"truncated,omitempty"`
}

// DescribedOutput is an output value.
type DescribedOutput struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Sensitive   bool   `json:"sensitive,omitempty"`
	Ephemeral   bool   `json:"ephemeral,omitempty"`
	Type        string `json:"type,omitempty"`       // as written, where the output has one
	Deprecated  string `json:"deprecated,omitempty"` // why, and what to use
}

// DescribedProvider is an entry of required_providers.
type DescribedProvider struct {
	Name     string   `json:"name"`
	Source   string   `json:"source,omitempty"`
	Versions []string `json:"versions,omitempty"`
	Aliases  []string `json:"aliases,omitempty"`
}

// BuiltIn reports whether the provider is part of the tool, such as that of terraform_data.
func (d DescribedProvider) BuiltIn() bool {
	return strings.HasPrefix(d.Source, "terraform.io/builtin/") || d.Name == "terraform" && d.Source == ""
}

// DescribedResource is a block; Mode is "managed", "data", "ephemeral" or "action".
type DescribedResource struct {
	Mode string `json:"mode"`
	Type string `json:"type"`
	Name string `json:"name"`
}

// DescribedMove is a moved block without indices: the address before, and now.
type DescribedMove struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// DescribedCall is a module block.
type DescribedCall struct {
	Name    string `json:"name"`
	Source  string `json:"source"`
	Version string `json:"version,omitempty"`
}

// DescribedLicense is a licence file and the licence detected in it.
type DescribedLicense struct {
	Path string `json:"path"`
	SPDX string `json:"spdx,omitempty"`
}

// DescribedProblem is a diagnostic of the configuration parser.
type DescribedProblem struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Path     string `json:"path,omitempty"`
	Line     int    `json:"line,omitempty"`
}
