// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"maps"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// ConvertModule publishes another tool's package with all layers, and keeps its source annotations.
func (d *Depot) ConvertModule(ctx context.Context, from *oci.Repo, ref string, to addr.ModuleVersion, o ModuleOptions) (Published, error) {
	m, err := from.Fetch(ctx, ref)
	if err != nil {
		return Published{}, err
	}
	foreign, err := artifact.ParseModule(m)
	if err != nil {
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
	o.AllowInvalid = true
	o.Foreign = true
	return d.PublishFetched(ctx, to, func(ctx context.Context, dir string, _ bool) (Fetched, error) {
		file, done, err := files.TempFile(d.o.TempDir)
		if err != nil {
			return Fetched{}, err
		}
		defer done()
		if err := d.o.Progress.save(ctx, from, *foreign.Zip, file, to.Module.String()); err != nil {
			return Fetched{}, err
		}
		return Fetched{Package: dir, Annotations: annotations}, archive.UnpackForeign(ctx, file, foreign.Zip.Size, "", dir, o.Limits)
	}, o)
}
