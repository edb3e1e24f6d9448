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
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/diskfile"
	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
)

const lockFileName = ".terraform.lock.hcl"

const lockLong = `Complete the dependency lock file of a root module.

Each provider gets the hashes of all its platforms, zh: and h1:, as far as the
registry's manifests tell them, and those in the signed SHA256SUMS. No package
is downloaded. Versions come from the lock file; a provider without an entry is
resolved from the required_providers blocks in DIR and in the local modules it
calls. Other entries, comments and constraints stay as they are.

A hash in the file that the registry does not know is a conflict: nothing is
written then, and the exit code is 4.

` + policyHelp + ` Nothing is written then. These flags need the
registry of --registry.

` + sourceHelp + `

Without --from, the registry of --registry is read.`

// lockOptions are the flags of okara lock.
type lockOptions struct {
	from, own   string
	defaultHost string
	check       bool
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
  okara lock --require openpgp --openpgp-key release.pub.asc`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return lockFolder(cmd.Context(), up, append(args, ".")[0], o)
		},
	}
	f := cmd.Flags()
	addAllowInternal(f, &up.allowed)
	f.StringVar(&o.from, "from", "", "`SOURCE` of the hashes instead of the registry")
	f.StringVar(&o.own, "own-host", "", "`HOST` name under which the registry's own providers are addressed")
	f.StringVar(&o.defaultHost, "default-host", "registry.opentofu.org", "`HOST` of provider addresses that name none")
	f.BoolVar(&o.check, "check", false, "write nothing; exit with code 4 if the file would change")
	f.BoolVar(&o.compute, "compute", false, "download packages to compute hashes that the source does not tell")
	o.policy.add(cmd)
	return cmd
}

func lockFolder(ctx context.Context, up *upstreams, dir string, o lockOptions) error {
	policy, err := o.policy.read()
	if err != nil {
		return err
	}
	if policy != nil && o.from != "" {
		return usageError("--from and a policy exclude each other: mirror the providers, and lock from the registry")
	}
	options := lockfile.Options{DefaultHost: o.defaultHost, Compute: o.compute}
	if options.Source, err = lockSource(up, o); err != nil {
		return err
	}
	if options.Allowed, err = lockAllowed(up.registries, o.own, policy); err != nil {
		return err
	}
	name := filepath.Join(dir, lockFileName)
	old, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := lockfile.Parse(name, old)
	if err != nil {
		return err
	}
	now, results, err := file.Complete(ctx, os.DirFS(dir), options)
	if err != nil {
		return err
	}
	if err := printLocked(up.app, name, results); err != nil {
		return err
	}
	switch {
	case bytes.Equal(old, now):
		return nil
	case o.check:
		return withHint(fmt.Errorf("%s is not complete: %w", name, oci.ErrExists), "run `okara lock` and commit the file")
	}
	return diskfile.Replace(name, now, 0o644)
}

// lockAllowed asks the policy, nil for none.
func lockAllowed(reg *registries, own string, policy *trust.Policy) (func(context.Context, addr.Provider, addr.Version) error, error) {
	if policy == nil {
		return nil, nil
	}
	client, layout, err := reg.registryClient()
	if err != nil {
		return nil, err
	}
	d := depot.New(depot.Options{Client: client, Layout: layout})
	return func(ctx context.Context, p addr.Provider, v addr.Version) error {
		_, err := d.Verify(ctx, supply.OwnProvider(p, own).Item(), v, *policy)
		return err
	}, nil
}

func lockSource(up *upstreams, o lockOptions) (depot.Source, error) {
	if o.from != "" {
		return up.providerSource(o.from, o.own)
	}
	client, layout, err := up.registryClient()
	if err != nil {
		return nil, err
	}
	return supply.RepositorySource(client, layout, o.own), nil
}

// printLocked prints what was done with each provider. A conflict is an error.
func printLocked(a *app, name string, results []lockfile.Result) error {
	var lines, conflicts []string
	for _, r := range results {
		if len(r.Missing) > 0 {
			a.note("%s %s: the source tells no h1: for %s; --compute downloads and computes it", r.Provider, r.Version, strings.Join(r.Missing, ", "))
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s, %d hashes added", r.Provider, r.Version, r.State, len(r.Added)))
		for _, c := range r.Conflicts {
			conflicts = append(conflicts, fmt.Sprintf("%s %s: %s", r.Provider, r.Version, c))
		}
	}
	if err := a.printResult(results, strings.Join(lines, "\n")); err != nil {
		return err
	}
	if len(conflicts) > 0 {
		err := fmt.Errorf("%s has hashes that the source does not know:\n%s\n%w", name, strings.Join(conflicts, "\n"), oci.ErrExists)
		return withHint(err, "either the package was replaced or the source is another one; remove the hash by hand only if you know why")
	}
	return nil
}
