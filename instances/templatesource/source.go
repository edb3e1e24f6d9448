// SPDX-License-Identifier: Apache-2.0

package templatesource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// maxTemplateFiles bounds a folder of templates.
const maxTemplateFiles = 1000

// templateFile is the last content read of a file.
type templateFile struct {
	read      bool // text is the file's content; else it could not be read
	text      string
	templates []*template.Template // of the last text without errors
	problem   string               // with the file or its text; "": none
}

// readFiles adds the templates of the folder, file by file in the order of their names.
// The first of two templates with the same name counts.
func (t *Templates) readFiles(found map[string]*template.Entry) []template.Problem {
	if t.o.Dir == "" {
		return nil
	}
	var problems []template.Problem
	names, err := Files(t.o.Dir)
	if err != nil {
		problems = append(problems, template.Problem{From: t.o.Dir, Text: err.Error()})
		names = slices.Sorted(maps.Keys(t.files))
	}
	now := map[string]templateFile{}
	for _, name := range names {
		f := t.files[name]
		if err == nil {
			f = t.readFile(name)
		}
		now[name] = f
		if f.problem != "" {
			problems = append(problems, template.Problem{From: name, Text: f.problem})
		}
		for _, tmpl := range f.templates {
			if first, ok := found[tmpl.Name]; ok {
				problems = append(problems, template.Problem{From: name, Text: fmt.Sprintf("template %s: %s:1: duplicate of the one in use in %s", tmpl.Name, name, first.From)})
				continue
			}
			found[tmpl.Name] = &template.Entry{Template: tmpl, From: name}
		}
	}
	t.files = now
	return problems
}

// Files returns the template files in a folder.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if path.Ext(e.Name()) == ".hcl" && !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	if len(names) > maxTemplateFiles {
		return nil, fmt.Errorf("%s has %d template files, the limit is %d", dir, len(names), maxTemplateFiles)
	}
	return names, nil
}

// readFile parses a file that has changed, and otherwise returns the earlier result.
func (t *Templates) readFile(name string) templateFile {
	before := t.files[name]
	b, err := ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return templateFile{} // deleted after the folder was listed
	}
	if err != nil {
		return templateFile{templates: before.templates, problem: err.Error()}
	}
	if before.read && before.text == string(b) {
		return before
	}
	list, err := template.Parse(b, name, t.o.Known)
	if err != nil {
		return templateFile{true, string(b), before.templates, err.Error()}
	}
	return templateFile{true, string(b), list, ""}
}

// ReadFile reads a regular file, up to slightly more than the maximum size of a template file.
func ReadFile(name string) ([]byte, error) {
	info, err := os.Stat(name) // before opening it: a pipe would block
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, template.MaxFile+1))
}

// templateArtifact is the last content read of a template in the registry.
type templateArtifact struct {
	template *template.Template
	from     string
}

// readArtifacts adds the templates in the registry that a source admits. A file with the
// same template name takes precedence.
func (t *Templates) readArtifacts(ctx context.Context, found map[string]*template.Entry) []template.Problem {
	if len(t.o.Sources) == 0 {
		return nil
	}
	var problems []template.Problem
	names, err := t.publishedTemplates(ctx)
	if err != nil {
		problems = append(problems, template.Problem{From: "catalog", Text: fmt.Sprintf("templates cannot be listed: %v", err)})
		names = slices.Sorted(maps.Keys(t.artifacts))
	}
	now := map[string]templateArtifact{}
	for _, name := range names {
		source, ok := t.sourceOf(name)
		if _, file := found[name]; file || !ok {
			continue
		}
		a, err := t.readArtifact(ctx, name, source)
		if err != nil {
			problems = append(problems, template.Problem{From: name, Text: fmt.Sprintf("template %s: %v", name, strings.TrimPrefix(err.Error(), "template "+name+": "))})
			if a, ok = t.artifacts[name]; !ok || isWithdrawn(err) {
				continue
			}
		}
		now[name] = a
		found[name] = &template.Entry{Template: a.template, From: a.from}
	}
	t.artifacts = now
	return problems
}

// isWithdrawn reports whether a version is no longer served.
func isWithdrawn(err error) bool {
	_, refused := errors.AsType[*catalog.RefusedError](err)
	return refused || errors.Is(err, oci.ErrNotFound)
}

func (t *Templates) sourceOf(name string) (Source, bool) {
	i := slices.IndexFunc(t.o.Sources, func(s Source) bool { return addr.Match(s.Templates, name) })
	if i < 0 {
		return Source{}, false
	}
	return t.o.Sources[i], true
}

// publishedTemplates returns the templates of the catalog, and those that a source names without a
// wildcard.
func (t *Templates) publishedTemplates(ctx context.Context) ([]string, error) {
	index, err := t.o.Catalog.Published(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, e := range index.Entries {
		if _, _, err := addr.ParseTemplate(e.Address); e.Kind == addr.KindTemplate && err == nil {
			found[e.Address] = true
		}
	}
	for _, s := range t.o.Sources {
		if !strings.Contains(s.Templates, "*") {
			found[s.Templates] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func (t *Templates) readArtifact(ctx context.Context, name string, source Source) (templateArtifact, error) {
	it := addr.Item{Kind: addr.KindTemplate, Template: name}
	versions, err := t.o.Catalog.Versions(ctx, it)
	if err != nil {
		return templateArtifact{}, err
	}
	v, ok := versions.Highest(source.Versions.Allows)
	if !ok {
		return templateArtifact{}, fmt.Errorf("no version matches %q: %w", source.Versions, oci.ErrNotFound)
	}
	m, body, err := t.o.Catalog.TemplateVersion(ctx, name, v)
	if err != nil {
		return templateArtifact{}, err
	}
	from := fmt.Sprintf("%s:%s@%s", versions.Listing.Repository, v.Tag(), m.Manifest.Digest)
	if before := t.artifacts[name]; before.from == from {
		return before, nil
	}
	known := template.Known{Credentials: append([]string{}, source.Credentials...), Config: t.o.Known.Config}
	tmpl, err := template.ParseCanonical(body, known)
	if err != nil {
		return templateArtifact{}, err
	}
	if err := source.checkAdmits(name, tmpl); err != nil {
		return templateArtifact{}, err
	}
	if source.Max > 0 {
		tmpl.Max = min(cmp.Or(tmpl.Max, source.Max), source.Max)
	}
	return templateArtifact{tmpl, from}, nil
}

// checkAdmits refuses a template with another name, and one that uses what the source does not
// allow.
func (s Source) checkAdmits(name string, t *template.Template) error {
	modules := s.Modules
	if len(modules) == 0 {
		namespace, _, _ := strings.Cut(name, "/")
		modules = []string{namespace + "/*/*"}
	}
	switch {
	case t.Name != name:
		return fmt.Errorf("contains template %s", t.Name)
	case t.Executor != template.ExecutorLocal:
		return fmt.Errorf("template_source %q does not allow the executor %s", s.Templates, t.Executor)
	case !slices.ContainsFunc(modules, func(glob string) bool { return addr.Match(glob, t.Module.Address) }):
		return fmt.Errorf("template_source %q does not allow the module %s", s.Templates, t.Module.Address)
	}
	for _, credential := range t.Credentials {
		if !slices.Contains(s.Credentials, credential) {
			return fmt.Errorf("template_source %q does not allow the credential %s", s.Templates, credential)
		}
	}
	return nil
}

// Pin returns a template with the module version that a caller names, which the template must
// allow. "" means the version of [Templates.Current]. An unknown template is lifecycle.ErrNotFound.
func (t *Templates) Pin(ctx context.Context, name, version string) (*template.Entry, error) {
	e, ok := t.Current(name)
	switch {
	case !ok:
		return nil, fmt.Errorf("template %s: %w", name, lifecycle.ErrNotFound)
	case version == "" || version == e.Source.Version:
		return e, nil
	}
	v, err := addr.ParseVersion(version)
	if err != nil {
		return nil, badVersion("must be a version such as 1.2.3")
	}
	ref := e.Template.Module
	if !allowsVersion(ref, v) {
		return nil, badVersion("the template allows %s", ref.Version)
	}
	ref.Version = v.String()
	source, module, err := Resolve(ctx, t.o.Catalog, ref)
	if errors.Is(err, oci.ErrNotFound) {
		return nil, badVersion("the module has no version %s", v)
	}
	if err != nil {
		return nil, err
	}
	pinned := *e
	pinned.Source = source
	pinned.Problem = ""
	pinned.Cause = ""
	pinned.Behind = ""
	if pinned.Schema, err = t.newSchema(e.Template, module); err != nil {
		return nil, badVersion("version %s of the module is not compatible with the template: %v", v, err)
	}
	return &pinned, nil
}

// badVersion refuses the version that a caller named.
func badVersion(format string, args ...any) error {
	return &template.FieldError{Path: "/version", Text: fmt.Sprintf(format, args...)}
}

// maxVersions bounds how many versions of a module are offered.
const maxVersions = 50

// Versions returns the module versions that a template allows, highest first. It returns
// none if launches cannot choose one: the template pins a digest, or has a pool.
func (t *Templates) Versions(ctx context.Context, name string) ([]string, error) {
	e, ok := t.Current(name)
	if !ok {
		return nil, fmt.Errorf("template %s: %w", name, lifecycle.ErrNotFound)
	}
	ref := e.Template.Module
	if ref.Pinned() || e.Template.Pool != nil {
		return nil, nil
	}
	m, err := addr.ParseModule(ref.Address)
	if err != nil {
		return nil, err
	}
	list, err := t.o.Catalog.Versions(ctx, m.Item())
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", m, err)
	}
	fits := allowedVersions(ref, list.Listed)
	var versions []string
	for _, v := range fits[:min(len(fits), maxVersions)] {
		versions = append(versions, v.String())
	}
	return versions, nil
}

func allowsVersion(ref template.ModuleRef, v addr.Version) bool {
	if ref.Pinned() {
		return false
	}
	fits, err := addr.ParseConstraint(ref.Version)
	return err == nil && fits.Allows(v)
}

// allowedVersions returns the listed versions that a template allows, highest first.
func allowedVersions(ref template.ModuleRef, listed []addr.Version) []addr.Version {
	fits := slices.DeleteFunc(slices.Clone(listed), func(v addr.Version) bool { return !allowsVersion(ref, v) })
	slices.SortFunc(fits, func(a, b addr.Version) int { return b.Compare(a) })
	return fits
}

// Compare compares the descriptions of two versions of a module.
func (t *Templates) Compare(ctx context.Context, was, is api.Source) ([]description.Difference, error) {
	var sides [2]artifact.DescribedModule
	for i, source := range []api.Source{was, is} {
		m, err := addr.ParseModule(source.Module)
		if err != nil {
			return nil, err
		}
		v, err := addr.ParseVersion(source.Version)
		if err != nil {
			return nil, err
		}
		mv, err := t.o.Catalog.ModuleVersion(ctx, m, v)
		if err != nil {
			return nil, err
		}
		if have := mv.Manifest.Digest.String(); have != source.Digest {
			return nil, fmt.Errorf("module %s %s has the digest %s now, not %s", m, v, have, source.Digest)
		}
		d, err := t.o.Catalog.Description(ctx, mv)
		if err != nil {
			return nil, err
		}
		if sides[i], err = describedModule(d, source.Path); err != nil {
			return nil, fmt.Errorf("module %s %s: %w", m, v, err)
		}
	}
	return description.CompareModules(sides[0], sides[1]), nil
}
