// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/files"
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
}

// PublishTagged fetches the tree of the commit and publishes the module in it.
// In a repository with several modules only t.Dir is read.
func PublishTagged(ctx context.Context, d *depot.Depot, from Origins, t Tagged) (_ depot.Published, err error) {
	if t.Commit == "" {
		var err error
		if t.Commit, err = from.GitHub.TagCommit(ctx, t.Owner, t.Name, t.Tag); err != nil {
			return depot.Published{}, err
		}
	}
	dir, remove, err := files.TempDir(d.Options().TempDir)
	if err != nil {
		return depot.Published{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	got, err := githubTree(ctx, from, fetcher{}, t.Owner, t.Name, t.Commit, t.Dir, dir, false)
	if err != nil {
		return depot.Published{}, fmt.Errorf("tree of %s: %w", t.Commit, err)
	}
	tree, err := os.OpenRoot(filepath.Join(got.Package, filepath.FromSlash(got.Dir)))
	if err != nil {
		return depot.Published{}, err
	}
	defer tree.Close()
	o := depot.ModuleOptions{Annotations: map[string]string{artifact.AnnRevision: t.Commit, artifact.AnnSourceRef: t.Tag}}
	for key, value := range map[string]string{artifact.AnnSource: t.URL, artifact.AnnSourcePath: t.Dir} {
		if value != "" {
			o.Annotations[key] = value
		}
	}
	return d.PublishModule(ctx, tree.FS(), t.Module, o)
}
