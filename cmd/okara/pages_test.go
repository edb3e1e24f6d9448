// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestCommandPages holds the pages to the help; `make docs` writes them.
func TestCommandPages(t *testing.T) {
	const dir = "../../docs/reference/commands"
	want := commandPages(t)
	if os.Getenv("OKARA_UPDATE") != "" {
		writePages(t, dir, want)
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Errorf("%v; run make docs", err)
			continue
		}
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("docs/reference/commands/%s differs from the command's help; run make docs (-help +page):\n%s", name, diff)
		}
	}
	files := must.Get(filepath.Glob(dir + "/*.md"))(t)
	for _, file := range files {
		if _, ok := want[filepath.Base(file)]; !ok {
			t.Errorf("%s is the page of no command; run make docs", file)
		}
	}
}

// commandPages returns the text of every page, by file name.
func commandPages(t *testing.T) map[string]string {
	t.Helper()
	root := newRoot(&cli.App{Getenv: func(string) string { return "" }})
	root.InitDefaultHelpCmd()
	pages := map[string]string{}
	var index strings.Builder
	index.WriteString("# Commands\n\nThe help of each command, as `--help` prints it.\n\n")
	for _, c := range commandTree(root) {
		path := c.CommandPath()
		name := strings.ReplaceAll(path, " ", "_") + ".md"
		fmt.Fprintf(&index, "- [%s](%s): %s\n", path, name, c.Short)
		pages[name] = fmt.Sprintf("# %s\n\n```text\n%s```\n", path, help(t, strings.Fields(path)[1:]))
	}
	pages["index.md"] = index.String()
	return pages
}

// commandTree lists the commands that a user sees, parents first.
func commandTree(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" { // which belongs to cobra
			list = append(list, commandTree(sub)...)
		}
	}
	return list
}

func help(t *testing.T, command []string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	args := append(command, "--help")
	if code := runCommand(t.Context(), args, strings.NewReader(""), &out, &errOut, func(string) string { return "" }); code != cli.ExitOK {
		t.Fatalf("okara %s: exit code %d: %s", strings.Join(args, " "), code, &errOut)
	}
	return out.String()
}

func writePages(t *testing.T, dir string, pages map[string]string) {
	t.Helper()
	must.Succeed(t, os.RemoveAll(dir))
	must.Succeed(t, os.MkdirAll(dir, 0o755))
	for name, text := range pages {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
}
