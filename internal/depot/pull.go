// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/diskfile"
	"github.com/seed-141914ff/okara/internal/release"
	"github.com/seed-141914ff/okara/internal/scratch"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// PullOptions say what is pulled.
type PullOptions struct {
	Platforms []addr.Platform // of a provider; empty: all
	Policy    *trust.Policy   // what the version has to fulfil; nil: nothing
}

// pullable reads a version that fulfils the policy.
func (d *Depot) pullable(ctx context.Context, it addr.Item, v addr.Version, o PullOptions) (trust.Subject, error) {
	s, err := d.Subject(ctx, it, v)
	if err != nil {
		return trust.Subject{}, err
	}
	return s, trust.Fulfils(ctx, s, o.Policy)
}

// Pull writes a version into dir. It returns the names of the files of a provider;
// those of a module are the whole folder.
func (d *Depot) Pull(ctx context.Context, it addr.Item, v addr.Version, dir string, o PullOptions) ([]string, error) {
	if it.Kind == addr.KindModule {
		_, err := d.pullModule(ctx, addr.ModuleVersion{Module: it.Module, Version: v}, dir, o)
		return nil, err
	}
	return d.pullProvider(ctx, it.Provider, v, dir, o)
}

// pullModule unpacks a version of a module into dir, which must be empty or not
// exist. The zip is verified against its digest before it is unpacked.
func (d *Depot) pullModule(ctx context.Context, m addr.ModuleVersion, dir string, o PullOptions) (artifact.ModuleManifest, error) {
	s, err := d.pullable(ctx, m.Module.Item(), m.Version, o)
	if err != nil {
		return artifact.ModuleManifest{}, err
	}
	parsed, err := artifact.ParseModule(s.Manifest)
	if err != nil {
		return artifact.ModuleManifest{}, err
	}
	if err := emptyDir(dir); err != nil {
		return artifact.ModuleManifest{}, err
	}
	tmp, done, err := scratch.File(d.o.TempDir)
	if err != nil {
		return artifact.ModuleManifest{}, err
	}
	defer done()
	if err := d.save(ctx, s.Repository, *parsed.Zip, tmp, m.Module.String()); err != nil {
		return artifact.ModuleManifest{}, err
	}
	return parsed, archive.Unpack(ctx, tmp, parsed.Zip.Size, dir, archive.Limits{})
}

// emptyDir makes dir, or checks that it is empty.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: %w", dir, os.ErrExist)
	}
	return err
}

// save copies a verified blob.
func (d *Depot) save(ctx context.Context, r *oci.Repo, blob oci.Descriptor, to io.Writer, item string) error {
	in, err := r.Open(ctx, blob)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(to, Watch(in, d.o.Progress.Of(item, blob.Size)))
	return err
}

// pullProvider writes the zips of a version with SHA256SUMS and its signature, as
// it is after signing again, into dir, in the form in which PublishProvider takes
// them. Files that are there with the right digest are kept. It returns the
// names of the files.
func (d *Depot) pullProvider(ctx context.Context, p addr.Provider, v addr.Version, dir string, o PullOptions) ([]string, error) {
	s, err := d.pullable(ctx, p.Item(), v, o)
	if err != nil {
		return nil, err
	}
	index, err := artifact.ParseProviderIndex(s.Manifest)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var files []string
	for _, t := range index.Platforms {
		if len(o.Platforms) > 0 && !slices.Contains(o.Platforms, t.Platform) {
			continue
		}
		name := release.PackageName(p, v, t.Platform)
		if err := d.pullZip(ctx, s.Repository, t, filepath.Join(dir, name)); err != nil {
			return nil, err
		}
		files = append(files, name)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s %s has none of the platforms %v: %w", p, v, o.Platforms, oci.ErrNotFound)
	}
	md, err := artifact.Resigned(ctx, s.Repository, index, s.Status())
	if errors.Is(err, oci.ErrNotFound) {
		return files, nil // made by another tool
	}
	if err != nil {
		return nil, err
	}
	stem := release.StemOf(p, v)
	for name, b := range map[string][]byte{
		stem + "SHA256SUMS": md.ShasumsBytes, stem + "SHA256SUMS.sig": md.SignatureBytes, stem + "manifest.json": md.RegistryManifest,
	} {
		if b == nil {
			continue
		}
		if err := diskfile.Replace(filepath.Join(dir, name), b, 0o644); err != nil {
			return nil, err
		}
		files = append(files, name)
	}
	slices.Sort(files)
	return files, nil
}

// pullZip writes a zip under a temporary name first, so that a file with the
// final name is whole.
func (d *Depot) pullZip(ctx context.Context, r *oci.Repo, t artifact.ProviderPlatform, file string) error {
	blob, err := artifact.ResolveProviderZip(ctx, r, t)
	if err != nil {
		return err
	}
	if have, err := oci.FileBlob(artifact.MediaZip, file); err == nil && have.Digest == blob.Digest {
		return nil
	}
	return diskfile.ReplaceWith(file, 0o644, func(f *os.File) error { return d.save(ctx, r, blob, f, filepath.Base(file)) })
}
