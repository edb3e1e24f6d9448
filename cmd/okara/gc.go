// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/embedded"
)

// gcResult is what a collection removed, or would remove.
type gcResult struct {
	Storage string `json:"storage"`
	Blobs   int    `json:"blobs"`
	Bytes   int64  `json:"bytes"`
	DryRun  bool   `json:"dryRun"`
}

func newGC(a *app) *cobra.Command {
	var storage string
	var dry bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Free the space of what was deleted from the embedded registry",
		Long: `Remove from the embedded registry what no manifest points to any more, and what
cut uploads left behind. Tags and the manifests below them are never touched.
The server must not run. Interrupted, it loses nothing; the next run goes on.`,
		Example: "  okara gc --dry-run\n  okara gc --storage /srv/okara",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.gc(cmd.Context(), storage, dry)
		},
	}
	cmd.Flags().StringVar(&storage, "storage", "", "`DIR` of okara serve (default $XDG_DATA_HOME/okara)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be freed")
	return cmd
}

func (a *app) gc(ctx context.Context, storage string, dry bool) error {
	if storage == "" {
		storage = a.dataDir()
	}
	c, err := embedded.Collect(ctx, filepath.Join(storage, "registry"), dry)
	switch {
	case errors.Is(err, embedded.ErrInUse):
		return withHint(err, "stop okara serve first")
	case errors.Is(err, fs.ErrNotExist):
		return withHint(&exitError{code: exitNotFound, err: err}, "name the directory of okara serve with --storage")
	case err != nil:
		return err
	}
	verb := "freed"
	if dry {
		verb = "would free"
	}
	return a.printResult(gcResult{storage, c.Blobs, c.Bytes, dry},
		fmt.Sprintf("%s %s: %d blobs", verb, byteSize(c.Bytes), c.Blobs))
}
