// SPDX-License-Identifier: Apache-2.0

package description

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/terraform-config-inspect/tfconfig"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const (
	MaxDescription = 1 << 20
	maxReadme      = 256 << 10
	cutReadme      = 16 << 10 // bytes kept of each readme if the description is too large
	maxLicense     = 64 << 10
)

// Describe returns the description of the module in dir, its submodules
// (modules/*) and examples (examples/*).
func (v *Module) Describe(m addr.ModuleVersion, dir string) artifact.ModuleDescription {
	d := artifact.ModuleDescription{SchemaVersion: 1, Address: m.Module.String(), Version: m.Version.String()}
	root := path.Clean(dir)
	d.Root = v.describeFolder(root, root, &d)
	for _, sub := range slices.Sorted(maps.Keys(v.dirs)) {
		rel := sub
		if root != "." {
			rel = strings.TrimPrefix(sub, root+"/")
		}
		switch path.Dir(rel) {
		case "modules":
			d.Submodules = append(d.Submodules, v.describeFolder(root, sub, &d))
		case "examples":
			d.Examples = append(d.Examples, v.describeFolder(root, sub, &d))
		}
	}
	d.License = v.findLicense(root)
	return d
}

// describeFolder describes one directory; problems are added to d.
func (v *Module) describeFolder(root, dir string, d *artifact.ModuleDescription) artifact.DescribedModule {
	m, diags := v.load(dir)
	read := cmp.Or(v.folderAt(dir), &folder{module: m})
	if _, ok := v.dirs[dir]; !ok {
		diags = nil // only modules below it
	}
	for _, p := range diags {
		problem := artifact.DescribedProblem{Severity: "error", Summary: p.Summary}
		if p.Severity == tfconfig.DiagWarning {
			problem.Severity = "warning"
		}
		if p.Pos != nil {
			problem.Path = p.Pos.Filename
			problem.Line = p.Pos.Line
		}
		d.Diagnostics = append(d.Diagnostics, problem)
	}
	out := read.describeFiles()
	out.Readme = v.findReadme(dir)
	out.OnlyFor = v.onlyFor(dir)
	if dir != root {
		out.Path = strings.TrimPrefix(dir, root+"/")
	}
	if read.other != nil {
		other := read.other.describeFiles()
		out.Terraform = &other
	}
	return out
}

// describeFiles returns the declarations as a description has them.
func (f *folder) describeFiles() artifact.DescribedModule {
	m := f.module
	out := artifact.DescribedModule{
		Inputs:          inputSchema(m, f.flags),
		InputOrder:      inputOrder(m),
		RequiredVersion: m.RequiredCore,
		CompatibleWith:  f.tools,
		Moved:           f.moved,
	}
	for _, name := range slices.Sorted(maps.Keys(m.Outputs)) {
		o := m.Outputs[name]
		out.Outputs = append(out.Outputs, artifact.DescribedOutput{Name: name, Description: o.Description, Sensitive: o.Sensitive, Ephemeral: f.outputs[name].ephemeral, Type: f.outputs[name].typeText, Deprecated: o.Deprecated})
	}
	for _, name := range slices.Sorted(maps.Keys(m.RequiredProviders)) {
		p := m.RequiredProviders[name]
		described := artifact.DescribedProvider{Name: name, Source: p.Source, Versions: p.VersionConstraints}
		for _, alias := range p.ConfigurationAliases {
			described.Aliases = append(described.Aliases, alias.Name+"."+alias.Alias)
		}
		out.RequiredProviders = append(out.RequiredProviders, described)
	}
	for _, resources := range []map[string]*tfconfig.Resource{m.ManagedResources, m.DataResources} {
		for _, key := range slices.Sorted(maps.Keys(resources)) {
			r := resources[key]
			out.Resources = append(out.Resources, artifact.DescribedResource{Mode: r.Mode.String(), Type: r.Type, Name: r.Name})
		}
	}
	for _, at := range slices.Sorted(maps.Keys(f.uses)) {
		if words := strings.SplitN(at, ".", 3); words[0] == "ephemeral" || words[0] == "action" {
			out.Resources = append(out.Resources, artifact.DescribedResource{Mode: words[0], Type: words[1], Name: words[2]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.ModuleCalls)) {
		c := m.ModuleCalls[name]
		out.ModuleCalls = append(out.ModuleCalls, artifact.DescribedCall{Name: name, Source: c.Source, Version: c.Version})
	}
	return out
}

func inputOrder(m *tfconfig.Module) []string {
	variables := slices.SortedFunc(maps.Values(m.Variables), func(a, b *tfconfig.Variable) int {
		return cmp.Or(strings.Compare(a.Pos.Filename, b.Pos.Filename), cmp.Compare(a.Pos.Line, b.Pos.Line), strings.Compare(a.Name, b.Name))
	})
	var names []string
	for _, variable := range variables {
		names = append(names, variable.Name)
	}
	return names
}

// findReadme returns the readme in dir, cut to a size that fits into a registry.
func (v *Module) findReadme(dir string) *artifact.DescribedReadme {
	name, text := v.readFirst(dir, maxReadme, "readme.md", "readme.markdown", "readme")
	if name == "" {
		return nil
	}
	r := &artifact.DescribedReadme{Path: name, Text: text}
	shortenReadme(r, maxReadme)
	return r
}

// shortenReadme shortens a readme to at most limit bytes and marks it as shortened.
func shortenReadme(r *artifact.DescribedReadme, limit int) {
	if r == nil || len(r.Text) <= limit {
		return
	}
	r.Text = r.Text[:limit]
	r.Truncated = true
	for len(r.Text) > 0 && !utf8.ValidString(r.Text[max(0, len(r.Text)-utf8.UTFMax):]) {
		r.Text = r.Text[:len(r.Text)-1]
	}
}

// readFirst returns the first existing file of names, ignoring case, and slightly
// more than limit bytes of it.
func (v *Module) readFirst(dir string, limit int64, names ...string) (name, text string) {
	for _, want := range names {
		for _, file := range slices.Sorted(maps.Keys(v.all)) {
			if path.Dir(file) != dir || !strings.EqualFold(path.Base(file), want) {
				continue
			}
			f, err := v.tree.Open(file)
			if err != nil {
				continue
			}
			b, err := io.ReadAll(io.LimitReader(f, limit+utf8.UTFMax))
			f.Close()
			if err == nil {
				return file, strings.ToValidUTF8(string(b), "\uFFFD")
			}
		}
	}
	return "", ""
}

// findLicense finds the licence file and identifies the licence if it is a common one.
func (v *Module) findLicense(dir string) *artifact.DescribedLicense {
	name, text := v.readFirst(dir, maxLicense, "license", "license.md", "license.txt", "copying")
	if name == "" {
		return nil
	}
	text = strings.Join(strings.Fields(text), " ")
	spdx := ""
	for _, known := range [][2]string{
		{"Apache License Version 2.0", "Apache-2.0"}, {"Mozilla Public License Version 2.0", "MPL-2.0"},
		{"Mozilla Public License, version 2.0", "MPL-2.0"}, {"Permission is hereby granted, free of charge", "MIT"},
	} {
		if spdx == "" && strings.Contains(text, known[0]) {
			spdx = known[1]
		}
	}
	return &artifact.DescribedLicense{Path: name, SPDX: spdx}
}

// EncodeDescription encodes d with sorted keys and without white space, and shortens it to its
// limit: first the readmes, then everything of the submodules except their paths.
func EncodeDescription(d artifact.ModuleDescription) ([]byte, error) {
	size, err := canonicalSize(d)
	if err != nil || size <= MaxDescription {
		return canonicalJSON(d)
	}
	shortenReadme(d.Root.Readme, cutReadme)
	for _, list := range [][]artifact.DescribedModule{d.Submodules, d.Examples} {
		for i := range list {
			shortenReadme(list[i].Readme, cutReadme)
		}
	}
	if size, err = canonicalSize(d); err != nil || size <= MaxDescription {
		return canonicalJSON(d)
	}
	for _, list := range [][]artifact.DescribedModule{d.Submodules, d.Examples} {
		for i := range list {
			list[i] = artifact.DescribedModule{Path: list[i].Path}
		}
	}
	d.Diagnostics = nil
	b, err := canonicalJSON(d)
	if err == nil && len(b) > MaxDescription {
		return nil, fmt.Errorf("the description of the module has %d bytes, the limit is %d: %w", len(b), MaxDescription, oci.ErrTooLarge)
	}
	return b, err
}

// canonicalSize returns the length of canonicalJSON(v), which has no escapes for HTML and for bytes that are not UTF-8.
func canonicalSize(v any) (int, error) {
	b, err := json.Marshal(v)
	size := len(b)
	for i := 0; i+5 < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		switch string(b[i+1 : i+6]) {
		case "u003c", "u003e", "u0026":
			size -= len(`\u003c`) - len("<")
		case "ufffd":
			size -= len(`\ufffd`) - len("\uFFFD")
		}
		i++ // a backslash that is escaped begins no escape
	}
	return size, err
}

// canonicalJSON encodes v as JSON with sorted keys.
func canonicalJSON(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode description: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var generic any
	if err := dec.Decode(&generic); err != nil {
		return nil, fmt.Errorf("encode description: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(generic); err != nil {
		return nil, fmt.Errorf("encode description: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
