// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci/artifact"
)

type modules struct {
	answer   Modules
	verified bool               // every served module fulfils a policy
	counts   *downloads.Counter // downloads
}

type moduleVersionsDoc struct {
	Modules []moduleVersionList `json:"modules"`
}

type moduleVersionList struct {
	Source   string               `json:"source,omitempty"` // of the latest version
	Versions []moduleVersionEntry `json:"versions"`
}

type moduleVersionEntry struct {
	Version     addr.Version `json:"version"`
	PublishedAt string       `json:"published_at,omitempty"`
	Deprecated  string       `json:"deprecated,omitempty"` // why; tools ignore it, okara tofu prints it
}

// serveVersions lists every version, also editions: clients select a pre-release only by an exact
// constraint, so these hide no other version.
func (m *modules) serveVersions(w http.ResponseWriter, r call[addr.Module]) error {
	l, err := r.catalog.Versions(r.Context(), r.at.Item())
	if err != nil {
		return orNotFound(err, "module %s", r.at)
	}
	const form = "module"
	whole := true
	a, err := encodedOnce(&l.Derived, form, 0, func() (any, error) {
		list := moduleVersionList{Versions: make([]moduleVersionEntry, 0, len(l.Listed))}
		for _, v := range l.Listed {
			e := moduleVersionEntry{Version: v, PublishedAt: publishedAt(l.Listing.Published(v, nil))}
			if s := l.Listing.Status(v); s.Deprecated != nil {
				e.Deprecated = "deprecated" + s.Deprecated.Because()
			}
			list.Versions = append(list.Versions, e)
		}
		// Update bots look for release notes there. This reads only the version most likely
		// requested next, and its failure does not fail the request.
		if v, ok := l.Latest(); ok {
			mv, err := r.catalog.ModuleVersion(r.Context(), r.at, v)
			if whole = err == nil; whole {
				list.Source = mv.Annotations[artifact.AnnSource]
			}
		}
		return moduleVersionsDoc{Modules: []moduleVersionList{list}}, nil
	})
	if err != nil {
		return err
	}
	if !whole { // the next request tries again
		l.Derived.Delete(form)
	}
	a.Write(w, r.Request, cacheControl(r.grant))
	return nil
}

// Modules configures how module downloads are answered.
type Modules struct {
	// Answer is "portable" (default), which every client supports, "oci" or "direct", for newer
	// OpenTofu by its User-Agent. oci sends it to the registry itself, for which it needs https and
	// credentials of its own; direct makes it send its token with the archive request.
	Answer string
	// Registry is the HOST[:PORT] by which clients reach the registry, for oci.
	Registry string
}

func (m Modules) validate() error {
	switch m.Answer {
	case "", "portable", "direct":
		return nil
	case "oci":
		if m.Registry == "" {
			return errors.New("modules: the answer oci requires the host name of the registry")
		}
		return nil
	}
	return fmt.Errorf("modules: invalid answer %q: must be portable, oci or direct", m.Answer)
}

// download returns the location of the archive in a header, without a body, which all versions of
// OpenTofu and Terraform accept; a 200 without JSON fails in OpenTofu. The fetcher of both takes
// the checksum from the address and refuses an archive that does not match it.
func (m *modules) download(w http.ResponseWriter, r call[addr.ModuleVersion]) error {
	mv, err := r.catalog.ModuleVersion(r.Context(), r.at.Module, r.at.Version)
	if err != nil {
		return orNotFound(err, "module %s %s", r.at.Module, r.at.Version)
	}
	b := blobName{
		Repository: mv.Repository,
		Hex:        mv.Zip.Digest.Encoded(),
		File:       moduleFile(r.at.Module, r.at.Version),
	}
	h := w.Header()
	root := r.links.root(r.Request)
	h.Set("X-Terraform-Get", root+moduleLink(r.links, mv, b)+mv.Suffix()+"?checksum="+mv.Zip.Digest.String())
	h.Set("Cache-Control", r.links.cacheControl(r.grant, root))
	if dir := mv.Annotations[artifact.AnnModuleDir]; fs.ValidPath(dir) {
		h.Set(upstream.ModuleDirHeader, url.PathEscape(dir))
	}
	if m.answer.Answer == "" || m.answer.Answer == "portable" {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	h.Set("Vary", "Authorization, User-Agent")
	doc := m.answer.location(r.UserAgent(), root, b, mv)
	if doc == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

type madeLink struct {
	path string
	exp  int64
}

// moduleLink returns the path of the zip, signed again only when the expiry of links changes.
func moduleLink(l *links, mv *catalog.ModuleVersion, b blobName) string {
	exp := l.linkExpiry()
	if kept, ok := mv.Derived.Load(madeLink{}); ok && kept.(*madeLink).exp == exp {
		return kept.(*madeLink).path
	}
	made := &madeLink{path: l.signedPath(b, exp), exp: exp}
	mv.Derived.Store(madeLink{}, made)
	return made.path
}

type moduleLocationDoc struct {
	Location       string `json:"location"`
	UseCredentials bool   `json:"use_registry_credentials,omitempty"`
}

// location returns the answer for a client that supports more than the portable form; else nil.
func (m Modules) location(agent, root string, b blobName, mv *catalog.ModuleVersion) *moduleLocationDoc {
	major, minor, ok := openTofu(agent)
	newer := func(want int) bool { return ok && (major > 1 || major == 1 && minor >= want) }
	switch {
	case m.Answer == "oci" && newer(10):
		return &moduleLocationDoc{Location: "oci://" + m.Registry + "/" + b.Repository + mv.Suffix() + "?digest=" + mv.Manifest.Digest.String()}
	case m.Answer == "direct" && newer(12):
		return &moduleLocationDoc{Location: root + linkPath(authToken, b) + mv.Suffix(), UseCredentials: true}
	}
	return nil
}

// openTofu parses the version in "OpenTofu/1.12.6".
func openTofu(agent string) (major, minor int, ok bool) {
	rest, ok := strings.CutPrefix(agent, "OpenTofu/")
	if !ok {
		return 0, 0, false
	}
	n, err := fmt.Sscanf(rest, "%d.%d.", &major, &minor)
	return major, minor, err == nil && n == 2
}

func (m *modules) redirectLatest(w http.ResponseWriter, r call[addr.Module]) error {
	l, err := r.catalog.Versions(r.Context(), r.at.Item())
	if err != nil {
		return orNotFound(err, "module %s", r.at)
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

// moduleInputDoc has its default as a string of JSON, like the public registry; "": there is none.
type moduleInputDoc struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description"`
	Default     string `json:"default"`
	Required    bool   `json:"required"`
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

// serveDetail describes one version, as its publication did.
func (m *modules) serveDetail(w http.ResponseWriter, r call[addr.ModuleVersion]) error {
	l, err := r.catalog.Versions(r.Context(), r.at.Module.Item())
	if err != nil {
		return orNotFound(err, "module %s", r.at.Module)
	}
	mv, err := r.catalog.ModuleVersion(r.Context(), r.at.Module, r.at.Version)
	if err != nil {
		return orNotFound(err, "module %s %s", r.at.Module, r.at.Version)
	}
	return m.describeModule(w, r, l, mv)
}

func (m *modules) latestDetail(w http.ResponseWriter, r call[addr.Module]) error {
	l, v, mv, err := r.catalog.LatestModule(r.Context(), r.at)
	if err != nil {
		return orNotFound(err, "module %s", r.at)
	}
	return m.describeModule(w, call[addr.ModuleVersion]{r.Request, r.view, addr.ModuleVersion{Module: r.at, Version: v}, r.grant}, l, mv)
}

func (m *modules) describeModule(w http.ResponseWriter, r call[addr.ModuleVersion], l *catalog.Versions, mv *catalog.ModuleVersion) error {
	description, err := r.catalog.Description(r.Context(), mv)
	if err != nil {
		return err
	}
	return service.Send(w, r.Request, cacheControl(r.grant), moduleDetailDoc{
		moduleDoc: m.newDoc(r.at, l, mv), Root: newDirDoc(description.Root), Versions: l.Listed, Providers: []string{r.at.System},
		Submodules: newDirDocs(description.Submodules), Examples: newDirDocs(description.Examples),
	})
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
		docs = append(docs, moduleInputDoc{v.Name, v.Type, v.Description, string(v.Default), v.Required})
	}
	return docs
}
