// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/bundle"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
)

type bundleShown struct {
	Signature bundleSignature `json:"signature"`
	Blobs     int             `json:"blobs"`
	Required  int             `json:"required,omitempty"` // blobs that are expected from an earlier bundle
	Entries   []bundle.Entry  `json:"entries"`
}

func newBundleShow(a *cli.App) *cobra.Command {
	var keys []string
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "List what is in a bundle",
		Long: `List what a bundle contains: versions with the platforms of providers, signatures, status
and reports. Repositories are listed without a prefix; okara bundle load adds that of
--registry. Only manifests are read: okara bundle verify checks every byte.

Exit codes: 0 listed, 1 not a bundle or not signed by a key of --bundle-key, 2 usage.`,
		Example: "  okara bundle show week.tar\n  okara bundle show week.tar --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bundleShow(cmd.Context(), a, args[0], keys)
		},
	}
	bundleKeys(a, cmd, &keys)
	return cmd
}

func bundleShow(ctx context.Context, a *cli.App, file string, keys []string) error {
	b, signature, err := openBundle(a, file, keys)
	if err != nil {
		return err
	}
	defer b.Close()
	entries, err := b.Entries(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	report := b.Report()
	rows := [][]string{{"REPOSITORY", "TAG", "KIND", "SIZE", "DETAIL"}}
	for _, e := range entries {
		rows = append(rows, []string{e.Repository, cli.OrDash(e.Tag), e.Kind, text.Size(e.Bytes), cli.OrDash(e.Detail)})
	}
	return a.PrintResult(bundleShown{signature, report.Blobs, report.Required, entries}, cli.Table(rows))
}
