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
	"github.com/seed-141914ff/okara/internal/moduledoc"
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

// lockResult is what okara lock did with one provider.
type lockResult struct {
	Provider  string   `json:"provider"`
	Version   string   `json:"version"`
	State     string   `json:"state"` // complete, updated, added, incomplete, conflict
	Added     []string `json:"added,omitempty"`
	Missing   []string `json:"missing,omitempty"` // platforms without h1:
	Conflicts []string `json:"conflicts,omitempty"`
	Verified  bool     `json:"verified"`
}

func newLock(a *app) *cobra.Command {
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
			return a.lock(cmd.Context(), append(args, ".")[0], o)
		},
	}
	f := cmd.Flags()
	addAllowInternal(f, &a.origins.allowed)
	f.StringVar(&o.from, "from", "", "`SOURCE` of the hashes instead of the registry")
	f.StringVar(&o.own, "own-host", "", "`HOST` name under which the registry's own providers are addressed")
	f.StringVar(&o.defaultHost, "default-host", "registry.opentofu.org", "`HOST` of provider addresses that name none")
	f.BoolVar(&o.check, "check", false, "write nothing; exit with code 4 if the file would change")
	f.BoolVar(&o.compute, "compute", false, "download packages to compute hashes that the source does not tell")
	o.policy.add(cmd)
	return cmd
}

func (a *app) lock(ctx context.Context, dir string, o lockOptions) error {
	policy, err := o.policy.read()
	if err != nil {
		return err
	}
	if policy != nil && o.from != "" {
		return usageError("--from and a policy exclude each other: mirror the providers, and lock from the registry")
	}
	src, err := a.lockSource(o)
	if err != nil {
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
	entries, err := lockEntries(ctx, src, dir, file, o)
	if err != nil {
		return err
	}
	if err := a.lockAllowed(ctx, entries, o.own, policy); err != nil {
		return err
	}
	var results []lockResult
	var conflicts []string
	for i := range entries {
		r, err := a.lockOne(ctx, src, &entries[i], file, o)
		if err != nil {
			return err
		}
		results = append(results, r)
		for _, c := range r.Conflicts {
			conflicts = append(conflicts, fmt.Sprintf("%s %s: %s", r.Provider, r.Version, c))
		}
	}
	if err := a.printResult(results, lockText(results)); err != nil {
		return err
	}
	if len(conflicts) > 0 {
		err := fmt.Errorf("%s has hashes that the source does not know:\n%s\n%w", name, strings.Join(conflicts, "\n"), oci.ErrExists)
		return withHint(err, "either the package was replaced or the source is another one; remove the hash by hand only if you know why")
	}
	return a.writeLock(name, old, file.With(entries), o.check)
}

// lockAllowed checks the versions of the entries against the policy, nil for
// none.
func (a *app) lockAllowed(ctx context.Context, entries []lockfile.Provider, own string, policy *depot.VerifyOptions) error {
	if policy == nil {
		return nil
	}
	client, layout, err := a.registryClient()
	if err != nil {
		return err
	}
	d := depot.New(depot.Options{Client: client, Layout: layout})
	for _, e := range entries {
		if _, err := d.Verify(ctx, depot.ProviderRepository(layout, e.Address, own), e.Version, *policy); err != nil {
			return fmt.Errorf("locking %s %s: %w", e.Address, e.Version, err)
		}
	}
	return nil
}

func (a *app) writeLock(name string, old, now []byte, check bool) error {
	switch {
	case bytes.Equal(old, now):
		return nil
	case check:
		return withHint(fmt.Errorf("%s is not complete: %w", name, oci.ErrExists), "run `okara lock` and commit the file")
	}
	return diskfile.Replace(name, now, 0o644)
}

func (a *app) lockSource(o lockOptions) (depot.Source, error) {
	if o.from != "" {
		return a.providerSource(o.from, o.own)
	}
	client, layout, err := a.registryClient()
	if err != nil {
		return nil, err
	}
	return depot.RepositorySource(client, layout, o.own), nil
}

// lockEntries returns the entries of the file and new ones for providers that
// the configuration requires.
func lockEntries(ctx context.Context, src depot.Source, dir string, file *lockfile.File, o lockOptions) ([]lockfile.Provider, error) {
	entries := append([]lockfile.Provider(nil), file.Providers...)
	required, err := moduledoc.RequiredProviders(os.DirFS(dir), o.defaultHost)
	if err != nil {
		return nil, err
	}
	for _, r := range required {
		if _, ok := file.Find(r.Address); ok {
			continue
		}
		v, err := newestAllowed(ctx, src, r)
		if err != nil {
			return nil, err
		}
		entries = append(entries, lockfile.Provider{
			Address: r.Address, Label: r.Address.String(), Version: v, Constraints: r.Text,
		})
	}
	return entries, nil
}

func newestAllowed(ctx context.Context, src depot.Source, r moduledoc.RequiredProvider) (addr.Version, error) {
	versions, err := src.Versions(ctx, r.Address)
	if err != nil {
		return addr.Version{}, err
	}
	for _, v := range versions {
		if r.Versions.Allows(v) {
			return v, nil
		}
	}
	return addr.Version{}, fmt.Errorf("%s: no version of %s matches %q: %w", r.Where, r.Address, r.Text, oci.ErrNotFound)
}

// lockOne fills in the hashes of one entry.
func (a *app) lockOne(ctx context.Context, src depot.Source, e *lockfile.Provider, file *lockfile.File, o lockOptions) (lockResult, error) {
	now, err := lockfile.Hashes(ctx, src, e.Address, e.Version, o.compute)
	if err != nil {
		return lockResult{}, fmt.Errorf("locking %s %s: %w", e.Address, e.Version, err)
	}
	r := lockResult{Provider: e.Address.String(), Version: e.Version.String(), State: "complete", Verified: now.Verified}
	merged, conflicts := lockfile.Merge(*e, now)
	r.Conflicts = conflicts
	have := map[string]bool{}
	for _, h := range e.Hashes {
		have[h] = true
	}
	for _, h := range merged.Hashes {
		if !have[h] {
			r.Added = append(r.Added, h)
		}
	}
	for _, t := range now.Missing {
		r.Missing = append(r.Missing, t.String())
	}
	switch _, known := file.Find(e.Address); {
	case len(conflicts) > 0:
		r.State = "conflict"
	case !known:
		r.State = "added"
	case len(r.Missing) > 0:
		r.State = "incomplete"
	case len(r.Added) > 0:
		r.State = "updated"
	}
	if len(r.Missing) > 0 {
		a.note("%s %s: the source tells no h1: for %s; --compute downloads and computes it", r.Provider, r.Version, strings.Join(r.Missing, ", "))
	}
	*e = merged
	return r, nil
}

func lockText(results []lockResult) string {
	var lines []string
	for _, r := range results {
		lines = append(lines, fmt.Sprintf("%s %s: %s, %d hashes added", r.Provider, r.Version, r.State, len(r.Added)))
	}
	return strings.Join(lines, "\n")
}
