// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

type heldLocks struct {
	Repository string     `json:"repository"`
	Locks      []lockJSON `json:"locks"`
}

func newStateLocks(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var all bool
	cmd := &cobra.Command{
		Use:   "locks [REPOSITORY]",
		Short: "List held locks with their holder, age and operation",
		Long: `List the locks held in a repository, each with the command that removes it. A lock that a
server holds for itself expires soon after the server stops, and has no command. Ages depend on the
clocks of the holder and of this machine. The ID of a lock that cannot be read is the last
part of its tag.

With --all, REPOSITORY is a prefix, HOST[:PORT][/PATH]: the locks in every repository at
and under it are listed, if the registry can list its repositories.`,
		Example: `  okara state locks registry.example.com/state/shop
  okara state locks registry.example.com --all`,
		Args: cobra.MaximumNArgs(1),
		RunE: f.withNamedState(reg, 1, &ws, func(cmd *cobra.Command, args []string) error {
			list, err := listLocks(cmd.Context(), reg, f, args[0], all)
			if err != nil {
				return err
			}
			shown := locksText(list)
			if shown == "" {
				none := ""
				if s, err := f.openStore(reg, args[0]); err == nil && !all {
					if found, err := s.List(cmd.Context()); errors.Is(err, oci.ErrNotFound) || err == nil && found.Size() == 0 {
						none = ": there are no states"
					}
				}
				reg.Note("no locks held in %s%s", args[0], none)
			}
			noteUnlocks(reg.App, list)
			if all {
				return reg.PrintResult(list, shown)
			}
			return reg.PrintResult(list[0], shown)
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "list the locks of all repositories at and under REPOSITORY")
	return cmd
}

func listLocks(ctx context.Context, reg *cli.Registries, f *stateFlags, name string, all bool) ([]heldLocks, error) {
	return fromStores(ctx, reg, f, name, all, func(s *statebackend.Store, name string) (heldLocks, bool, error) {
		locks, err := s.Locks(ctx)
		held := heldLocks{name, []lockJSON{}}
		for _, h := range locks {
			held.Locks = append(held.Locks, toLockJSON(h))
		}
		return held, len(locks) > 0, err
	})
}

// noteUnlocks prints the command that ends each lock. The contents of a lock are untrusted:
// words with a special meaning to a shell are quoted.
func noteUnlocks(a *cli.App, list []heldLocks) {
	title := "once you are sure that the holder is gone, run:"
	for _, held := range list {
		for _, l := range held.Locks {
			if l.Server {
				continue
			}
			if title != "" {
				a.Note("%s", title)
				title = ""
			}
			a.Note("  okara state unlock %s -w %s --id %s", held.Repository, shellWord(l.Workspace), shellWord(l.ID))
		}
	}
}

// shellWord returns a text on one line, quoted as one word of a POSIX shell.
func shellWord(s string) string {
	s = text.Line(s)
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func locksText(list []heldLocks) string {
	rows := [][]string{{"REPOSITORY", "WORKSPACE", "AGE", "HOLDER", "OPERATION", "VERSION", "ID", "INFO"}}
	for _, held := range list {
		for _, l := range held.Locks {
			info := oneLine(l.Info, 80)
			if l.Server {
				info = "held by a server for itself: it expires soon after that server stops"
			}
			rows = append(rows, []string{held.Repository, l.Workspace, cli.Age(l.age), cli.OrDash(l.Who), cli.OrDash(statebackend.Version{Operation: l.Operation}.Why()),
				cli.OrDash(l.Version), cli.OrDash(l.ID), info})
		}
	}
	if len(rows) == 1 {
		return ""
	}
	return cli.Table(rows)
}

// oneLine shortens foreign text to one line of a table.
func oneLine(s string, limit int) string {
	return text.Clip(text.Line(s), limit)
}
