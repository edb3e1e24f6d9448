// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/internal/cli"
)

// everyCommand calls do for each command of the tree.
func everyCommand(t *testing.T, do func(*cobra.Command)) {
	t.Helper()
	var walk func(*cobra.Command)
	n := 0
	walk = func(c *cobra.Command) {
		n++
		do(c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&cli.App{Getenv: func(string) string { return "" }}))
	if n < 100 {
		t.Fatalf("only %d commands", n)
	}
}

// TestFlagWords: --yes means "do not ask" and --force "although it is not safe", and no other
// flag means either. Exceptions to a policy are named --allow-….
//
// Shows: mistakes 42 | commands had many words for one thing, and some printed text with `--json` |
// one word each; one document or a refusal
func TestFlagWords(t *testing.T) {
	policy := map[string]bool{"allow-yanked": true, "allow-unsigned": true, "allow-expired-key": true}
	other := regexp.MustCompile(`^(allow|approve|assume|auto|confirm|i-know|ignore|non-interactive|no-(ask|confirm|prompt|input|interactive)|overwrite|really|skip|unsafe|without)\b`)
	asks := regexp.MustCompile(`\b(ask|asking|asked|confirm|prompt)\b`)
	everyCommand(t, func(c *cobra.Command) {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			at := c.CommandPath() + " --" + f.Name
			if f.Value.Type() != "bool" || policy[f.Name] {
				return
			}
			if other.MatchString(f.Name) {
				t.Errorf("%s: that is --yes or --force", at)
			}
			if f.Name == "yes" && (f.Shorthand != "y" || !asks.MatchString(f.Usage)) {
				t.Errorf("%s: --yes, -y is for not being asked: %s", at, f.Usage)
			}
			if f.Name == "force" && asks.MatchString(f.Usage) {
				t.Errorf("%s: not being asked is --yes: %s", at, f.Usage)
			}
		})
	})
}

// TestTopCommands: common commands fit on one screen. Rare ones are below a parent, and none
// appears twice.
//
// Shows: mistakes 42
func TestTopCommands(t *testing.T) {
	root := newRoot(&cli.App{Getenv: func(string) string { return "" }})
	n := 0
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			n++
		}
	}
	if n > 30 { // 26 before used-by, outdated, mcp and docs
		t.Errorf("%d commands at the top", n)
	}
	everyCommand(t, func(c *cobra.Command) {
		if len(c.Aliases) > 0 || c.Deprecated != "" {
			t.Errorf("%s has two names", c.CommandPath())
		}
	})
}
