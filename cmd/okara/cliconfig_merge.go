// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// writeCLIConfig writes the configuration to a file, or merges it into the one that is there,
// and prints what changes in that one. Before it replaces the way providers are installed, it asks.
func writeCLIConfig(a *cli.App, name, text, server string, yes bool) error {
	target, err := filepath.EvalSymlinks(name) // a link of those who keep such files in a repository stays
	if err != nil {
		target = name
	}
	old, err := os.ReadFile(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m := configMerge{out: old}
	if len(bytes.TrimSpace(old)) == 0 {
		m.out = []byte(text)
	} else if err := m.merge(name, text, server); err != nil {
		return err
	}
	if len(m.changes) > 0 {
		a.Note("%s:\n%s", name, strings.Join(m.changes, "\n"))
	}
	if m.installation {
		if err := a.ConfirmOverwrite(yes, "replace the provider_installation block of "+name); err != nil {
			return err
		}
	}
	return files.Replace(target, m.out, 0o600)
}

// installation is the type of the block that says where providers come from.
const installation = "provider_installation"

// configMerge puts blocks into a CLI configuration and keeps its other bytes.
type configMerge struct {
	out          []byte
	changes      []string // lines that go and come, without tokens
	installation bool     // provider_installation is replaced
}

// merge puts each block of text in the place of the one with its type and labels, or at the end,
// and removes what was written for the server before and is no longer wanted.
func (m *configMerge) merge(name, text, server string) error {
	added, diags := syntax.ParseBody([]byte(text), name)
	if diags.HasErrors() {
		return diags
	}
	old, diags := syntax.ParseBody(m.out, name)
	if diags.HasErrors() {
		return cli.WithHint(cli.UsageError("not a CLI configuration: %w", syntax.Wrong(diags)), "%s was not changed; correct it, or write to another file", name)
	}
	for _, b := range slices.Backward(old.Blocks) {
		if i := indexBlock(added.Blocks, b); i >= 0 {
			m.replace(b, blockText([]byte(text), added.Blocks[i]))
		} else if (b.Type == "host" || b.Type == installation) && strings.Contains(blockText(m.out, b), `"`+server+"/") {
			m.replace(b, "")
		}
	}
	end := 0 // of the block before
	for _, b := range added.Blocks {
		if to := b.CloseBraceRange.End.Byte; indexBlock(old.Blocks, b) < 0 {
			m.addChanges("+ ", blockText([]byte(text), b))
			m.out = append(bytes.TrimRight(m.out, "\n"), "\n\n"+strings.TrimLeft(text[end:to], "\n")+"\n"...)
		}
		end = b.CloseBraceRange.End.Byte
	}
	return nil
}

func blockText(src []byte, b *hclsyntax.Block) string {
	return string(src[b.Range().Start.Byte:b.CloseBraceRange.End.Byte])
}

func (m *configMerge) replace(b *hclsyntax.Block, text string) {
	before := blockText(m.out, b)
	if before == text {
		return
	}
	m.addChanges("- ", before)
	m.addChanges("+ ", text)
	m.installation = m.installation || b.Type == installation
	m.out = slices.Concat(m.out[:b.Range().Start.Byte], []byte(text), m.out[b.CloseBraceRange.End.Byte:])
}

// addChanges adds the lines of a block to the difference, of one with a token only what it is for.
func (m *configMerge) addChanges(sign, block string) {
	if head, _, _ := strings.Cut(block, "{"); strings.HasPrefix(block, "credentials") {
		block = head + "{ token = (hidden) }"
	}
	for line := range strings.Lines(block) {
		m.changes = append(m.changes, sign+strings.TrimRight(line, "\r\n"))
	}
}

// indexBlock returns where the block with the type and labels of b is; -1: nowhere.
func indexBlock(all hclsyntax.Blocks, b *hclsyntax.Block) int {
	for i, x := range all {
		if x.Type == b.Type && strings.Join(x.Labels, "\n") == strings.Join(b.Labels, "\n") {
			return i
		}
	}
	return -1
}
