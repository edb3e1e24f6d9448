// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// writeCLIConfig writes the configuration to a file, or merges it into the one that is there,
// and prints what changes in that one. Before it replaces the way providers are installed, it asks.
func writeCLIConfig(a *cli.App, name, text string, yes bool) error {
	target, err := filepath.EvalSymlinks(name) // a link of those who keep such files in a repository stays
	if errors.Is(err, fs.ErrNotExist) {
		target, err = name, nil
	}
	if err != nil {
		return err
	}
	old, err := os.ReadFile(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m := configMerge{out: old}
	if len(bytes.TrimSpace(old)) == 0 {
		m.out = []byte(text)
	} else if err := m.merge(name, text); err != nil {
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

// configMerge puts blocks into a CLI configuration and keeps its other bytes.
type configMerge struct {
	out          []byte
	changes      []string // lines that go and come, without tokens
	installation bool     // provider_installation is replaced
}

// merge puts each block of text in the place of the one with its type and labels, or at the end.
func (m *configMerge) merge(name, text string) error {
	added, diags := syntax.ParseBody([]byte(text), name)
	if diags.HasErrors() {
		return diags
	}
	end := 0 // of the block before
	for _, b := range added.Blocks {
		from, to := b.Range().Start.Byte, b.CloseBraceRange.End.Byte
		comment, block := text[end:from], text[from:to]
		end = to
		at, diags := syntax.ParseBody(m.out, name)
		if diags.HasErrors() {
			return cli.WithHint(cli.UsageError("%w", diags), "%s stays as it is; correct it, or write to another file", name)
		}
		i := indexBlock(at.Blocks, b)
		if i < 0 {
			m.addChanges("+ ", block)
			m.out = append(bytes.TrimRight(m.out, "\n"), "\n\n"+strings.TrimLeft(comment, "\n")+block+"\n"...)
			continue
		}
		from, to = at.Blocks[i].Range().Start.Byte, at.Blocks[i].CloseBraceRange.End.Byte
		if before := string(m.out[from:to]); before != block {
			m.addChanges("- ", before)
			m.addChanges("+ ", block)
			m.installation = m.installation || b.Type == "provider_installation"
			m.out = []byte(string(m.out[:from]) + block + string(m.out[to:]))
		}
	}
	return nil
}

// addChanges adds the lines of a block to the difference, tokens hidden.
func (m *configMerge) addChanges(sign, block string) {
	secret := strings.HasPrefix(block, "credentials")
	for line := range strings.Lines(block) {
		if key, _, ok := strings.Cut(line, "="); ok && secret {
			line = key + "= (hidden)"
		}
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
