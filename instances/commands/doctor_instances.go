// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

func newDoctorInstances(reg *cli.Registries) *cobra.Command {
	f := portalFlags{server: cli.ServerFlags{Both: true}}
	cmd := &cobra.Command{
		Use:   "instances",
		Short: "Find states of instances without a record",
		Long: `Find states of instances without a record, after a ledger was lost or
restored: their resources exist, but nothing destroys them. The entries in the
registry of --registry are compared with those of the server set by --server or
OKARA_SERVER; this requires admin rights there. Nothing is changed.

Prints one line per finding.

Exit codes: 0 no findings, 1 findings, 2 usage, 5 denied.`,
		Example: `  okara admin doctor instances --server https://okara.example.com --registry registry.example.com/platform`,
		Args:    cobra.NoArgs,
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, _ []string) error {
			client, layout, err := reg.Client()
			if err != nil {
				return err
			}
			all, err := c.All(ctx)
			if err != nil {
				return err
			}
			known := map[string]bool{}
			for _, id := range all {
				known[id.ID] = true
			}
			findings, n, err := lostInstances(ctx, client, layout, known)
			if err != nil {
				return err
			}
			return cli.PrintFindings(reg.App, findings, n)
		}),
	}
	f.addTo(reg, cmd, false)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// lostInstances returns findings for the queue entries of instances that are not known and
// did not end regularly, and the number of entries.
func lostInstances(ctx context.Context, client *oci.Client, layout addr.Layout, known map[string]bool) ([]depot.Finding, int, error) {
	queue, err := client.Repo(layout.QueueRepo())
	if err != nil {
		return nil, 0, err
	}
	list, err := queue.Snapshot(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		return nil, 0, nil // no instance was ever launched
	}
	if err != nil {
		return nil, 0, err
	}
	var findings []depot.Finding
	n := 0
	for _, tag := range list.Tags {
		id := records.EntryInstance(tag)
		if id == "" {
			continue
		}
		n++
		if known[id] {
			continue
		}
		lost, err := lostInstance(ctx, client, queue, id)
		if err != nil {
			return nil, n, err
		}
		if lost != nil {
			findings = append(findings, *lost)
		}
	}
	return findings, n, nil
}

func lostInstance(ctx context.Context, client *oci.Client, queue *oci.Repo, id string) (*depot.Finding, error) {
	tag := records.EntryTag(id)
	e, err := records.ReadInstanceEntry(ctx, queue, id)
	if errors.Is(err, oci.ErrCorrupt) {
		return &depot.Finding{Repository: queue.String(), Tag: tag, Problem: text.Excerpt(err.Error()), Remedy: "find out who wrote it"}, nil
	}
	if err != nil {
		return nil, err
	}
	repo, err := client.Repo(e.Repository)
	if err != nil {
		return &depot.Finding{Repository: queue.String(), Tag: tag, Problem: text.Excerpt(err.Error()), Remedy: "find out who wrote it"}, nil
	}
	_, err = repo.Resolve(ctx, records.InstanceTag{Kind: records.TagFinal, ID: id}.String())
	if err == nil || !errors.Is(err, oci.ErrNotFound) {
		return nil, err
	}
	return &depot.Finding{
		Repository: repo.String(), Tag: tag,
		Problem: text.Excerpt("no record of instance " + id + " of template " + e.Address),
		Remedy:  "okara instance adopt " + repo.String(),
	}, nil
}
