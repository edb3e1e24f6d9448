// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
)

type kubeVersion struct {
	name      string
	Address   string    `yaml:"address"`
	Source    string    `yaml:"source,omitempty"`
	Version   string    `yaml:"version"`
	Platforms []string  `yaml:"platforms,omitempty"`
	Auth      *kubeAuth `yaml:"auth,omitempty"`
}

// convertVersion converts a Version of no Module or Provider, else nil, noted in o. OpenDepot has
// one a platform, okara one for all.
func (im *kubeImport) convertVersion(d openDepot, o *kubeObject) *kubeVersion {
	version := strings.TrimPrefix(d.Spec.Version, "v")
	kind, name := d.parent()
	by := kind + " " + d.Metadata.Namespace + "/" + name
	switch _, declared := im.declared[by]; {
	case kind == "":
		o.noteComment("no module or provider named: create one with versions: %q", version)
		return nil
	case name != "" && (declared || im.parents[by] || !d.hasOwnSource()):
		o.noteComment("the operator creates the Versions of %s %s, one for all platforms", kind, name)
		return nil
	case name == "":
		o.noteComment("its %s has no name", strings.ToLower(kind))
		return nil
	}
	parsed, err := addr.ParseVersion(version)
	if err != nil {
		o.noteComment("version: %v", err)
		return nil
	}
	if kind == "Module" {
		return im.moduleVersion(d, parsed.String(), o)
	}
	return im.providerVersion(d, parsed.String(), o)
}

// parent returns the kind and name of the resource that a Version belongs to.
func (d openDepot) parent() (kind, name string) {
	switch {
	case d.Spec.ModuleRef != nil:
		return "Module", d.Spec.ModuleRef.Name
	case d.Spec.ProviderRef != nil:
		return "Provider", d.Spec.ProviderRef.Name
	}
	return "", ""
}

// hasOwnSource reports whether a Version has a source; a provider's is in its name.
func (d openDepot) hasOwnSource() bool {
	m := d.Spec.ModuleRef
	return m == nil || m.Provider != "" && (m.RepoURL != "" || m.RepoOwner != "")
}

func (im *kubeImport) moduleVersion(d openDepot, version string, o *kubeObject) *kubeVersion {
	m := *d.Spec.ModuleRef
	m.Constraints = version
	m.History = nil
	spec, ok := im.convertModule(m, openDepot{Metadata: d.Metadata}, o)
	if !ok {
		return nil
	}
	if spec.Policy != "" {
		o.noteComment("immutable: a standalone Version always is")
	}
	return &kubeVersion{Address: spec.Address, Source: spec.Source, Version: version, Auth: spec.Auth}
}

func (im *kubeImport) providerVersion(d openDepot, version string, o *kubeObject) *kubeVersion {
	p := *d.Spec.ProviderRef
	p.Constraints = version
	p.History = nil
	if p.SourceRepository != "" {
		p.SourceRepository = ""
		o.noteComment("sourceRepository: a standalone Version is not scanned; a Provider is")
	}
	if d.Spec.OS != "" && d.Spec.Arch != "" {
		p.OperatingSystems = []string{d.Spec.OS}
		p.Architectures = []string{d.Spec.Arch}
	}
	spec, ok := im.convertProvider(p, openDepot{Metadata: d.Metadata}, o)
	if !ok {
		return nil
	}
	key := strings.Join([]string{d.Metadata.Namespace, spec.Address, version}, " ")
	there := im.versions[key]
	if there == nil {
		v := &kubeVersion{name: d.Metadata.Name, Address: spec.Address, Version: version, Platforms: spec.Platforms}
		im.versions[key] = v
		return v
	}
	for _, t := range spec.Platforms {
		if len(there.Platforms) > 0 && len(there.Platforms) < maxOpenNames && !slices.Contains(there.Platforms, t) {
			there.Platforms = append(there.Platforms, t)
		}
	}
	if len(spec.Platforms) == 0 {
		there.Platforms = nil // all platforms
	}
	o.noteComment("Version %s has all platforms", there.name)
	return nil
}
