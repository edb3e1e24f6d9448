// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/oci"
)

// templateArtifact is what was read last of a template in the registry.
type templateArtifact struct {
	template *template.Template
	from     string
}

// readArtifacts adds what the registry has and a source lets in. A file of the
// same name wins.
func (t *Templates) readArtifacts(ctx context.Context, found map[string]*Entry) []TemplateProblem {
	if len(t.o.Sources) == 0 {
		return nil
	}
	var problems []TemplateProblem
	names, err := t.published(ctx)
	if err != nil {
		problems = append(problems, TemplateProblem{"catalog", fmt.Sprintf("templates cannot be listed: %v", err)})
		names = slices.Sorted(maps.Keys(t.artifacts))
	}
	now := map[string]templateArtifact{}
	for _, name := range names {
		source, ok := t.source(name)
		if _, file := found[name]; file || !ok {
			continue
		}
		a, err := t.readArtifact(ctx, name, source)
		if err != nil {
			problems = append(problems, TemplateProblem{name, fmt.Sprintf("template %s: %v", name, strings.TrimPrefix(err.Error(), "template "+name+": "))})
			if a, ok = t.artifacts[name]; !ok || withdrawn(err) {
				continue
			}
		}
		now[name] = a
		found[name] = &Entry{Template: a.template, From: a.from}
	}
	t.artifacts = now
	return problems
}

// withdrawn reports whether a version is served to nobody any more.
func withdrawn(err error) bool {
	_, refused := errors.AsType[*catalog.RefusedError](err)
	return refused || errors.Is(err, oci.ErrNotFound)
}

// source is the first one that lets a template in.
func (t *Templates) source(name string) (TemplateSource, bool) {
	i := slices.IndexFunc(t.o.Sources, func(s TemplateSource) bool { return addr.Match(s.Templates, name) })
	if i < 0 {
		return TemplateSource{}, false
	}
	return t.o.Sources[i], true
}

// published names the templates of the catalog, and those that a source names
// without a star.
func (t *Templates) published(ctx context.Context) ([]string, error) {
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

func (t *Templates) readArtifact(ctx context.Context, name string, source TemplateSource) (templateArtifact, error) {
	it := addr.Item{Kind: addr.KindTemplate, Template: name}
	versions, err := t.o.Catalog.Versions(ctx, it)
	if err != nil {
		return templateArtifact{}, err
	}
	v, ok := versions.Highest(source.Versions.Allows)
	if !ok {
		return templateArtifact{}, fmt.Errorf("no version fits %q: %w", source.Versions, oci.ErrNotFound)
	}
	m, body, err := t.o.Catalog.TemplateVersion(ctx, name, v)
	if err != nil {
		return templateArtifact{}, err
	}
	from := fmt.Sprintf("%s:%s@%s", versions.Repository, v.Tag(), m.Manifest.Digest)
	if before := t.artifacts[name]; before.from == from {
		return before, nil
	}
	known := template.Known{Credentials: append([]string{}, source.Credentials...), Config: t.o.Known.Config}
	tmpl, err := template.ParseCanonical(body, known)
	if err != nil {
		return templateArtifact{}, err
	}
	if err := source.admits(name, tmpl); err != nil {
		return templateArtifact{}, err
	}
	if source.Max > 0 {
		tmpl.Max = min(cmp.Or(tmpl.Max, source.Max), source.Max)
	}
	return templateArtifact{tmpl, from}, nil
}

// admits refuses a template that is another one, or takes what is not lent to it.
func (s TemplateSource) admits(name string, t *template.Template) error {
	modules := s.Modules
	if len(modules) == 0 {
		namespace, _, _ := strings.Cut(name, "/")
		modules = []string{namespace + "/*/*"}
	}
	switch {
	case t.Name != name:
		return fmt.Errorf("it is the template %s", t.Name)
	case t.Executor != template.ExecutorLocal:
		return fmt.Errorf("template_source %q does not let it use the executor %s", s.Templates, t.Executor)
	case !slices.ContainsFunc(modules, func(glob string) bool { return addr.Match(glob, t.Module.Address) }):
		return fmt.Errorf("template_source %q does not let it use the module %s", s.Templates, t.Module.Address)
	}
	for _, credential := range t.Credentials {
		if !slices.Contains(s.Credentials, credential) {
			return fmt.Errorf("template_source %q does not lend it the credential %s", s.Templates, credential)
		}
	}
	return nil
}
