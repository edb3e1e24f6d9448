// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// latest redirects to the archive of the latest release.
func (m *modules) latest(w http.ResponseWriter, r call[addr.Module]) error {
	l, err := r.catalog.Module(r.Context(), r.at)
	if err != nil {
		return missing(err, "module %s", r.at)
	}
	v, ok := l.Latest()
	if !ok {
		return notFound("module %s: not found", r.at)
	}
	w.Header().Set("Location", v.String()+"/download")
	w.Header().Set("Cache-Control", privateCache)
	w.WriteHeader(http.StatusFound)
	return nil
}

type moduleDetailDoc struct {
	*moduleDoc
	Root       moduleDirDoc   `json:"root"`
	Submodules []moduleDirDoc `json:"submodules"`
	Examples   []moduleDirDoc `json:"examples"`
	Providers  []string       `json:"providers"`
	Versions   []addr.Version `json:"versions"`
}

// moduleDirDoc is one directory of a module.
type moduleDirDoc struct {
	Path                 string                       `json:"path"`
	Name                 string                       `json:"name"`
	Readme               string                       `json:"readme"`
	Empty                bool                         `json:"empty"`
	Inputs               []moduleInputDoc             `json:"inputs"`
	Outputs              []moduleOutputDoc            `json:"outputs"`
	Dependencies         []artifact.DescribedCall     `json:"dependencies"`
	ProviderDependencies []moduleRequirementDoc       `json:"provider_dependencies"`
	Resources            []artifact.DescribedResource `json:"resources"`
}

type moduleInputDoc struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default,omitempty"`
	Required    bool            `json:"required"`
}

type moduleOutputDoc struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type moduleRequirementDoc struct {
	Name    string `json:"name"`
	Source  string `json:"source"`
	Version string `json:"version"`
}

// detail describes one version from the description that was stored when it was
// published.
func (m *modules) detail(w http.ResponseWriter, r call[addr.ModuleVersion]) error {
	l, err := r.catalog.Module(r.Context(), r.at.Module)
	if err != nil {
		return missing(err, "module %s", r.at.Module)
	}
	mv, err := r.catalog.ModuleVersion(r.Context(), r.at.Module, r.at.Version)
	if err != nil {
		return missing(err, "module %s %s", r.at.Module, r.at.Version)
	}
	return m.describe(w, r, l, mv)
}

// latestDetail is detail of the latest version.
func (m *modules) latestDetail(w http.ResponseWriter, r call[addr.Module]) error {
	l, v, mv, err := r.catalog.LatestModule(r.Context(), r.at)
	if err != nil {
		return missing(err, "module %s", r.at)
	}
	return m.describe(w, call[addr.ModuleVersion]{r.Request, r.view, addr.ModuleVersion{Module: r.at, Version: v}, r.grant}, l, mv)
}

func (m *modules) describe(w http.ResponseWriter, r call[addr.ModuleVersion], l *catalog.Versions, mv *catalog.ModuleVersion) error {
	description, err := r.catalog.Description(r.Context(), mv)
	if err != nil {
		return err
	}
	a, err := service.Encode(moduleDetailDoc{
		moduleDoc: m.newDoc(r.at, l, mv), Root: newDirDoc(description.Root), Versions: l.Listed, Providers: []string{r.at.System},
		Submodules: newDirDocs(description.Submodules), Examples: newDirDocs(description.Examples),
	})
	if err != nil {
		return err
	}
	a.Write(w, r.Request, cacheControl(r.grant))
	return nil
}

func newDirDocs(list []artifact.DescribedModule) []moduleDirDoc {
	docs := make([]moduleDirDoc, 0, len(list))
	for _, d := range list {
		docs = append(docs, newDirDoc(d))
	}
	return docs
}

func newDirDoc(d artifact.DescribedModule) moduleDirDoc {
	doc := moduleDirDoc{
		Path: d.Path, Name: d.Path[strings.LastIndexByte(d.Path, '/')+1:], Inputs: inputDocs(d),
		Outputs: make([]moduleOutputDoc, 0, len(d.Outputs)), Dependencies: nonNil(d.ModuleCalls), Resources: nonNil(d.Resources),
		ProviderDependencies: make([]moduleRequirementDoc, 0, len(d.RequiredProviders)),
	}
	if d.Readme != nil {
		doc.Readme = d.Readme.Text
	}
	for _, o := range d.Outputs {
		doc.Outputs = append(doc.Outputs, moduleOutputDoc{o.Name, o.Description})
	}
	for _, p := range d.RequiredProviders {
		doc.ProviderDependencies = append(doc.ProviderDependencies, moduleRequirementDoc{p.Name, p.Source, strings.Join(p.Versions, ", ")})
	}
	doc.Empty = len(doc.Inputs)+len(doc.Outputs)+len(doc.Dependencies)+len(doc.Resources) == 0
	return doc
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func inputDocs(d artifact.DescribedModule) []moduleInputDoc {
	docs := []moduleInputDoc{}
	for _, v := range d.Variables() {
		docs = append(docs, moduleInputDoc{v.Name, v.Type, v.Description, v.Default, v.Required})
	}
	return docs
}
