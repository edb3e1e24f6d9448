// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// ConvertModule publishes the files of a module package that another tool made,
// as a version with all layers. Its annotations about the source are kept.
func (d *Depot) ConvertModule(ctx context.Context, from *oci.Repo, ref string, to addr.ModuleVersion, o ModuleOptions) (_ Published, err error) {
	m, err := from.Fetch(ctx, ref)
	if err != nil {
		return Published{}, err
	}
	foreign, err := artifact.ParseModule(m)
	if err != nil {
		return Published{}, err
	}
	dir, remove, err := files.TempDir(d.o.TempDir)
	if err != nil {
		return Published{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	file, done, err := files.TempFile(d.o.TempDir)
	if err != nil {
		return Published{}, err
	}
	defer done()
	if err := d.o.Progress.save(ctx, from, *foreign.Zip, file, to.Module.String()); err != nil {
		return Published{}, err
	}
	if err := archive.UnpackForeign(ctx, file, foreign.Zip.Size, "", dir, o.Limits); err != nil {
		return Published{}, err
	}
	annotations := map[string]string{}
	for key, value := range foreign.Annotations {
		if !strings.HasPrefix(key, "vnd.okara.") && key != artifact.AnnTitle && key != artifact.AnnVersion {
			annotations[key] = value
		}
	}
	maps.Copy(annotations, o.Annotations)
	// it was published before, so it is accepted
	o.Annotations = annotations
	o.AllowInvalid = true
	o.Foreign = true
	tree, err := os.OpenRoot(dir)
	if err != nil {
		return Published{}, err
	}
	defer tree.Close()
	return d.PublishModule(ctx, tree.FS(), to, o)
}
