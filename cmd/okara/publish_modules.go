// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/oci/artifact"
)

func newPublishModules(reg *cli.Registries) *cobra.Command {
	var o moduleFlags
	var which modulesFlags
	var server cli.ServerFlags
	cmd := &cobra.Command{
		Use:   "modules ROOT ADDRESS [VERSION]",
		Short: "Publish the modules in the folders of a repository",
		Long: `Publish the modules in the folders of a repository under one version.

net/{name}/aws publishes each folder of ROOT under its name, net/{name}/{system} each
folder SYSTEM/NAME. Folders without configuration are skipped.

VERSION is a semantic version, or "auto" for the one in the git tag. A tag such as
modules/vpc/v1.4.0 names one folder; only that one is published.

With --bump in place of VERSION, only folders that differ from their highest release are
published, each under its own next version. --bump commits takes it from the messages of
the commits since then (https://www.conventionalcommits.org): "feat: ..." makes a minor
version, "feat!: ..." or "BREAKING CHANGE: ..." a major one, all others a patch. okara
show prints their first lines. A release records its commit if a CI job published it;
--since names another one. --dry-run lists what would be published; with --markdown it is
a comment for a merge request, which also says what breaks callers.

` + serverHelp + `

Modules that use each other by ../NAME require --package-root: each is then published
with that whole folder, and its users address //SUBDIR.

A dry run prints exactly what the run would do. If one module would be refused, nothing
is published, unless --keep-going is set.

Prints one line repository:tag@digest per module.

Exit codes: 0 all published or already there, 2 usage, 4 all versions exist with
different content, 6 some failed, or would be refused. A dry run has the code of the
run.`,
		Example: `  okara publish modules ./modules net/{name}/aws 1.4.0
  okara publish modules ./modules acme/{name}/{system} auto
  okara publish modules ./modules net/{name}/aws --bump commits
  okara publish modules ./modules net/{name}/aws --bump commits --dry-run --markdown`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 3 && which.version != "" {
				return cli.UsageError("VERSION cannot be combined with --version")
			}
			which.version = cmp.Or(which.version, strings.Join(args[2:], ""))
			if err := which.checkVersionFlags(o.dryRun); err != nil {
				return err
			}
			modules, err := findModules(args[0], args[1])
			if err != nil {
				return err
			}
			if err := packBelow(modules, which.packageRoot); err != nil {
				return err
			}
			options, err := o.moduleOptions(reg.App)
			if err != nil {
				return err
			}
			defer noteUnnamed(reg.App, options.Hold)
			if which.bump != "" {
				return publishChanged(cmd.Context(), reg, server, modules, which, o.dryRun, options)
			}
			if modules, err = withVersions(cmd.Context(), reg.App, args[0], modules, which.version); err != nil {
				return err
			}
			if o.dryRun {
				return planModules(cmd.Context(), reg, server, modules, options, which.keepGoing)
			}
			return publishModules(cmd.Context(), reg, server, modules, options, which.keepGoing)
		},
	}
	o.addTo(reg.App, cmd.Flags())
	server.Add(cmd.Flags())
	which.addTo(reg.App, cmd.Flags())
	return cmd
}

type modulesFlags struct {
	version, bump, since, packageRoot string
	markdown, keepGoing               bool
}

func (m *modulesFlags) addTo(a *cli.App, f *pflag.FlagSet) {
	f.StringVar(&m.version, "version", "", "")
	a.Deprecate(f, "version", "put VERSION after ADDRESS")
	f.StringVar(&m.bump, "bump", "", "publish what has changed, raising each version by `major|minor|patch|commits`; commits derives it from commit messages")
	f.StringVar(&m.since, "since", "", "read the commits since this `REVISION` instead of since the release")
	f.StringVar(&m.packageRoot, "package-root", "", "pack this parent `DIR` of the modules with each of them")
	f.BoolVar(&m.keepGoing, "keep-going", false, "publish the others if some would be refused")
	f.BoolVar(&m.markdown, "markdown", false, "with --bump and --dry-run: print the text of a comment on a merge request")
}

func (m *modulesFlags) checkVersionFlags(dryRun bool) error {
	switch {
	case m.version == "" && m.bump == "":
		return cli.WithHint(cli.UsageError("VERSION or --bump is required"), "specify VERSION after ADDRESS, or --bump commits")
	case m.version != "" && m.bump != "":
		return cli.UsageError("VERSION cannot be combined with --bump")
	case m.bump != "" && !slices.Contains([]string{addr.Major, addr.Minor, addr.Patch, bumpCommits}, m.bump):
		return cli.UsageError("invalid --bump %s: must be major, minor, patch or commits", m.bump)
	case m.since != "" && m.bump == "":
		return cli.UsageError("--since requires --bump")
	case m.markdown && (m.bump == "" || !dryRun):
		return cli.UsageError("--markdown requires --bump and --dry-run")
	}
	return nil
}

type moduleFolder struct {
	dir         string
	title       string // the address as it is written
	root, below string // the folder that is packed, and where the module is in it
	target      addr.ModuleVersion
	annotations map[string]string // nil: those of the options
	refused     error             // why no version could be chosen for it
}

func (m moduleFolder) folderOptions(o depot.ModuleOptions) depot.ModuleOptions {
	o.Dir = m.below
	if m.annotations != nil {
		o.Annotations = m.annotations
	}
	o.Annotations = withTitle(o.Annotations, m.title)
	return o
}

// packBelow lets each module be packed with the folder root, "" for its own alone.
func packBelow(modules []moduleFolder, root string) (err error) {
	for i, m := range modules {
		modules[i].root = cmp.Or(root, m.dir)
		if modules[i].below, err = dirBelow(root, m.dir); err != nil {
			return err
		}
	}
	return nil
}

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
		if ok, err := hasModule(tree.FS(), name); !ok || err != nil {
			return cmp.Or(err, fs.SkipDir)
		}
		s := strings.Replace(address, "{name}", path.Base(name), 1)
		s = strings.Replace(s, "{system}", path.Dir(name), 1)
		m, err := addr.ParseModule(s)
		if err != nil {
			return cli.UsageError("%s: %w", dir, err)
		}
		if i := slices.IndexFunc(found, func(f moduleFolder) bool { return f.target.Module == m }); i >= 0 {
			return cli.UsageError("%s and %s have the same address, %s", found[i].dir, dir, m)
		}
		found = append(found, moduleFolder{dir: dir, title: s, target: addr.ModuleVersion{Module: m}})
		return fs.SkipDir
	})
	if err == nil && len(found) == 0 {
		err = cli.WithHint(cli.UsageError("%s has no folders with modules", root), "name the folder above the modules; for one module use `okara publish module %s ADDRESS VERSION`", root)
	}
	return found, err
}

// withTitle returns the annotations of a module whose address is written so.
func withTitle(annotations map[string]string, address string) map[string]string {
	all := map[string]string{artifact.AnnTitle: address}
	maps.Copy(all, annotations)
	return all
}

func hasConfiguration(tree fs.FS, dir string) (bool, error) {
	entries, err := fs.ReadDir(tree, dir)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return description.IsConfiguration(e.Name()) }), err
}

// hasModule reports whether dir, or a folder of dir/modules, has configuration.
func hasModule(tree fs.FS, dir string) (bool, error) {
	has, err := hasConfiguration(tree, dir)
	below := path.Join(dir, "modules")
	if info, e := fs.Stat(tree, below); has || err != nil || e != nil || !info.IsDir() {
		return has, err
	}
	entries, err := fs.ReadDir(tree, below)
	for _, e := range entries {
		if e.IsDir() && !has && err == nil {
			has, err = hasConfiguration(tree, path.Join(below, e.Name()))
		}
	}
	return has, err
}

// withVersions sets the version and leaves out modules that the git tags do not name.
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
		return nil, cli.UsageError("no git tag at HEAD matches a folder of %s", root)
	}
	return named, nil
}

// parallelModules is how many modules are compared or published at once. A registry that limits
// requests answers 429, after which each waits.
const parallelModules = 8

// forEachModule calls do for each module, several at once, until one fails or the context ends.
func forEachModule(ctx context.Context, modules []moduleFolder, do func(ctx context.Context, i int, m moduleFolder) error) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelModules)
	for i, m := range modules {
		g.Go(func() error {
			if gctx.Err() != nil {
				return gctx.Err()
			}
			return do(gctx, i, m)
		})
	}
	err := g.Wait()
	return cmp.Or(ctx.Err(), err)
}

// planEach plans the publication of each module, and returns the errors of those that would be
// refused by folder.
func planEach(ctx context.Context, p publisher, modules []moduleFolder, o depot.ModuleOptions) (plans []modulePlan, refused map[string]error, err error) {
	plans = make([]modulePlan, len(modules))
	errs := make([]error, len(modules))
	err = forEachModule(ctx, modules, func(ctx context.Context, i int, m moduleFolder) error {
		if errs[i] = m.refused; errs[i] == nil {
			plans[i], errs[i] = planPublishing(ctx, p, m.root, m.target, m.folderOptions(o))
		}
		return nil
	})
	refused = map[string]error{}
	for i, err := range errs {
		if err != nil {
			refused[modules[i].dir] = err
			plans[i].Address = modules[i].target.Module.String()
			plans[i].Version = modules[i].target.Version.String()
			plans[i].Error = err.Error()
		}
	}
	return plans, refused, err
}

// refusedError is the error for modules of which some are refused; nil if none is. With those
// that have not changed they are total.
func refusedError(modules []moduleFolder, refused map[string]error, total int, keepGoing bool) error {
	var all error
	for _, m := range modules {
		if err := refused[m.dir]; err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", m.dir, err))
		}
	}
	switch {
	case all == nil:
		return nil
	case len(refused) == total:
		return cli.PublishHint(all)
	case keepGoing:
		return cli.PartlyError("%d of %d modules failed: %w", len(refused), total, all)
	}
	return cli.PartlyError("%w", cli.PublishHint(fmt.Errorf("%d of %d modules would be refused, nothing published without --keep-going: %w", len(refused), total, all)))
}

func planModules(ctx context.Context, reg *cli.Registries, s cli.ServerFlags, modules []moduleFolder, o depot.ModuleOptions, keepGoing bool) error {
	to, done, err := openCompared(reg, s)
	if err != nil {
		return err
	}
	plans, refused, err := planEach(ctx, to, modules, o)
	done()
	if err != nil {
		return err
	}
	var text []string
	for _, p := range plans {
		if p.Error == "" || p.Outcome != "" {
			text = append(text, "module\t"+p.Address+"\t"+p.Version+"\n"+planText(reg.App, p))
		}
	}
	return cmp.Or(reg.PrintResult(plans, strings.Join(text, "\n")), refusedError(modules, refused, len(modules), keepGoing))
}

func publishModules(ctx context.Context, reg *cli.Registries, s cli.ServerFlags, modules []moduleFolder, o depot.ModuleOptions, keepGoing bool) error {
	p, done, err := openPublisher(reg, s)
	if err != nil {
		return err
	}
	defer done()
	return publishPlanned(ctx, reg.App, p, done, modules, len(modules), o, keepGoing)
}

// publishPlanned publishes the modules and prints the outcome of each; none is published if one
// would be refused and keepGoing is not set. With those that have not changed they are total.
func publishPlanned(ctx context.Context, a *cli.App, p publisher, done func(), modules []moduleFolder, total int, o depot.ModuleOptions, keepGoing bool) error {
	b := batch{all: []depot.Published{}, total: total}
	if len(modules) > 1 && !keepGoing {
		_, refused, err := planEach(ctx, p, modules, o)
		if err = cmp.Or(err, refusedError(modules, refused, total, false)); err != nil {
			return err
		}
	}
	outs := make([]depot.Published, len(modules))
	errs := make([]error, len(modules))
	err := forEachModule(ctx, modules, func(ctx context.Context, i int, m moduleFolder) error {
		if errs[i] = m.refused; errs[i] == nil {
			outs[i], errs[i] = publishModule(ctx, p, m.root, m.target, m.folderOptions(o))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, m := range modules {
		b.addOutcome(m, outs[i], errs[i])
	}
	done() // ends the progress before anything is printed
	return b.print(a)
}

type batch struct {
	all     []depot.Published
	failed  error
	refused []depot.Published // only with their warnings
	total   int               // modules, with those that have not changed
}

func (b *batch) addOutcome(m moduleFolder, out depot.Published, err error) {
	for i, w := range out.Warnings {
		out.Warnings[i] = m.dir + ": " + w
	}
	if err != nil {
		b.refused = append(b.refused, out)
		b.failed = errors.Join(b.failed, fmt.Errorf("%s: %w", m.dir, err))
		return
	}
	b.all = append(b.all, out)
}

func (b *batch) print(a *cli.App) error {
	var text []string
	for _, out := range b.refused {
		cli.NoteWarnings(a, out)
	}
	for _, out := range b.all {
		cli.NotePublished(a, out)
		text = append(text, out.String())
	}
	if err := a.PrintResult(b.all, strings.Join(text, "\n")); err != nil || b.failed == nil {
		return err
	}
	if len(b.refused) == b.total {
		return cli.PublishHint(b.failed)
	}
	return cli.PartlyError("%d of %d modules failed: %w", len(b.refused), b.total, b.failed)
}
