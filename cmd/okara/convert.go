// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

func newConvert(reg *cli.Registries) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "package REPOSITORY:TAG NAMESPACE/NAME/SYSTEM VERSION",
		SuggestFor: []string{"convert"},
		Short:      "Publish a module package of another tool with all of okara's layers",
		Long: `Publish a module package created by another tool, such as oras push, with all layers:
OpenTofu needs the zip only, Flux needs a tar.gz, and okara serve and okara show read
a description. The package does not change; its files are published as a separate
version.

Prints repository:tag@digest.

Exit codes: 0 published or already there, 2 usage, 3 package not found, 4 the version
exists with different content.`,
		Example: `  okara publish package ghcr.io/acme/terraform-vpc:1.0.0 net/vpc/aws 1.0.0`,
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := addr.ParseModule(args[1])
			if err != nil {
				return cli.UsageError("%w", err)
			}
			v, err := addr.ParseVersion(args[2])
			if err != nil {
				return cli.UsageError("%w", err)
			}
			from, tag, err := openTag(cmd.Context(), reg, args[0])
			if err != nil {
				return err
			}
			d, done, err := openDepot(reg)
			if err != nil {
				return err
			}
			out, err := d.ConvertModule(cmd.Context(), from, tag, addr.ModuleVersion{Module: m, Version: v}, depot.ModuleOptions{})
			done()
			if err != nil {
				return cli.PublishHint(err)
			}
			return cli.PrintPublished(reg.App, out)
		},
	}
	return cmd
}

// openTag opens the repository of a reference with a tag; a port is not taken for a tag.
func openTag(ctx context.Context, reg *cli.Registries, s string) (r *oci.Repo, tag string, err error) {
	i := strings.LastIndex(s, ":")
	if i < 0 || strings.Contains(s[i:], "/") {
		return nil, "", cli.UsageError("%q has no tag: expected HOST[:PORT]/PATH:TAG", s)
	}
	tag = s[i+1:]
	if r, err = reg.OpenRepo(s[:i]); err != nil {
		return nil, "", err
	}
	if _, err = r.Resolve(ctx, tag); errors.Is(err, oci.ErrNotFound) {
		err = cli.WithHint(fmt.Errorf("%s has no tag %s: %w", r, tag, oci.ErrNotFound), "push the package there first, as with `oras push %s:%s`", r, tag)
	}
	return r, tag, err
}
