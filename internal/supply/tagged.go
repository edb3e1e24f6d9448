// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"fmt"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Tagged is a tag of a GitHub repository that is a version of a module.
type Tagged struct {
	Owner, Name string // of the repository
	Tag         string
	Commit      string // "": the commit that the tag names now
	URL         string // of the repository, for messages; may be empty
	Dir         string // of the module in the tree; "": its root
	Module      addr.ModuleVersion
	Title       string // the address of the module as it is written; may be empty
}

// PublishTagged publishes the module of a commit: only t.Dir, unless it uses others beside it.
func PublishTagged(ctx context.Context, d *depot.Depot, from Origins, t Tagged) (depot.Published, error) {
	if t.Commit == "" {
		var err error
		if t.Commit, err = from.GitHub.TagCommit(ctx, t.Owner, t.Name, t.Tag); err != nil {
			return depot.Published{}, err
		}
	}
	annotations := map[string]string{artifact.AnnRevision: t.Commit, artifact.AnnSourceRef: t.Tag}
	for key, value := range map[string]string{artifact.AnnSource: t.URL, artifact.AnnSourcePath: t.Dir, artifact.AnnTitle: t.Title} {
		if value != "" {
			annotations[key] = value
		}
	}
	fetch := func(ctx context.Context, dir string, whole bool) (depot.Fetched, error) {
		got, err := githubTree(ctx, from, fetcher{}, t.Owner, t.Name, t.Commit, t.Dir, dir, whole)
		if err != nil {
			err = fmt.Errorf("tree of %s: %w", t.Commit, err)
		}
		got.Annotations = annotations
		return got, err
	}
	return d.PublishFetched(ctx, t.Module, fetch, depot.ModuleOptions{})
}
