// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// parkedJobs returns the jobs of the queue that need a decision, with advice. If the caller
// may not read the queue, that is the finding.
func parkedJobs(ctx context.Context, a *cli.App, client *oci.Client, layout addr.Layout) []depot.Finding {
	findings, err := parkedFindings(ctx, client, layout)
	if err != nil {
		a.Note("warning: the queue of okara serve was not checked: %v", err)
	}
	return findings
}

func parkedFindings(ctx context.Context, client *oci.Client, layout addr.Layout) ([]depot.Finding, error) {
	r, err := client.Repo(layout.QueueRepo())
	if err != nil {
		return nil, err
	}
	parked, err := jobs.Parked(ctx, r)
	if err != nil {
		return nil, err
	}
	var findings []depot.Finding
	for _, j := range parked {
		what := j.Kind + " " + j.ID
		remedy := "find out why the server stopped"
		switch j.Kind {
		case jobs.KindPull:
			done, err := storedSince(ctx, client, layout, j)
			if err != nil {
				return nil, err
			}
			if done {
				continue
			}
			address := j.Data["provider"] + "@" + j.Data["version"]
			what = j.Kind + " of " + address
			remedy += ", then okara mirror " + address + ", or request it from the server again on another day (UTC)"
		case jobs.KindGitHub:
			what = "publication of " + j.Data["owner"] + "/" + j.Data["repository"] + " " + j.Data["tag"]
			remedy += ", then redeliver the event (Redeliver at GitHub), or okara publish module"
		}
		findings = append(findings, depot.Finding{
			Repository: r.String(), Tag: j.Tag,
			Problem: text.Excerpt("job of " + j.Time.UTC().Format(time.DateTime) + " UTC, " + what + ": " + j.End.Result), Remedy: text.Excerpt(remedy),
		})
	}
	return findings, nil
}

func storedSince(ctx context.Context, client *oci.Client, layout addr.Layout, j jobs.ParkedJob) (bool, error) {
	p, perr := addr.ParseProvider(j.Data["provider"])
	v, verr := addr.ParseVersion(j.Data["version"])
	if perr != nil || verr != nil || p.Hostname == "" {
		return false, nil // not a job of a server
	}
	r, err := client.Repo(layout.MirrorOf(p))
	if err != nil {
		return false, err
	}
	_, err = r.Resolve(ctx, v.Tag())
	if errors.Is(err, oci.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
