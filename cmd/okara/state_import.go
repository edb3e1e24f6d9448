// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const importLong = `Copy states from elsewhere into REPOSITORY, version by version, under the lock.
SOURCE is

  a state file
  a directory of state files that are the versions of one state, as saved from a
  versioned bucket; they are taken in the order of their serials
  oci://HOST/PATH, a repository in the layout of okara, of the OCI backend
  proposed for OpenTofu, of ghoten or of terraform-provider-oras; all workspaces
  are taken, or the one of --workspace

Everything is read and checked before anything is written, and the source is
never changed. A workspace that has a state already is continued if its current
state is one of the source's versions, otherwise it is refused.`

func newStateImport(a *app, f *stateFlags) *cobra.Command {
	var ws string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "import REPOSITORY SOURCE",
		Short: "Copy states and their versions from files or other tools' repositories",
		Long:  importLong,
		Example: `  okara state import registry.example.com/infrastructure/tofu-state terraform.tfstate -w prod
  okara state import registry.example.com/infrastructure/tofu-state oci://ghcr.io/acme/old-state --dry-run`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, err := f.store(a, args[0])
			if err != nil {
				return err
			}
			sources, err := importSources(ctx, a, f, args[1], ws, cmd.Flags().Changed("workspace"))
			if err != nil {
				return err
			}
			results := []importResult{}
			var lines []string
			for _, name := range slices.Sorted(maps.Keys(sources)) {
				r, err := importWorkspace(ctx, a, s, name, sources[name], dryRun)
				if err != nil {
					return fmt.Errorf("importing workspace %q: %w", name, err)
				}
				results = append(results, r)
				lines = append(lines, r.String())
			}
			return a.printResult(struct {
				Repository string         `json:"repository"`
				Source     string         `json:"source"`
				DryRun     bool           `json:"dry_run"`
				Workspaces []importResult `json:"workspaces"`
			}{args[0], args[1], dryRun, results}, strings.Join(lines, "\n"))
		},
	}
	f.workspaceFlag(a, cmd, &ws)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "read and check everything, write nothing")
	return cmd
}

// importVersion is one version of a source.
type importVersion struct {
	label   string // where it comes from, for messages
	lineage string
	serial  uint64
	load    func(context.Context) ([]byte, error)
}

// importResult is what happened to one workspace.
type importResult struct {
	Workspace string `json:"workspace"`
	Found     int    `json:"versions_found"`
	Present   int    `json:"versions_present"`
	Written   int    `json:"versions_written"`
	Serial    uint64 `json:"serial"`
}

func (r importResult) String() string {
	return fmt.Sprintf("workspace %s: %s found, %d present, %d written, serial %d", r.Workspace, plural(r.Found, "version"), r.Present, r.Written, r.Serial)
}

// importSources reads and checks a source and returns its versions by workspace.
func importSources(ctx context.Context, a *app, f *stateFlags, source, ws string, only bool) (map[string][]importVersion, error) {
	reference, isRepo := strings.CutPrefix(source, "oci://")
	if !isRepo {
		versions, err := fileVersions(ctx, source)
		return map[string][]importVersion{ws: versions}, err
	}
	from, err := f.store(a, reference)
	if err != nil {
		return nil, err
	}
	sources, err := repositoryVersions(ctx, from)
	if err != nil {
		return nil, err
	}
	if only {
		if sources[ws] == nil {
			return nil, fmt.Errorf("workspace %q in %s: %w", ws, source, oci.ErrNotFound)
		}
		sources = map[string][]importVersion{ws: sources[ws]}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("states in %s: %w", source, oci.ErrNotFound)
	}
	return sources, nil
}

// checkOrder reports files that cannot be the versions of one state.
func checkOrder(versions []importVersion) error {
	for i, v := range versions[1:] {
		switch last := versions[i]; {
		case v.lineage != last.lineage:
			return fmt.Errorf("%s has lineage %q and %s has %q: %w", v.label, v.lineage, last.label, last.lineage, statebackend.ErrStale)
		case v.serial < last.serial:
			return fmt.Errorf("%s has serial %d, after %s with %d: %w", v.label, v.serial, last.label, last.serial, statebackend.ErrStale)
		}
	}
	return nil
}

// importWorkspace writes the versions that the workspace lacks.
func importWorkspace(ctx context.Context, a *app, s *statebackend.Store, ws string, versions []importVersion, dryRun bool) (importResult, error) {
	r := importResult{Workspace: ws, Found: len(versions), Serial: versions[len(versions)-1].serial}
	if dryRun {
		head, _, err := s.Get(ctx, ws)
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return r, err
		}
		r.Present, err = continues(ctx, head, versions)
		return r, err
	}
	err := withLock(ctx, a, s, ws, "import", func(l *statebackend.Lock) error {
		head, _, err := l.Get(ctx)
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return err
		}
		if r.Present, err = continues(ctx, head, versions); err != nil {
			return err
		}
		for _, v := range versions[r.Present:] {
			state, err := v.load(ctx)
			if err != nil {
				return err
			}
			if _, err := l.Put(ctx, state); err != nil {
				return fmt.Errorf("%s: %w", v.label, err)
			}
			r.Written++
		}
		return nil
	})
	return r, err
}

// continues returns how many of the versions a workspace with this current
// state has already; it must have none or one of them.
func continues(ctx context.Context, head []byte, versions []importVersion) (int, error) {
	if head == nil {
		return 0, nil
	}
	_, serial, _ := statebackend.Meta(head)
	for i, v := range slices.Backward(versions) {
		if v.serial != serial {
			continue
		}
		state, err := v.load(ctx)
		if err != nil {
			return 0, err
		}
		if bytes.Equal(state, head) {
			return i + 1, nil
		}
	}
	return 0, withHint(fmt.Errorf("there is a state with serial %d that the source does not have: %w", serial, oci.ErrExists),
		"delete the workspace first, or choose another one with --workspace")
}
