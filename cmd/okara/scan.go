// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/scan"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/oci"
)

func newScan(reg *cli.Registries) *cobra.Command {
	p := supply.ScanPolicy{Scanner: "trivy"}
	cmd := &cobra.Command{
		Use:   "scan ADDRESS@VERSION",
		Short: "Scan a published version and attach the report",
		Long: `Run a scanner on a version in the registry and attach its report (SARIF, and for
a provider scanned by Trivy an SBOM in CycloneDX) as a referrer. With --block the
exit code is 1 if there are findings of that level or above.`,
		Example: `  okara admin scan net/vpc/aws@1.4.0 --block high
  okara admin scan net/vpc/aws@1.4.0 --scanner 'my-scanner --sarif'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return scanItem(cmd.Context(), reg, args[0], p) },
	}
	cmd.Flags().StringVar(&p.Scanner, "scanner", p.Scanner, "trivy, or a `COMMAND` that takes a folder and writes SARIF to stdout")
	cmd.Flags().StringVar(&p.Block, "block", "", "lowest level that fails: `low|medium|high|critical`")
	cmd.Flags().StringVar(&p.Database, "database", "", "`DIR` of Trivy's cache, to be used without a download")
	return cmd
}

func scanItem(ctx context.Context, reg *cli.Registries, what string, p supply.ScanPolicy) error {
	it, v, err := addr.ParseItemVersion(what)
	if err != nil {
		return err
	}
	if err := scan.CheckLevel(p.Block); err != nil {
		return cli.UsageError("--block: %w", err)
	}
	client, layout, err := reg.Client()
	if err != nil {
		return err
	}
	r, err := client.Repo(it.Repository(layout))
	if err != nil {
		return err
	}
	m, err := r.Fetch(ctx, v.Tag())
	if errors.Is(err, oci.ErrNotFound) {
		l, lerr := depot.ListVersions(ctx, r, it.Kind, nil)
		if lerr != nil {
			return lerr
		}
		return l.NoVersion(v)
	}
	if err != nil {
		return fmt.Errorf("scanning %s: %w", what, err)
	}
	findings, err := supply.ScanArtifact(ctx, r, m, p, time.Now())
	if err != nil && !errors.Is(err, supply.ErrBlocked) {
		return err
	}
	if perr := reg.PrintResult(findings, findings.String()); perr != nil {
		return perr
	}
	return err
}
