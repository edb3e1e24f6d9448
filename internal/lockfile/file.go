// SPDX-License-Identifier: Apache-2.0

package lockfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// Name is the file name of a lock file in a root module.
const Name = ".terraform.lock.hcl"

// lockHeader is the comment of clients in a new lock file.
const lockHeader = `# This file is maintained automatically by "tofu init".
# Manual edits may be lost in future updates.
`

// File is a .terraform.lock.hcl. Changes keep every byte outside the blocks concerned.
type File struct {
	src       []byte
	Providers []Provider // in the order of the file
}

// Provider is one provider block of a lock file.
type Provider struct {
	Address     addr.Provider // with its host name
	Label       string        // the address as written in the file
	Version     addr.Version
	Constraints string
	Hashes      []string // "h1:…" and "zh:…"

	body   hcl.Range // the whole block
	hashes hcl.Range // the hashes argument, zero if there is none
	close  hcl.Range // the closing brace
}

// Parse parses a lock file, empty or not; name is for messages.
func Parse(name string, src []byte) (*File, error) {
	body, diags := syntax.ParseBody(src, name)
	if diags.HasErrors() {
		return nil, fmt.Errorf("reading the lock file: %w", syntax.Wrong(diags))
	}
	l := &File{src: src}
	for _, block := range body.Blocks {
		if block.Type != "provider" {
			continue
		}
		p, err := parseProvider(block)
		if err != nil {
			return nil, fmt.Errorf("reading the lock file: %w", syntax.WrongAt(block.DefRange(), err))
		}
		l.Providers = append(l.Providers, p)
	}
	if len(l.Providers) == 0 && len(body.Blocks)+len(body.Attributes) > 0 {
		return nil, &syntax.SettingError{Err: fmt.Errorf("%s is not a dependency lock file: it has no provider block", name)}
	}
	return l, nil
}

func parseProvider(block *hclsyntax.Block) (Provider, error) {
	if len(block.Labels) != 1 {
		return Provider{}, fmt.Errorf("a provider block must have one label, its address")
	}
	p := Provider{Label: block.Labels[0], body: block.Range(), close: block.CloseBraceRange}
	var err error
	if p.Address, err = addr.ParseProvider(p.Label); err != nil {
		return Provider{}, err
	}
	for name, attr := range block.Body.Attributes {
		value, diags := attr.Expr.Value(nil)
		if diags.HasErrors() {
			return Provider{}, errors.New(diags[0].Detail)
		}
		switch ty := value.Type(); {
		case name == "version" && ty.FriendlyName() == "string" && value.IsKnown() && !value.IsNull():
			if p.Version, err = addr.ParseVersion(value.AsString()); err != nil {
				return Provider{}, err
			}
		case name == "constraints" && ty.FriendlyName() == "string" && !value.IsNull():
			p.Constraints = value.AsString()
		case name == "hashes" && (ty.IsTupleType() || ty.IsListType() || ty.IsSetType()):
			p.hashes = attr.Range()
			for _, h := range value.AsValueSlice() {
				if h.Type().FriendlyName() != "string" || h.IsNull() {
					return Provider{}, fmt.Errorf("hashes must be strings")
				}
				p.Hashes = append(p.Hashes, h.AsString())
			}
		}
	}
	if p.Version == (addr.Version{}) {
		return Provider{}, fmt.Errorf("the block has no version")
	}
	return p, nil
}

// Find returns the entry of a provider.
func (l *File) Find(p addr.Provider) (Provider, bool) {
	i := slices.IndexFunc(l.Providers, func(have Provider) bool { return have.Address == p })
	if i < 0 {
		return Provider{}, false
	}
	return l.Providers[i], true
}

// With returns the file with entries replaced or inserted by address. Hashes are sorted, one a
// line: else clients rewrite the file, and warn under -lockfile=readonly.
func (l *File) With(change []Provider) []byte {
	if len(l.Providers) == 0 && len(bytes.TrimSpace(l.src)) == 0 {
		return l.insert([]byte(lockHeader), change)
	}
	out := slices.Clone(l.src)
	var added []Provider
	for i := len(l.Providers) - 1; i >= 0; i-- { // from the end, so that earlier ranges stay valid
		have := l.Providers[i]
		for _, want := range change {
			if want.Address == have.Address && !slices.Equal(have.Hashes, sortedHashes(want.Hashes)) {
				out = have.replaceHashes(out, want.Hashes)
			}
		}
	}
	for _, want := range change {
		if _, ok := l.Find(want.Address); !ok {
			added = append(added, want)
		}
	}
	return l.insert(out, added)
}

func (p Provider) replaceHashes(src []byte, hashes []string) []byte {
	text := "hashes = " + hashList(hashes)
	if p.hashes == (hcl.Range{}) {
		at := p.close.Start.Byte
		return slices.Concat(src[:at], []byte("  "+text+"\n"), src[at:])
	}
	return slices.Concat(src[:p.hashes.Start.Byte], []byte(text), src[p.hashes.End.Byte:])
}

// insert adds new blocks before the first existing block with a higher address.
func (l *File) insert(out []byte, added []Provider) []byte {
	slices.SortFunc(added, func(a, b Provider) int { return strings.Compare(a.Label, b.Label) })
	for _, p := range added {
		next := len(out)
		for _, have := range l.Providers {
			if have.Label > p.Label {
				next = bytes.Index(out, []byte("provider \""+have.Label+"\""))
				break
			}
		}
		block := p.blockOf()
		if next == len(out) {
			out = append(bytes.TrimRight(out, "\n"), "\n\n"+block...)
			continue
		}
		out = slices.Concat(out[:next], []byte(block+"\n"), out[next:])
	}
	return out
}

func (p Provider) blockOf() string {
	var b strings.Builder
	fmt.Fprintf(&b, "provider %q {\n", p.Label)
	if p.Constraints == "" {
		fmt.Fprintf(&b, "  version = %q\n", p.Version)
	} else {
		fmt.Fprintf(&b, "  version     = %q\n  constraints = %q\n", p.Version, p.Constraints)
	}
	fmt.Fprintf(&b, "  hashes = %s\n}\n", hashList(p.Hashes))
	return b.String()
}

func hashList(hashes []string) string {
	var b strings.Builder
	b.WriteString("[\n")
	for _, h := range sortedHashes(hashes) {
		fmt.Fprintf(&b, "    %q,\n", h)
	}
	b.WriteString("  ]")
	return b.String()
}

func sortedHashes(hashes []string) []string {
	sorted := slices.Clone(hashes)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
