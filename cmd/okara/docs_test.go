// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/server"
)

var (
	// serverBlock matches a configuration of okara serve with its name on the page.
	serverBlock = regexp.MustCompile("(?ms)^```hcl ((?:\\w+/)?okara\\.hcl)\n(.*?)^```$")
	// shellBlock matches commands for users, whether a test runs them or not.
	shellBlock = regexp.MustCompile("(?ms)^```sh[^\n]*\n(.*?)^```$")
	// spanned matches a command in running text.
	spanned = regexp.MustCompile("`(okara [^`]+)`")
	// parted matches what separates two commands on a line.
	parted = regexp.MustCompile(`&&|\|\||[|;()]| #`)
)

// documentation returns the text of the README and of the pages, by name.
func documentation(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../../docs/*/*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d pages, %v", len(names), err)
	}
	pages := map[string]string{}
	for _, name := range append(names, "../../README.md") {
		text := must.Get(os.ReadFile(name))(t)
		pages[filepath.Base(name)] = string(text)
	}
	return pages
}

// TestDocumentedSettings reads the configurations on the pages as the server would.
func TestDocumentedSettings(t *testing.T) {
	found, github := 0, 0
	for page, text := range documentation(t) {
		for _, block := range serverBlock.FindAllStringSubmatch(text, -1) {
			c := server.Defaults()
			c.Extension = newExtension()
			if err := c.Read(newFile(t, "okara.hcl", block[2])); err != nil {
				t.Errorf("%s, %s: %v", page, block[1], err)
			}
			found++
			github += len(c.Origins.GitHub) + len(c.Origins.Hooks)
		}
	}
	if found < 10 || github != 4 {
		t.Errorf("%d configurations, with %d github and hook blocks, want 4", found, github)
	}
}

// TestDocumentedCommands exist, with flags; internal/e2e runs blocks.
func TestDocumentedCommands(t *testing.T) {
	found := 0
	for page, text := range documentation(t) {
		for _, span := range spanned.FindAllStringSubmatch(text, -1) {
			checkCommand(t, page, span[1], false)
		}
		for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
			for _, line := range parted.Split(strings.ReplaceAll(block[1], "\n", ";"), -1) {
				if strings.HasPrefix(strings.TrimSpace(line), "okara ") {
					found++
					checkCommand(t, page, line, true)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("%d commands were found in blocks", found)
	}
}

func checkCommand(t *testing.T, page, line string, flags bool) {
	t.Helper()
	root := newRoot(&cli.App{Getenv: func(string) string { return "" }, Out: io.Discard, Err: io.Discard})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	command, rest, err := root.Find(strings.Fields(line)[1:])
	if err != nil {
		t.Errorf("%s: %s: %v", page, line, err)
		return
	}
	if command.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && rest[0] != "…" && command.ValidateArgs(rest[:1]) != nil {
		t.Errorf("%s: %s: %s has no command %s", page, line, command.CommandPath(), rest[0])
	}
	if !flags || command.DisableFlagParsing || command == root {
		return
	}
	if err := command.ParseFlags(rest); err != nil && !strings.Contains(err.Error(), "help requested") {
		t.Errorf("%s: %s: %v", page, line, err)
	}
}
