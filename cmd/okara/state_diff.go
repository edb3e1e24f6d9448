// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/statebackend"
)

func newStateDiff(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var limit uint
	cmd := &cobra.Command{
		Use:   "diff [REPOSITORY] A [B]",
		Short: "Compare two versions of a state, or files, by resource address",
		Long: `Compare A with B, or with the current version, by resource address. Each is a version
number or a state file; two files require no repository.

Values are compared, and so is what else the tools act on, which is shown in brackets:
whether an instance is tainted (status), its provider, identity, dependencies,
skip_destroy, whether an output is sensitive, results of checks. Other differences are only listed: private data
of providers, schema versions, terraform_version, lineage. States of Terraform 0.11
(version 3) are supported.

Values are masked if the state marks them as sensitive, or if the attribute's name
suggests it (password, secret, token, private_key and the like).`,
		Example: `  okara state diff registry.example.com/state/shop 41 42 -w prod
  okara state diff before.tfstate after.tfstate`,
		Args: cobra.RangeArgs(1, 3),
	}
	stored := f.withStore(reg, 2, &ws, func(cmd *cobra.Command, s *statebackend.Store, args []string) error {
		d, err := compareStates(cmd.Context(), s, ws, args[1:])
		if err != nil {
			return noState(err, args[0], ws)
		}
		d.Repository = args[0]
		d.Workspace = ws
		return printDiff(reg.App, d, int(limit))
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for i, arg := range args {
			_, err := os.Stat(arg)
			if named := i > 0 || slices.Contains([]string{".json", ".tfstate"}, filepath.Ext(arg)); err != nil && named && !isVersion(arg) {
				return cli.WithHint(cli.UsageError("%s does not exist", arg), "A and B are versions, such as 41, or state files")
			}
		}
		if len(args) != 2 || isVersion(args[1]) || !isStateFile(args[0]) && strings.Contains(args[0], "/") {
			return stored(cmd, args)
		}
		d, err := compareStates(cmd.Context(), nil, "", args)
		if err != nil {
			return err
		}
		return printDiff(reg.App, d, int(limit))
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().UintVar(&limit, "limit", 100, "show at most `N` changed addresses, 0 for all")
	return cmd
}

type stateDiff struct {
	Repository string          `json:"repository,omitempty"`
	Workspace  string          `json:"workspace,omitempty"`
	From       int64           `json:"from,omitempty"` // version
	To         int64           `json:"to,omitempty"`   // likewise
	FromFile   string          `json:"from_file,omitempty"`
	ToFile     string          `json:"to_file,omitempty"`
	Changes    []states.Change `json:"changes"`
	More       bool            `json:"more"`
	LeftOut    []string        `json:"left_out,omitempty"` // what differs and is not compared
	Dropped    string          `json:"dropped,omitempty"`  // warning: the other tool dropped resources
}

// diffGC is GOGC while two states are in memory, which may be 500 MB: a tenth more of processor time saves a quarter of it.
const diffGC = 25

// compareStates compares two states; a single one is compared with the current version.
// Without a store both are files.
func compareStates(ctx context.Context, s *statebackend.Store, ws string, sides []string) (stateDiff, error) {
	debug.SetGCPercent(diffGC)
	var d stateDiff
	from, err := readSide(ctx, s, ws, sides[0], &d.From, &d.FromFile)
	if err != nil {
		return d, err
	}
	to, err := readSide(ctx, s, ws, append(sides, "")[1], &d.To, &d.ToFile)
	if err != nil {
		return d, err
	}
	d.Changes, d.LeftOut = states.Diff(from, to)
	restore := "tofu state push " + text.ShellWord(d.FromFile)
	if s != nil {
		restore = fmt.Sprintf("okara state restore %s %d -w %s", text.ShellWord(fmt.Sprint(s.Repo())), d.From, text.ShellWord(ws))
	}
	d.Dropped = states.ExplainDropped(from, to, restore)
	return d, nil
}

// readSide reads a version ("": the current one) or a file, and says which it was.
func readSide(ctx context.Context, s *statebackend.Store, ws, side string, version *int64, file *string) (*states.Document, error) {
	if side != "" && !isVersion(side) {
		*file = side
		state, err := os.ReadFile(side)
		if err != nil {
			return nil, err
		}
		doc, err := states.Parse(state)
		if errors.Is(err, states.ErrEncrypted) {
			return nil, fmt.Errorf("%s: %w", side, err)
		}
		if err != nil {
			return nil, cli.WithHint(cli.UsageError("%s is not a state file: %s", side, strings.TrimPrefix(err.Error(), "not a state file: ")), "expected a state file, or the number of a version")
		}
		return doc, nil
	}
	if side != "" {
		var err error
		if *version, err = versionArg(side); err != nil {
			return nil, err
		}
	}
	state, v, err := readVersion(ctx, s, ws, *version)
	if err != nil {
		return nil, err
	}
	*version = v.N
	doc, err := states.Parse(state)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", v.N, err)
	}
	return doc, nil
}

// isStateFile distinguishes an existing file from a version and from a repository.
func isStateFile(arg string) bool {
	if isVersion(arg) {
		return false
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular()
}

// printDiff prints the first limit changes; all if limit is 0.
func printDiff(a *cli.App, d stateDiff, limit int) error {
	if more := len(d.Changes) - limit; limit > 0 && more > 0 {
		d.Changes = d.Changes[:limit]
		d.More = true
		a.Note("%s not shown, use --limit 0 to show all", text.Plural(more, "more change"))
	}
	if len(d.LeftOut) > 0 {
		a.Note("other differences, not compared: %s", strings.Join(d.LeftOut, ", "))
	}
	if d.Dropped != "" {
		a.Note("%s", d.Dropped)
	}
	if len(d.Changes) == 0 {
		a.Note("no differences between %s and %s", sideName(d.From, d.FromFile), sideName(d.To, d.ToFile))
	}
	var lines []string
	for _, c := range d.Changes {
		lines = append(lines, c.String())
	}
	return a.PrintChanges(d, lines)
}

func sideName(version int64, file string) string {
	if file != "" {
		return file
	}
	return fmt.Sprintf("version %d", version)
}
