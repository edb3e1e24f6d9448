// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/text"
)

type gcResult struct {
	Storage      string             `json:"storage"`
	Blobs        int                `json:"blobs"`
	Bytes        int64              `json:"bytes"`
	Used         int64              `json:"used"`
	Repositories []embedded.Garbage `json:"repositories"`
	DryRun       bool               `json:"dry_run"`
}

func newGC(a *cli.App) *cobra.Command {
	var storage string
	var o embedded.Collection
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Free the space of deleted content in the built-in registry",
		Long: `Remove content that no tag refers to from the built-in registry: manifests, blobs and
remains of interrupted uploads. Signatures and reports stay with what they refer to. A
running server does this automatically (gc_interval); this command is for a stopped one,
except with --dry-run. It can be interrupted at any time.`,
		Example: "  okara admin gc --dry-run\n  okara admin gc --storage /srv/okara",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return collectGarbage(cmd.Context(), a, storage, o)
		},
	}
	cmd.Flags().StringVar(&storage, "storage", "", "`DIR` of okara serve (default $XDG_DATA_HOME/okara)")
	cmd.Flags().DurationVar(&o.MinAge, "min-age", 0, "keep what was written in the last `DURATION`")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "only show what would be freed")
	return cmd
}

func collectGarbage(ctx context.Context, a *cli.App, storage string, o embedded.Collection) error {
	if storage == "" {
		storage = dataDir(a.Getenv)
	} else if err := cli.CheckFolder(storage); err != nil {
		return err
	} else if err := cli.CheckFolder(filepath.Join(storage, "registry")); err != nil {
		return cli.UsageError("%s is not the storage of okara serve: it has no folder registry", storage)
	}
	c, err := embedded.Collect(ctx, filepath.Join(storage, "registry"), o)
	switch {
	case errors.Is(err, embedded.ErrInUse):
		return cli.WithHint(err, "a running okara serve frees the space automatically, see --gc-interval; to do it now, stop the server first")
	case errors.Is(err, fs.ErrNotExist):
		return cli.WithHint(&cli.ExitError{Code: cli.ExitNotFound, Err: err}, "specify the directory of okara serve with --storage")
	case errors.Is(err, embedded.ErrDamaged):
		return cli.WithHint(err, "nothing was removed; restore that manifest from a backup or push it again, or delete its tag")
	case err != nil:
		return err
	}
	verb := "freed"
	if o.DryRun {
		verb = "would free"
	}
	words := []string{fmt.Sprintf("%s %s: %s; %s in use", verb, text.Size(c.Bytes), text.Plural(c.Blobs, "blob"), text.Size(c.Used))}
	for _, g := range c.Repositories {
		words = append(words, fmt.Sprintf("%s\t%s: %s, %s, %s, %s",
			cmp.Or(g.Repository, "(no repository)"), text.Size(g.Bytes), text.Plural(g.Tags, "tag"), text.Plural(g.Manifests, "manifest"), text.Plural(g.Blobs, "blob"), text.Plural(g.Uploads, "upload")))
	}
	if c.Repositories == nil {
		c.Repositories = []embedded.Garbage{}
	}
	return a.PrintResult(gcResult{storage, c.Blobs, c.Bytes, c.Used, c.Repositories, o.DryRun}, strings.Join(words, "\n"))
}
