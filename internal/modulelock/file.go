// SPDX-License-Identifier: Apache-2.0

package modulelock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/seed-141914ff/okara/internal/syntax"
)

// Name is the file name of the lock in a root module.
const Name = ".okara.lock.hcl"

// MaxSize bounds a lock file, in bytes.
const MaxSize = 8 << 20

const (
	maxBlocks = 5_000
	maxHashes = 16 // of a package
)

const header = `# Modules of this configuration, kept by "okara lock --modules". Commit it with .terraform.lock.hcl.

`

// File is a .okara.lock.hcl, sorted.
type File struct {
	Packages []Package
	Calls    []Call
}

// Package is what one or several calls install.
type Package struct {
	Source  string   // as in modules.json, without folder and ref
	Version string   // or the ref of a source that has one; "": neither
	Hashes  []string // "h1:…" of files, "oci:sha256:…" of its manifest
	Commit  string   // of git; "": unknown
}

// Call is a module call, by its path in the tree of calls.
type Call struct {
	Path            string // as "network.subnets"
	Source, Version string // of its package

	full, plain string // hashes of what is installed: all of its files, and those without dot files
}

// Parse parses a lock file; name is for messages.
func Parse(name string, src []byte) (*File, error) {
	if len(src) > MaxSize {
		return nil, fmt.Errorf("%s has more than %d MiB", name, MaxSize>>20)
	}
	body, diags := syntax.ParseBody(src, name)
	if diags.HasErrors() {
		return nil, fmt.Errorf("reading the module lock file: %w\nhint: restore it from git, or remove it and run `okara lock --modules`", syntax.Wrong(diags))
	}
	if len(body.Blocks) > maxBlocks {
		return nil, fmt.Errorf("%s has more than %d blocks", name, maxBlocks)
	}
	f := &File{}
	for _, b := range body.Blocks {
		if err := f.addBlock(b); err != nil {
			return nil, fmt.Errorf("reading the module lock file: %w", syntax.WrongAt(b.DefRange(), err))
		}
	}
	f.sortBlocks()
	for _, c := range f.Calls {
		if f.findPackage(c.Source, c.Version) == nil {
			return nil, fmt.Errorf("reading the module lock file: %s has no package %q %q, which the call %q names", name, c.Source, c.Version, c.Path)
		}
	}
	return f, nil
}

// ParseDigests returns, by the path of a call, the digest of its package's manifest, or a hash of its files.
func ParseDigests(src []byte) (map[string]string, error) {
	f, err := Parse(Name, src)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, c := range f.Calls {
		all[c.Path] = strings.TrimPrefix(slices.Max(f.findPackage(c.Source, c.Version).Hashes), ManifestHash)
	}
	return all, nil
}

func (f *File) addBlock(b *hclsyntax.Block) error {
	values := map[string]cty.Value{}
	for name, attr := range b.Body.Attributes {
		v, diags := attr.Expr.Value(nil)
		if diags.HasErrors() || !v.IsWhollyKnown() || v.IsNull() {
			return fmt.Errorf("%s must be a constant", name)
		}
		values[name] = v
	}
	word := func(name string) string {
		if v, ok := values[name]; ok && v.Type() == cty.String {
			return v.AsString()
		}
		return ""
	}
	switch {
	case b.Type == "package" && len(b.Labels) == 2:
		p := Package{Source: b.Labels[0], Version: b.Labels[1], Commit: word("commit")}
		hashes, ok := values["hashes"]
		if !ok || !hashes.CanIterateElements() || hashes.LengthInt() == 0 || hashes.LengthInt() > maxHashes {
			return fmt.Errorf("the package must have hashes, a list of 1 to %d strings", maxHashes)
		}
		for _, v := range hashes.AsValueSlice() {
			if v.Type() != cty.String || v.IsNull() {
				return errors.New("hashes must be strings")
			}
			p.Hashes = append(p.Hashes, v.AsString())
		}
		if f.findPackage(p.Source, p.Version) != nil {
			return errors.New("the package has two blocks")
		}
		f.Packages = append(f.Packages, p)
	case b.Type == "call" && len(b.Labels) == 1:
		if slices.ContainsFunc(f.Calls, func(c Call) bool { return c.Path == b.Labels[0] }) {
			return errors.New("the call has two blocks")
		}
		f.Calls = append(f.Calls, Call{Path: b.Labels[0], Source: word("package"), Version: word("version")})
	default:
		return errors.New(`expected a package "SOURCE" "VERSION" or call "PATH" block`)
	}
	return nil
}

func (f *File) sortBlocks() {
	slices.SortFunc(f.Packages, func(a, b Package) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Version, b.Version))
	})
	slices.SortFunc(f.Calls, func(a, b Call) int { return cmp.Compare(a.Path, b.Path) })
}

func (f *File) findPackage(source, version string) *Package {
	for i, p := range f.Packages {
		if p.Source == source && p.Version == version {
			return &f.Packages[i]
		}
	}
	return nil
}

// Bytes returns the file as text: the same content gives the same bytes.
func (f *File) Bytes() []byte {
	f.sortBlocks()
	out := hclwrite.NewEmptyFile()
	for _, p := range f.Packages {
		b := out.Body().AppendNewBlock("package", []string{p.Source, p.Version}).Body()
		var hashes []cty.Value
		for _, h := range slices.Sorted(slices.Values(p.Hashes)) {
			hashes = append(hashes, cty.StringVal(h))
		}
		if p.Commit != "" {
			b.SetAttributeValue("commit", cty.StringVal(p.Commit))
		}
		b.SetAttributeValue("hashes", cty.ListVal(hashes))
		out.Body().AppendNewline()
	}
	for _, c := range f.Calls {
		b := out.Body().AppendNewBlock("call", []string{c.Path}).Body()
		b.SetAttributeValue("package", cty.StringVal(c.Source))
		if c.Version != "" {
			b.SetAttributeValue("version", cty.StringVal(c.Version))
		}
		out.Body().AppendNewline()
	}
	return []byte(header + strings.TrimRight(string(hclwrite.Format(out.Bytes())), "\n") + "\n")
}
