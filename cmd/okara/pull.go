// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
)

func parsePlatforms(names []string) ([]addr.Platform, error) {
	var platforms []addr.Platform
	for _, s := range names {
		p, err := addr.ParsePlatform(s)
		if err != nil {
			return nil, cli.UsageError("%w", err)
		}
		platforms = append(platforms, p)
	}
	return platforms, nil
}

type pulled struct {
	Address string   `json:"address"`
	Version string   `json:"version"`
	Dir     string   `json:"dir"`
	Files   []string `json:"files,omitempty"`
}

func newPull(reg *cli.Registries) *cobra.Command {
	var platforms []string
	var policy policyFlags
	var server cli.ServerFlags
	var allowYanked bool
	cmd := &cobra.Command{
		Use:   "pull ADDRESS[@VERSION] DIR",
		Short: "Download a module or a provider into a folder",
		Long: `Download a module or a provider into a folder.

A module is unpacked into DIR, which must be empty. For a provider, the zips, SHA256SUMS
and its signature are written, in the layout that okara publish provider expects; other
files in DIR stay.
Without a version the highest release is used, or the highest pre-release if there is no
release. Everything is verified against its digest. A withdrawn version is downloaded if
it is named, with a warning; --allow-yanked omits the warning.

` + policyHelp + ` In that case nothing is written.

` + readServerHelp + `

Prints the files, or for a module the folder.

Exit codes: 0 done, 1 the version was refused, 2 usage, 3 version not found, 5 denied.`,
		Example: `  okara pull net/vpc/aws@1.4.0 ./vpc
  okara pull acme/dns ./dist --platform linux_amd64
  okara pull acme/dns ./dist --require openpgp --openpgp-key release.pub.asc
  okara pull net/vpc/aws@1.4.0 ./vpc --server https://okara.example.com`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var o depot.PullOptions
			var err error
			if o.Platforms, err = parsePlatforms(platforms); err != nil {
				return err
			}
			if o.Policy, err = policy.readPolicy(); err != nil {
				return err
			}
			progress, done := reg.Progress()
			defer done()
			t, err := pickRead(cmd.Context(), reg, server, args[0], progress)
			if err != nil {
				return err
			}
			files, err := t.pull(cmd.Context(), reg, args[1], o, allowYanked)
			if err != nil {
				return err
			}
			done()
			return reg.PrintResult(pulled{t.Item.String(), t.version.String(), args[1], files}, filePaths(args[1], files))
		},
	}
	cmd.Flags().StringSliceVar(&platforms, "platform", nil, "`OS_ARCH` of a provider package (repeatable; default all)")
	policy.addTo(cmd)
	cmd.Flags().BoolVar(&allowYanked, "allow-yanked", false, "download a withdrawn version without a warning, even if a policy is set")
	server.Add(cmd.Flags())
	return cmd
}

// pull downloads the version. Unless that is allowed, a yanked one does not fulfil a policy,
// and without a policy it is noted.
func (t selected) pull(ctx context.Context, reg *cli.Registries, dir string, o depot.PullOptions, allowYanked bool) ([]string, error) {
	if o.Policy != nil {
		o.Policy.AllowYanked = allowYanked
	}
	files, err := t.depot.Pull(ctx, t.Item, t.version, dir, o)
	if errors.Is(err, os.ErrExist) {
		return nil, cli.UsageError("%w", err)
	}
	if y := t.status.Yanked; err == nil && y != nil && !allowYanked {
		reg.Note("warning: %s %s was withdrawn on %s%s; --allow-yanked downloads it without this warning", t.address, t.version, y.Time.UTC().Format(time.DateOnly), y.Because())
	}
	return files, err
}

// filePaths lists the files of a provider; for a module the folder.
func filePaths(dir string, names []string) string {
	if len(names) == 0 {
		return dir
	}
	var paths []string
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
	}
	return strings.Join(paths, "\n")
}
