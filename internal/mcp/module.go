// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci/artifact"
)

type moduleIn struct {
	Address string `json:"address" desc:"NAMESPACE/NAME/SYSTEM, with @VERSION or @CONSTRAINT; without it the newest release"`
	Path    string `json:"path,omitempty" desc:"a submodule or example"`
	Filter  string `json:"filter,omitempty" desc:"words in names and descriptions of inputs and outputs, which are then complete"`
	Section string `json:"section,omitempty" desc:"words of a heading of the README, or all: its text instead of inputs and outputs"`
	Page    int    `json:"page,omitempty"`
}

type moduleOut struct {
	Address     string       `json:"address"`
	Version     string       `json:"version"`
	Newest      string       `json:"newest,omitempty"`
	Status      string       `json:"status,omitempty" desc:"deprecated or withdrawn, why, what to use instead"`
	Source      string       `json:"source" desc:"for the module block"`
	Constraint  string       `json:"constraint,omitempty" desc:"the same, for version"`
	Description string       `json:"description,omitempty"`
	Example     string       `json:"example,omitempty" desc:"module block with the required inputs"`
	Requires    []string     `json:"requires,omitempty" desc:"versions of the tool and of providers"`
	Parts       []modulePart `json:"parts,omitempty" desc:"required inputs, outputs, optional inputs"`
	Submodules  []string     `json:"submodules,omitempty"`
	Examples    []string     `json:"examples,omitempty"`
	Sections    []string     `json:"sections,omitempty" desc:"of the README"`
	Text        string       `json:"text,omitempty" desc:"of the README"`
	paged
}

type modulePart struct {
	Input       string   `json:"input,omitempty" desc:"its name, or"`
	Output      string   `json:"output,omitempty" desc:"its name"`
	Type        string   `json:"type,omitempty"`
	Required    bool     `json:"required,omitempty"`
	Default     string   `json:"default,omitempty" desc:"as JSON"`
	Description string   `json:"description,omitempty" desc:"of an optional input only with filter"`
	Validation  []string `json:"validation,omitempty" desc:"conditions"`
	Sensitive   bool     `json:"sensitive,omitempty"`
	Deprecated  string   `json:"deprecated,omitempty"`
}

func showModule(ctx context.Context, s Source, in moduleIn) (out moduleOut, err error) {
	c, err := findItem(ctx, s, in.Address, addr.KindModule)
	if err != nil {
		return out, err
	}
	v, err := c.chooseVersion(c.Versions)
	if err != nil {
		return out, err
	}
	d, layout, dir, err := describeModule(ctx, s, c.Module, v)
	if err != nil {
		return out, err
	}
	out = moduleOut{Address: c.Item.String(), Version: v.String(), Newest: c.newest, Status: cleanLine(c.list.Status(v).Text(), 600)}
	at := d.Root
	name := c.Module.Name
	if in.Path = cmp.Or(in.Path, d.Below()); in.Path != "" {
		all := slices.Concat(d.Submodules, d.Examples)
		i := slices.IndexFunc(all, func(m artifact.DescribedModule) bool { return m.Path == in.Path })
		if i < 0 {
			return out, &wrongError{"the module has no such path; it has " + strings.Join(pathsOf(all), ", ")}
		}
		at = all[i]
		name = path.Base(in.Path)
	}
	out.Source, out.Constraint = s.sourceOf(layout, c.Item, v, path.Join(dir, in.Path))
	readme := ""
	if at.Readme != nil {
		readme = at.Readme.Text
	}
	titles, lines, err := chooseSection(readme, strings.TrimPrefix(in.Section, "all"))
	if err != nil {
		return out, err
	}
	if in.Section != "" {
		lines, out.paged, err = fitPage(out, lines, in.Page)
		out.Text = strings.Join(lines, "\n")
		return out, err
	}
	if in.Filter == "" {
		out.Sections = titles
		out.Description = cleanLine(catalog.FirstWords(readme), 300)
		out.Example = text.Clip(description.ModuleBlock(name, out.Source, out.Constraint, at.Variables()), 500)
		out.Submodules = pathsOf(d.Submodules)
		out.Examples = pathsOf(d.Examples)
		out.Requires = boundNames(requirementsOf(at), 300)
	}
	out.Parts, out.paged, err = fitPage(out, matchingParts(at, in.Filter), in.Page)
	return out, err
}

// describeModule returns what a version says of itself, and where it is in the registry.
func describeModule(ctx context.Context, s Source, m addr.Module, v addr.Version) (d artifact.ModuleDescription, l addr.Layout, dir string, err error) {
	from, err := s.Open(ctx, m.Item(), v)
	if err != nil {
		return d, l, "", err
	}
	mv, err := from.ModuleVersion(ctx, m, v)
	if err != nil {
		return d, l, "", err
	}
	if s.Host == "" {
		dir = strings.TrimPrefix(mv.Suffix(), "//") // a front-end knows it
	}
	d, err = from.Description(ctx, mv)
	return d, from.Layout(), dir, err
}

func pathsOf(all []artifact.DescribedModule) (paths []string) {
	for _, m := range all {
		paths = append(paths, m.Path)
	}
	return boundNames(paths, 300)
}

func requirementsOf(at artifact.DescribedModule) []string {
	all := slices.Clone(at.RequiredVersion)
	for _, p := range at.RequiredProviders {
		if !p.BuiltIn() {
			all = append(all, strings.TrimSpace(cmp.Or(p.Source, p.Name)+" "+strings.Join(p.Versions, ", ")))
		}
	}
	return all
}

// matchingParts returns inputs and outputs with all words in name or description. Without any, of
// optional inputs only what is short.
func matchingParts(at artifact.DescribedModule, filter string) []modulePart {
	words := strings.Fields(strings.ToLower(filter))
	matches := func(name, about string) bool {
		where := strings.ToLower(name + " " + strings.ReplaceAll(name, "_", " ") + " " + about)
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(where, w) })
	}
	var required, optional, outputs []modulePart
	for _, v := range at.Variables() {
		if !matches(v.Name, v.Description) {
			continue
		}
		p := modulePart{Input: cleanLine(v.Name, 100), Type: cleanLine(description.TypeLine(v.Type), 300), Required: v.Required, Default: cleanLine(string(v.Default), 200), Sensitive: v.Sensitive}
		if v.Deprecated {
			p.Deprecated = cmp.Or(cleanLine(v.Advice, 200), "yes")
		}
		if v.Required || filter != "" {
			p.Description = cleanLine(v.Description, 300)
			for _, rule := range v.Validation[:min(3, len(v.Validation))] {
				p.Validation = append(p.Validation, cleanLine(rule, 200))
			}
		}
		if v.Required {
			required = append(required, p)
		} else {
			optional = append(optional, p)
		}
	}
	for _, o := range at.Outputs {
		if matches(o.Name, o.Description) {
			outputs = append(outputs, modulePart{Output: cleanLine(o.Name, 100), Description: cleanLine(o.Description, 200), Sensitive: o.Sensitive})
		}
	}
	return slices.Concat(required, outputs, optional)
}
