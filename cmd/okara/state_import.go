// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/foreign"
)

const importLong = `Copy states from elsewhere into REPOSITORY, version by version, under the lock.
SOURCE is

  a state file
  a directory with the versions of one state, as saved from a versioned bucket, in the
  order of their serials
  oci://HOST/PATH, a repository in the layout of okara, of the OCI backend proposed for
  OpenTofu, of ghoten or of terraform-provider-oras: all workspaces, or --workspace

Everything is read and checked before anything is written, and the source is
never changed. A workspace that has a state already is continued if its current
state is one of the source's versions, otherwise it is refused.`

func newStateImport(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	cmd := &cobra.Command{
		Use:   "import REPOSITORY SOURCE",
		Short: "Copy states and their versions from files or other tools' repositories",
		Long:  importLong,
		Example: `  okara state import registry.example.com/state/shop terraform.tfstate -w prod
  okara state import registry.example.com/state/shop oci://ghcr.io/acme/old-state --dry-run`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := checkDestination(reg, args[0], ws); err != nil {
				return err
			}
			s, err := f.openStore(reg, args[0])
			if err != nil {
				return err
			}
			sources, err := importSources(ctx, reg, f, args[1], ws, cmd.Flags().Changed("workspace"))
			if err != nil {
				return err
			}
			results := []importResult{}
			var lines []string
			for _, name := range slices.Sorted(maps.Keys(sources)) {
				r, err := importWorkspace(ctx, reg.App, s, name, sources[name])
				if err != nil {
					return fmt.Errorf("importing workspace %q: %w", name, err)
				}
				results = append(results, r)
				lines = append(lines, r.String())
			}
			return reg.PrintResult(importedStates{args[0], args[1], reg.DryRun, results}, strings.Join(lines, "\n"))
		},
	}
	f.workspaceFlag(reg, cmd, &ws)
	return cmd
}

type importedStates struct {
	Repository string         `json:"repository"`
	Source     string         `json:"source"`
	DryRun     bool           `json:"dry_run"`
	Workspaces []importResult `json:"workspaces"`
}

type importResult struct {
	Workspace string `json:"workspace"`
	Found     int    `json:"versions_found"`
	Present   int    `json:"versions_present"`
	Written   int    `json:"versions_written"`
	Serial    uint64 `json:"serial"`

	dryRun bool
}

func (r importResult) String() string {
	written := "written"
	if r.dryRun {
		written = "would be written"
	}
	return fmt.Sprintf("workspace %s: %s found, %d present, %d %s, serial %d", r.Workspace, text.Plural(r.Found, "version"), r.Present, r.Written, written, r.Serial)
}

func importSources(ctx context.Context, reg *cli.Registries, f *stateFlags, path, ws string, only bool) (map[string][]foreign.Version, error) {
	reference, isRepo := strings.CutPrefix(path, "oci://")
	if scheme, _, ok := strings.Cut(path, "://"); ok && !isRepo {
		return nil, cli.WithHint(cli.UsageError("%s: states cannot be read from %s://", path, scheme), "copy the state to a file first, with `tofu state pull > FILE` in the folder of its root module")
	}
	if !isRepo {
		versions, err := foreign.Files(ctx, path, func(file string) ([]byte, error) { return readState(nil, file) })
		if errors.Is(err, oci.ErrNotFound) {
			err = cli.WithHint(cli.UsageError("no state files in %s", path), "expected *.tfstate files, or the versions of one state as saved from a bucket")
		} else if errors.Is(err, statebackend.ErrNotState) {
			err = cli.UsageError("%w", err)
		}
		return map[string][]foreign.Version{ws: versions}, err
	}
	source := *f
	source.unsealed = true // unencrypted states are sealed in the destination
	from, err := source.openStore(reg, reference)
	if err != nil {
		return nil, err
	}
	sources, err := foreign.Repository(ctx, from, maxState)
	if errors.Is(err, oci.ErrNotFound) {
		return nil, noStates(reference)
	}
	if err != nil {
		return nil, err
	}
	if only {
		if sources[ws] == nil {
			return nil, fmt.Errorf("workspace %q in %s: %w", ws, path, oci.ErrNotFound)
		}
		sources = map[string][]foreign.Version{ws: sources[ws]}
	}
	if len(sources) == 0 {
		return nil, noStates(reference)
	}
	return sources, nil
}

func importWorkspace(ctx context.Context, a *cli.App, s *statebackend.Store, ws string, versions []foreign.Version) (importResult, error) {
	r := importResult{Workspace: ws, Found: len(versions), Serial: versions[len(versions)-1].Serial, dryRun: a.DryRun}
	err := s.Hold(ctx, ws, statebackend.NewLockInfo("import", a.UserAgent()), func(l *statebackend.Lock) (err error) {
		r.Present, r.Written, err = foreign.Import(ctx, l, versions)
		return err
	})
	if _, ok := errors.AsType[*foreign.OtherStateError](err); ok {
		err = cli.WithHint(err, "import into another workspace with --workspace; `okara state history` shows what this one has, `okara state delete` deletes it")
	}
	return r, err
}
