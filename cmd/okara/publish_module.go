// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/checkout"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

func newPublishModule(reg *cli.Registries) *cobra.Command {
	var o moduleFlags
	var packageRoot string
	var server cli.ServerFlags
	var bump bumpFlag
	cmd := &cobra.Command{
		Use:   "module DIR NAMESPACE/NAME/SYSTEM VERSION",
		Short: "Publish a folder as a version of a module",
		Long: `Publish a folder as a version of a module.

The same files always have the same digest. .git, .terraform, state files and what
.terraformignore and .tfignore name are excluded. Variable files (*.tfvars, .env), plans,
private keys and files that git ignores are skipped with a warning; --include adds
them. Files that git tracks are included, and under examples also *.tfvars. --dry-run
lists the files, with the reasons, and shows whether the version is new, unchanged or in
conflict. A configuration that does not parse, declares something twice or uses
undeclared variables is refused.

VERSION is a semantic version, or "auto" for the one in the git tag. With --bump it is
the one after the highest release, withdrawn ones included: the first is 0.1.0, or 1.0.0
with --bump major. If the highest release has the same content, its version is used.

Published versions never change: publishing the same content again succeeds, other
content is refused, and the number of a withdrawn version is not reused. With --policy
editions, other content becomes the version, and the old one is still there as an edition.

` + serverHelp + `

Prints repository:tag@digest.

Exit codes: 0 published or already there, 2 usage, 4 the version exists with different
content, 5 denied.`,
		Example: `  okara publish module ./vpc net/vpc/aws 1.4.0 --registry registry.example.com/platform
  okara publish module . net/vpc/aws auto
  okara publish module ./vpc net/vpc/aws --bump minor
  okara publish module ./vpc net/vpc/aws 1.4.0 --dry-run
  okara publish module ./vpc net/vpc/aws 1.4.0 --server https://okara.example.com`,
		Args: bumpArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := bump.target(cmd.Context(), reg, args)
			if err != nil {
				return err
			}
			options, err := o.moduleOptions(reg.App)
			if err != nil {
				return err
			}
			options.Annotations = withTitle(options.Annotations, args[1])
			defer noteUnnamed(reg.App, options.Hold)
			root := cmp.Or(packageRoot, args[0])
			if options.Dir, err = dirBelow(packageRoot, args[0]); err != nil {
				return err
			}
			if o.validate {
				if err := validateModule(cmd.Context(), reg.App, root, target, options); err != nil {
					return err
				}
			}
			if o.dryRun {
				return bump.printPlan(cmd.Context(), reg, server, root, target, options)
			}
			return publishOne(reg, server, func(p publisher) (depot.Published, error) {
				if err := bump.setBumpedVersion(cmd.Context(), reg.App, p, root, &target, options); err != nil {
					return depot.Published{}, err
				}
				return publishModule(cmd.Context(), p, root, target, options)
			})
		},
	}
	o.addTo(reg.App, cmd.Flags())
	cmd.Flags().Lookup("force").Usage += ": by okara's own checks, or by the tool with --validate"
	server.Add(cmd.Flags())
	cmd.Flags().BoolVar(&o.validate, "validate", false, "run init and validate of tofu or terraform in a copy of the files first")
	cmd.Flags().StringVar(&bump.part, "bump", "", "publish the version after the highest release, with the next `major|minor|patch` number")
	cmd.Flags().StringVar(&packageRoot, "package-root", "", "pack this parent `DIR` of the module; users then address //SUBDIR")
	return cmd
}

// dirBelow is the path of dir relative to root; "" without a root.
func dirBelow(root, dir string) (string, error) {
	if root == "" {
		return "", nil
	}
	below, err := filepath.Rel(root, dir)
	if err != nil || strings.HasPrefix(below, "..") {
		return "", cli.UsageError("%s is not inside --package-root %s", dir, root)
	}
	return filepath.ToSlash(below), nil
}

type moduleFlags struct {
	o       depot.ModuleOptions
	include []string
	policy  string

	dryRun, validate bool
}

func (m *moduleFlags) addTo(a *cli.App, f *pflag.FlagSet) {
	f.BoolVar(&m.dryRun, "dry-run", false, "show which files would be included and excluded, compare with the registry, and push nothing")
	f.StringArrayVar(&m.include, "include", nil, "include skipped files that match `GLOB`, as in .gitignore (repeatable)")
	f.Bool("dereference", false, "")
	a.Deprecate(f, "dereference", "symbolic links inside the folder are included without it")
	f.BoolVar(&m.o.NoLatest, "no-latest", false, "do not move the tag latest")
	f.BoolVar(&m.o.AllowInvalid, "force", false, "publish a configuration that tofu init or validate refuses")
	f.StringVar(&m.policy, "policy", string(depot.PolicyImmutable), "policy for different content under an existing version: `immutable|editions`")
	f.IntVar(&m.o.Limits.Files, "max-files", 10_000, "maximum number of files in a module")
}

func (m *moduleFlags) moduleOptions(a *cli.App) (depot.ModuleOptions, error) {
	policy, err := depot.ParsePolicy(m.policy)
	if err != nil {
		return depot.ModuleOptions{}, cli.UsageError("%w", err)
	}
	if m.o.Limits.Files < 1 || m.o.Limits.Files > archive.MaxFiles {
		return depot.ModuleOptions{}, cli.UsageError("--max-files %d: must be 1 to %d, the most that can be pulled", m.o.Limits.Files, archive.MaxFiles)
	}
	o := m.o
	o.Policy = policy
	for _, glob := range m.include {
		if strings.Trim(glob, " /") == "" || strings.HasPrefix(glob, "!") {
			return o, cli.UsageError("--include %q is not a glob of files to include; exclude files with .terraformignore", glob)
		}
	}
	o.Hold = &archive.HoldBack{Include: m.include, Named: &sync.Map{}}
	o.Annotations, err = publishAnnotations(a)
	return o, err
}

// noteUnnamed warns about globs of --include that match nothing in the folders read.
func noteUnnamed(a *cli.App, hold *archive.HoldBack) {
	for _, glob := range hold.Include {
		if named, read := hold.Named.Load(glob); read && named == false {
			a.Note("warning: --include %s matches no file; use the syntax of .gitignore, with / for a path", text.Excerpt(glob))
		}
	}
}

// publishModule publishes the publisher's own folder. Warnings are printed even on failure.
func publishModule(ctx context.Context, p publisher, dir string, m addr.ModuleVersion, o depot.ModuleOptions) (depot.Published, error) {
	tree, err := cli.OpenOwn(ctx, dir, &o)
	if err != nil {
		return depot.Published{}, err
	}
	defer tree.Close()
	cli.KeepRules(ctx, p, tree.FS(), m, &o)
	out, err := p.PublishModule(ctx, tree.FS(), m, o)
	out.Warnings = append(out.Warnings, cli.HeldBack(o.Hold)...)
	return out, err
}

type modulePlan struct {
	Address       string        `json:"address"`
	Version       string        `json:"version"`
	ContentDigest string        `json:"content_digest"`
	Outcome       string        `json:"outcome,omitempty"` // new, same or conflict; "": not compared with a registry
	Bytes         int64         `json:"bytes"`
	Files         []plannedFile `json:"files"`
	Dropped       []droppedFile `json:"dropped"`
	Warnings      []string      `json:"warnings,omitempty"`
	Error         string        `json:"error,omitempty"` // why it would be refused
}

type plannedFile struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

type droppedFile struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// planPublishing describes what publishing dir would ship, and the outcome at p, if p is not nil. A
// conflict is an outcome and also an error.
func planPublishing(ctx context.Context, p publisher, dir string, m addr.ModuleVersion, o depot.ModuleOptions) (modulePlan, error) {
	tree, err := cli.OpenOwn(ctx, dir, &o)
	if err != nil {
		return modulePlan{}, err
	}
	defer tree.Close()
	if p != nil {
		cli.KeepRules(ctx, p, tree.FS(), m, &o)
	}
	plan, err := depot.PlanModule(ctx, tree.FS(), m, o)
	if err != nil {
		return modulePlan{}, err
	}
	out := modulePlan{
		Address: m.Module.String(), Version: m.Version.String(), Bytes: plan.Tree.Bytes,
		Files: []plannedFile{}, Dropped: []droppedFile{}, Warnings: append(plan.Warnings, cli.HeldBack(o.Hold)...),
	}
	for _, f := range plan.Tree.Files {
		out.Files = append(out.Files, plannedFile{f.Path, f.Size})
	}
	for _, f := range plan.Tree.Dropped {
		out.Dropped = append(out.Dropped, droppedFile{f.Path, f.Reason})
	}
	if out.ContentDigest, err = plan.Tree.ContentDigest(ctx); err != nil || p == nil {
		return out, err
	}
	existing, err := p.ModuleThere(ctx, m, plan, o)
	out.Outcome = outcomeOf(existing, err)
	return out, err
}

func planModule(ctx context.Context, reg *cli.Registries, s cli.ServerFlags, dir string, m addr.ModuleVersion, o depot.ModuleOptions) error {
	to, done, err := openCompared(reg, s)
	if err != nil {
		return err
	}
	p, err := planPublishing(ctx, to, dir, m, o)
	done()
	if err != nil && p.Outcome == "" {
		return cli.PublishHint(err)
	}
	return cmp.Or(reg.PrintResult(p, planText(reg.App, p)), cli.PublishHint(err))
}

// outcomeOf is the outcome of a publication; "": the error leaves it unknown.
func outcomeOf(existing bool, err error) string {
	switch {
	case errors.Is(err, oci.ErrExists):
		return "conflict"
	case err != nil:
		return ""
	case existing:
		return "same"
	}
	return "new"
}

// planText lists the files; the total goes to stderr.
func planText(a *cli.App, p modulePlan) string {
	var list strings.Builder
	for _, f := range p.Files {
		fmt.Fprintf(&list, "include\t%s\t%d\n", f.Path, f.Size)
	}
	for _, f := range p.Dropped {
		fmt.Fprintf(&list, "exclude\t%s\t%s\n", f.Path, f.Reason)
	}
	for _, w := range p.Warnings {
		a.Note("warning: %s", w)
	}
	a.Note("%s %s%s: %s, %s, content %s; nothing was pushed", p.Address, p.Version, outcomeText(p.Outcome), text.Plural(len(p.Files), "file"), text.Plural(p.Bytes, "byte"), p.ContentDigest)
	return strings.TrimSuffix(list.String(), "\n")
}

func outcomeText(outcome string) string {
	switch outcome {
	case "new":
		return ", new in the registry"
	case "same":
		return ", already in the registry"
	case "conflict":
		return ", which the registry would refuse"
	}
	return ""
}

func publishAnnotations(a *cli.App) (map[string]string, error) {
	annotations, err := checkout.Annotations(a.Getenv)
	if err != nil {
		return nil, cli.UsageError("%w", err)
	}
	return annotations, nil
}
