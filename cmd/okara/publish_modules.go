// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/description"
)

func newPublishModules(reg *cli.Registries) *cobra.Command {
	var o moduleFlags
	var version string
	var server cli.ServerFlags
	cmd := &cobra.Command{
		Use:   "modules ROOT ADDRESS",
		Short: "Publish the modules in the folders of a repository",
		Long: `Publish the modules in the folders of a repository under one version.

ADDRESS says which folders are modules and how they are called. net/{name}/aws
takes each folder of ROOT by its name; net/{name}/{system} takes folders named
SYSTEM/NAME. Folders without configuration are passed over.

With --version auto the version comes from the git tag. A tag such as
modules/vpc/v1.4.0 names one folder; only that one is published.

` + serverHelp + `

Prints one line repository:tag@digest per module. A module that fails does not
stop the others.

Exit codes: 0 all published or already there, 2 usage, 6 some failed.`,
		Example: `  okara publish modules ./modules net/{name}/aws --version 1.4.0
  okara publish modules ./modules acme/{name}/{system} --version auto`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if version == "" {
				return cli.UsageError("--version is missing: a version, or auto")
			}
			modules, err := findModules(args[0], args[1])
			if err != nil {
				return err
			}
			if modules, err = withVersions(cmd.Context(), reg.App, args[0], modules, version); err != nil {
				return err
			}
			options, err := o.options(reg.App)
			if err != nil {
				return err
			}
			if o.dryRun {
				return planModules(cmd.Context(), reg, server, modules, options)
			}
			return publishModules(cmd.Context(), reg, server, modules, options)
		},
	}
	o.add(cmd.Flags())
	server.Add(cmd.Flags())
	cmd.Flags().StringVar(&version, "version", "", "`VERSION` of all modules, or auto for the one in the git tag")
	return cmd
}

// moduleFolder is a folder that is to be published.
type moduleFolder struct {
	dir    string
	target addr.ModuleVersion
}

// findModules returns the folders of root that the address names.
func findModules(root, address string) ([]moduleFolder, error) {
	depth := 1
	if strings.Contains(address, "{system}") {
		depth = 2
	}
	if strings.Count(address, "/") != 2 || strings.Count(address, "{name}") != 1 {
		return nil, cli.UsageError("address %q must be NAMESPACE/{name}/SYSTEM or NAMESPACE/{name}/{system}", address)
	}
	var found []moduleFolder
	tree, err := cli.OpenTree(root)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	err = fs.WalkDir(tree.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() || name == "." {
			return err
		}
		if strings.HasPrefix(e.Name(), ".") {
			return fs.SkipDir
		}
		if strings.Count(name, "/") < depth-1 {
			return nil
		}
		dir := filepath.Join(root, filepath.FromSlash(name))
		if ok, err := hasConfiguration(tree.FS(), name); !ok || err != nil {
			return cmp.Or(err, fs.SkipDir)
		}
		s := strings.Replace(address, "{name}", path.Base(name), 1)
		m, err := addr.ParseModule(strings.Replace(s, "{system}", path.Dir(name), 1))
		if err != nil {
			return cli.UsageError("%s: %w", dir, err)
		}
		found = append(found, moduleFolder{dir: dir, target: addr.ModuleVersion{Module: m}})
		return fs.SkipDir
	})
	if err == nil && len(found) == 0 {
		err = cli.UsageError("%s has no folder with a module", root)
	}
	return found, err
}

func hasConfiguration(tree fs.FS, dir string) (bool, error) {
	entries, err := fs.ReadDir(tree, dir)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return description.IsConfiguration(e.Name()) }), err
}

// withVersions fills in the version and leaves out modules that the git tags do
// not name.
func withVersions(ctx context.Context, a *cli.App, root string, modules []moduleFolder, version string) ([]moduleFolder, error) {
	if version != autoVersion {
		v, err := addr.ParseVersion(version)
		if err != nil {
			return nil, cli.UsageError("%w", err)
		}
		for i := range modules {
			modules[i].target.Version = v
		}
		return modules, nil
	}
	tags, err := gitVersions(ctx, a, root)
	if err != nil {
		return nil, err
	}
	var named []moduleFolder
	for _, m := range modules {
		if v, ok := tags.For(m.dir); ok {
			m.target.Version = v
			named = append(named, m)
		}
	}
	if len(named) == 0 {
		return nil, cli.UsageError("the git tags at HEAD name no folder of %s", root)
	}
	return named, nil
}

func planModules(ctx context.Context, reg *cli.Registries, s cli.ServerFlags, modules []moduleFolder, o depot.ModuleOptions) error {
	to, done, err := openCompared(reg, s)
	if err != nil {
		return err
	}
	plans := []modulePlan{}
	var refused error
	for _, m := range modules {
		p, err := plan(ctx, to, m.dir, m.target, o)
		if err != nil && p.Outcome == "" {
			done()
			return cli.PublishHint(err)
		}
		if err != nil {
			refused = errors.Join(refused, fmt.Errorf("%s: %w", m.dir, err))
		}
		plans = append(plans, p)
	}
	done()
	var text []string
	for _, p := range plans {
		text = append(text, planText(reg.App, p))
	}
	return cmp.Or(reg.PrintResult(plans, strings.Join(text, "\n")), cli.PublishHint(refused))
}

// publishModules publishes one after the other and prints what came of each.
func publishModules(ctx context.Context, reg *cli.Registries, s cli.ServerFlags, modules []moduleFolder, o depot.ModuleOptions) error {
	p, done, err := openPublisher(reg, s)
	if err != nil {
		return err
	}
	all := []depot.Published{}
	var text []string
	var failed error
	failures := 0
	for _, m := range modules {
		out, err := publishModule(ctx, p, m.dir, m.target, o)
		if ctx.Err() != nil {
			done()
			return ctx.Err()
		}
		if err != nil {
			failures++
			failed = errors.Join(failed, fmt.Errorf("%s: %w", m.dir, err))
			continue
		}
		all, text = append(all, out), append(text, out.String())
	}
	done()
	for _, out := range all {
		cli.NotePublished(reg.App, out)
	}
	if err := reg.PrintResult(all, strings.Join(text, "\n")); err != nil || failed == nil {
		return err
	}
	if failures == len(modules) {
		return cli.PublishHint(failed)
	}
	return cli.PartlyError("%d of %d modules failed: %w", failures, len(modules), failed)
}
