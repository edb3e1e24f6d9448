// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/oci"
)

const lockLong = `Complete the dependency lock file of a root module.

Each provider gets the hashes of all its platforms, zh: and h1:, as far as the registry
has them; no package is downloaded. Versions come from the lock file; a provider without
an entry gets the highest version that the required_providers blocks of DIR and its local
modules allow, those of test files included, as init reads them. Other entries, comments and
constraints do not change. If the source of a module depends on variables, it is determined
by their defaults and .tfvars files. With Terraform's --default-host, .tofu files do not count.

A hash that is unknown to the registry is a conflict, and so is a version that the
configuration does not allow: in that case nothing is written, and the exit code is 4.
--check lists what is missing, hash by hash, with the same code.

The host of the registry's own providers is detected from the addresses; --own-host sets
it.

` + policyHelp + ` In that case nothing is written. These flags
require the registry of --registry.

` + sourceHelp + `

Without --from, the registry of --registry is read.

With --modules, it writes .okara.lock.hcl instead: the version and the hash of the files of
each module that init has installed. ` + "`okara tofu`" + ` and ` + "`okara terraform`" + ` refuse to plan and
apply if what is installed differs from it, and their init selects the locked versions.
With --own-host, the modules of that host are compared with what the registry of --registry
has published. --upgrade alone accepts what ` + "`init -upgrade`" + ` has installed; --upgrade=CALL
unlocks the package of a call, for the next init.

Exit codes: 0 complete, 2 usage, 3 no matching version, 4 not complete (--check), needs
that cannot be determined, or a conflict.`

type lockOptions struct {
	from, own   string
	defaultHost string
	check       bool
	modules     bool
	upgrade     []string
	compute     bool
	policy      policyFlags
}

func newLock(up *upstreams) *cobra.Command {
	var o lockOptions
	cmd := &cobra.Command{
		Use:   "lock [DIR]",
		Short: "Complete the dependency lock file for all platforms",
		Long:  lockLong,
		Example: `  okara lock --registry registry.example.com/platform
  okara lock infra --check                 # in CI: exit code 4 if the file is not complete
  okara lock --from registry --compute     # from the origins, downloading every package
  okara lock --modules                     # after tofu init: lock the modules that it installed
  okara lock --require openpgp --openpgp-key release.pub.asc`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := append(args, ".")[0]
			if err := cli.CheckFolder(dir); err != nil {
				return err
			}
			if o.modules && o.from != "" {
				return cli.UsageError("--from is for providers, and cannot be combined with --modules")
			}
			if o.modules {
				return lockModules(cmd.Context(), up, dir, o)
			}
			if o.upgrade != nil {
				return cli.UsageError("--upgrade requires --modules: providers are upgraded by `tofu init -upgrade`")
			}
			return lockFolder(cmd.Context(), up, dir, o)
		},
	}
	f := cmd.Flags()
	addAllowInternal(f, &up.allowed)
	f.StringVar(&o.from, "from", "", "`SOURCE` of the hashes instead of the registry")
	f.StringVar(&o.own, "own-host", "", "`HOST` of the registry's own providers or modules; for providers, detected from the addresses by default")
	f.StringVar(&o.defaultHost, "default-host", "registry.opentofu.org", "`HOST` of provider addresses without one")
	f.BoolVar(&o.check, "check", false, "write nothing; exit with code 4 if the file would change")
	f.BoolVar(&o.modules, "modules", false, "lock the modules that init has installed, in .okara.lock.hcl")
	f.StringArrayVar(&o.upgrade, "upgrade", nil, "with --modules, accept a different package for `CALL`, a path such as network.subnets or a source (repeatable; without a value: for all)")
	f.Lookup("upgrade").NoOptDefVal = " "
	f.BoolVar(&o.compute, "compute", false, "download packages to compute hashes that the source lacks")
	o.policy.addTo(cmd)
	return cmd
}

func lockFolder(ctx context.Context, up *upstreams, dir string, o lockOptions) error {
	name := filepath.Join(dir, lockfile.Name)
	old, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := lockfile.Parse(name, old)
	if err != nil {
		return err
	}
	options := lockfile.Options{Compute: o.compute}
	needs, err := description.RequiredProviders(os.DirFS(dir), dir, o.defaultHost)
	if err != nil {
		if errors.Is(err, description.ErrNoModule) {
			return cli.WithHint(err, "name the folder of a root module, where `tofu init` runs: okara lock DIR")
		}
		return err
	}
	options.Required = needs.Providers
	for _, note := range slices.Concat(needs.Notes, needs.Unknown) {
		up.reg.Note("%s", note)
	}
	if err := o.setHashSources(ctx, up, file, &options); err != nil {
		return err
	}
	now, results, err := file.Complete(ctx, options)
	if err != nil {
		return err
	}
	if len(results)+len(needs.Unknown) == 0 {
		up.reg.Note("%s requires no providers, nothing to lock", dir)
	}
	if err := printLocked(up.reg.App, name, results, o.check); err != nil {
		return err
	}
	isComplete := len(results) == 0 || bytes.Equal(old, now) // the tools write no file without providers
	if !isComplete && !o.check {
		if err := files.Replace(name, now, 0o644); err != nil {
			return err
		}
	}
	switch {
	case len(needs.Unknown) > 0:
		return cli.WithHint(conflict("cannot determine all providers that "+dir+" needs"), "let the sources depend on no more than that, or set their variables in %s", filepath.Join(dir, "terraform.tfvars"))
	case o.check && !isComplete:
		return cli.WithHint(conflict(name+" is not complete"), "run `okara lock %s` and commit the file", dir)
	}
	return nil
}

// conflict is an error with the exit code of a conflict.
type conflict string

func (c conflict) Error() string { return string(c) }

func (conflict) Is(err error) bool { return err == oci.ErrExists }

// setHashSources sets where hashes come from and which versions are allowed.
func (o lockOptions) setHashSources(ctx context.Context, up *upstreams, file *lockfile.File, to *lockfile.Options) error {
	policy, err := o.policy.readPolicy()
	switch {
	case err != nil:
		return err
	case policy != nil && o.from != "":
		return cli.UsageError("--from cannot be combined with a policy: mirror the providers, then lock from the registry")
	case o.from != "":
		to.Source, err = up.providerSource(o.from, o.own)
		return err
	}
	client, layout, err := up.reg.Client()
	if err != nil {
		return err
	}
	d := depot.New(depot.Options{Client: client, Layout: layout})
	if o.own == "" {
		if o.own, err = findOwnHost(ctx, up.reg.App, d, file.Addresses(to.Required)); err != nil {
			return err
		}
	}
	to.Source = supply.RepositorySource(client, layout, o.own)
	to.Versions = func(ctx context.Context, p addr.Provider) ([]addr.Version, error) {
		l, err := d.Versions(ctx, supply.OwnProvider(p, o.own).Item())
		if err != nil {
			return nil, err
		}
		return slices.DeleteFunc(slices.Clone(l.Versions), func(v addr.Version) bool { return l.Status(v).Yanked != nil }), nil
	}
	if policy != nil {
		to.Allowed = func(ctx context.Context, p addr.Provider, v addr.Version) error {
			_, err := d.Verify(ctx, supply.OwnProvider(p, o.own).Item(), v, *policy)
			return err
		}
	}
	return nil
}

// printLocked prints what was done for each provider, or has to be done. Hashes and versions
// that must not be written are errors.
func printLocked(a *cli.App, name string, results []lockfile.Result, check bool) error {
	var lines, conflicts, outdated []string
	for _, r := range results {
		if len(r.Missing) > 0 {
			a.Note("%s %s: the source has no h1: for %s; use --compute to download and compute it", r.Provider, r.Version, strings.Join(r.Missing, ", "))
		}
		lines = append(lines, lockedText(r, check))
		for _, c := range r.Conflicts {
			conflicts = append(conflicts, fmt.Sprintf("%s %s: %s", r.Provider, r.Version, c))
		}
		if r.Wants != "" {
			outdated = append(outdated, fmt.Sprintf("%s %s: the configuration requires %s", r.Provider, r.Version, r.Wants))
		}
	}
	if err := a.PrintResult(results, strings.Join(lines, "\n")); err != nil {
		return err
	}
	switch {
	case len(conflicts) > 0:
		err := conflict(name + " has hashes that are unknown to the source:\n" + strings.Join(conflicts, "\n"))
		return cli.WithHint(err, "either the package was replaced, or the source is a different one; remove the hash manually only if you know why it differs")
	case len(outdated) > 0:
		err := conflict(name + " has versions that the configuration does not allow:\n" + strings.Join(outdated, "\n"))
		return cli.WithHint(err, "okara lock keeps the versions in the file; run `tofu init -upgrade`, or remove the block, to select a new one")
	}
	return nil
}

// lockedText describes what was done for a provider; in a check the hashes that the file
// lacks.
func lockedText(r lockfile.Result, check bool) string {
	at := r.Provider + " " + r.Version + ": "
	switch {
	case !check:
		return fmt.Sprintf("%s%s, %d hashes added", at, r.State, len(r.Added))
	case r.State == "added":
		return at + "not in the file"
	case len(r.Added) > 0:
		return at + "missing\n  " + strings.Join(r.Added, "\n  ")
	}
	return at + r.State
}

// findOwnHost finds the host name by which users address the registry's own providers, and
// reports it: for such an address the registry has no mirrored provider, but an own provider
// of that name. The public registries are excluded. It returns "" if no host qualifies, and
// an error if several do.
func findOwnHost(ctx context.Context, a *cli.App, d *depot.Depot, providers []addr.Provider) (string, error) {
	var hosts []string
	for _, p := range providers {
		if p.Hostname == "registry.opentofu.org" || p.Hostname == "registry.terraform.io" || slices.Contains(hosts, p.Hostname) {
			continue
		}
		mirrored, err := isPublished(ctx, d, p.Item())
		own := false
		if err == nil && !mirrored {
			own, err = isPublished(ctx, d, supply.OwnProvider(p, p.Hostname).Item())
		}
		if err != nil {
			return "", err
		}
		if own {
			hosts = append(hosts, p.Hostname)
		}
	}
	switch len(hosts) {
	case 0:
		return "", nil
	case 1:
		a.Note("using %s as the host of the registry's own providers", hosts[0])
		return hosts[0], nil
	}
	return "", cli.WithHint(fmt.Errorf("own providers of the registry are addressed under several hosts: %s", strings.Join(hosts, ", ")), "specify the host of this registry with --own-host")
}

// isPublished reports whether the registry has a version. Some registries answer
// "denied" for a repository that does not exist.
func isPublished(ctx context.Context, d *depot.Depot, it addr.Item) (bool, error) {
	_, err := d.Versions(ctx, it)
	if errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrDenied) {
		return false, nil
	}
	return err == nil, err
}
