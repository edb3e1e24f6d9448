// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

// bumpFlag asks for the version after the highest one.
type bumpFlag struct{ part string }

// bumpArgs wants a folder, an address and a version, or --bump in its place.
func bumpArgs(cmd *cobra.Command, args []string) error {
	if !cmd.Flags().Changed("bump") {
		return cobra.ExactArgs(3)(cmd, args)
	}
	if len(args) != 2 {
		return cli.WithHint(cli.UsageError("--bump takes the place of the version, and %d arguments are given beside it", len(args)),
			"write %s DIR NAMESPACE/NAME/SYSTEM --bump minor", cmd.CommandPath())
	}
	return nil
}

// target is what the command line names; with --bump without a version, until
// [bumpFlag.after] has asked.
func (b bumpFlag) target(ctx context.Context, reg *cli.Registries, args []string) (m addr.ModuleVersion, err error) {
	if m.Module, err = addr.ParseModule(args[1]); err != nil {
		return m, cli.UsageError("%w", err)
	}
	switch {
	case b.part == "":
		m.Version, err = publishVersion(ctx, reg.App, args[2], args[0])
	case !slices.Contains([]string{addr.Major, addr.Minor, addr.Patch}, b.part):
		err = cli.UsageError("--bump %s is not major, minor or patch", b.part)
	}
	return m, err
}

// after sets the version that --bump asks for. Without the flag it asks nobody.
func (b bumpFlag) after(ctx context.Context, p publisher, m *addr.ModuleVersion) error {
	if b.part == "" {
		return nil
	}
	l, err := p.Versions(ctx, m.Module.Item())
	if errors.Is(err, oci.ErrNotFound) {
		l, err = &depot.Listing{}, nil
	}
	if err != nil {
		return err
	}
	m.Version, err = l.Next(b.part)
	return err
}

// plan prints what would be published.
func (b bumpFlag) plan(ctx context.Context, reg *cli.Registries, s cli.ServerFlags, root string, m addr.ModuleVersion, o depot.ModuleOptions) error {
	if b.part != "" {
		p, done, err := openPublisher(reg, s)
		if err != nil {
			return err
		}
		err = b.after(ctx, p, &m)
		done()
		if err != nil {
			return cli.PublishHint(err)
		}
	}
	return planModule(ctx, reg, s, root, m, o)
}
