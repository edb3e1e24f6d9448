// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// PullOptions configures a pull.
type PullOptions struct {
	Platforms []addr.Platform // of a provider; empty: all
	Policy    *trust.Policy   // policy that the version has to fulfil; nil: none
}

// Pull writes a version into dir and returns the names of a provider's files; a module fills all of
// dir. An error leaves nothing new, but files may have been replaced.
func (d *Depot) Pull(ctx context.Context, it addr.Item, v addr.Version, dir string, o PullOptions) (names []string, err error) {
	s, err := d.Subject(ctx, it, v)
	if err == nil {
		err = trust.Fulfils(ctx, s, o.Policy)
	}
	if err != nil {
		return nil, err
	}
	p := pull{Subject: s, dir: dir, progress: d.o.Progress}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.undo())
		}
	}()
	for at := filepath.Clean(dir); at != filepath.Dir(at); at = filepath.Dir(at) { // a root has no parent; of Windows it may be missing
		if _, err := os.Lstat(at); !errors.Is(err, os.ErrNotExist) {
			break
		}
		p.dirs = append(p.dirs, at)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if it.Kind == addr.KindModule {
		return nil, p.unpackModule(ctx, d.o.TempDir)
	}
	return p.writeProvider(ctx, o.Platforms)
}

// pull is the download of one version into a directory.
type pull struct {
	trust.Subject
	dir      string
	progress Progress
	dirs     []string // that it created, the innermost first
	made     []string // what it wrote below dir that was not there before
}

// undo removes what the pull wrote, and its directories if nothing else is there.
func (p *pull) undo() (err error) {
	for _, name := range p.made {
		err = errors.Join(err, os.RemoveAll(name))
	}
	for _, dir := range p.dirs {
		_ = os.Remove(dir)
	}
	return err
}

// unpackModule unpacks a module, verified by digest before, into the directory, which must be
// empty.
func (p *pull) unpackModule(ctx context.Context, temp string) error {
	parsed, err := artifact.ParseModule(p.Manifest)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(p.dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: %w", p.dir, os.ErrExist)
	}
	if err != nil {
		return err
	}
	tmp, done, err := files.TempFile(temp)
	if err != nil {
		return err
	}
	defer done()
	if err := p.progress.save(ctx, p.Repository, *parsed.Zip, tmp, p.Item.String()); err != nil {
		return err
	}
	err = archive.Unpack(ctx, tmp, parsed.Zip.Size, p.dir, archive.Limits{})
	written, readErr := os.ReadDir(p.dir)
	for _, e := range written {
		p.made = append(p.made, filepath.Join(p.dir, e.Name()))
	}
	return errors.Join(err, readErr)
}

// writeProvider writes zips, of platforms or all, with SHA256SUMS and its current signature, as
// PublishProvider takes them. Files with the right digest stay. It returns the files' names.
func (p *pull) writeProvider(ctx context.Context, platforms []addr.Platform) ([]string, error) {
	index, err := artifact.ParseProviderIndex(p.Manifest)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range index.Platforms {
		if len(platforms) > 0 && !slices.Contains(platforms, t.Platform) {
			continue
		}
		name := signing.PackageName(p.Item.Provider, p.Version, t.Platform)
		if err := p.writeZip(ctx, t, name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s %s has none of the platforms %v: %w", p.Item, p.Version, platforms, oci.ErrNotFound)
	}
	md, err := evidence.Resigned(ctx, p.Repository, index, p.Status())
	if errors.Is(err, oci.ErrNotFound) {
		return names, nil // the index was made by another tool
	}
	if err != nil {
		return nil, err
	}
	if md.Docs != nil {
		if md.DocsBytes, err = p.Repository.ReadBlob(ctx, *md.Docs, artifact.MaxProviderDocs); err != nil {
			return nil, err
		}
	}
	stem := signing.PackageStem(p.Item.Provider, p.Version)
	for name, b := range map[string][]byte{
		stem + "SHA256SUMS": md.ShasumsBytes, stem + "SHA256SUMS.sig": md.SignatureBytes, stem + "manifest.json": md.RegistryManifest, stem + DocsFile: md.DocsBytes,
	} {
		if b == nil {
			continue
		}
		if err := files.Replace(p.noteFile(name), b, 0o644); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (p *pull) writeZip(ctx context.Context, t artifact.ProviderPlatform, name string) error {
	blob, err := artifact.ResolveProviderZip(ctx, p.Repository, t)
	if err != nil {
		return err
	}
	if have, err := oci.FileBlob(artifact.MediaZip, filepath.Join(p.dir, name)); err == nil && have.Digest == blob.Digest {
		return nil
	}
	return files.ReplaceWith(p.noteFile(name), 0o644, func(f *os.File) error { return p.progress.save(ctx, p.Repository, blob, f, name) })
}

// noteFile returns the path of a file that is about to be written.
func (p *pull) noteFile(name string) string {
	file := filepath.Join(p.dir, name)
	if _, err := os.Lstat(file); errors.Is(err, os.ErrNotExist) {
		p.made = append(p.made, file)
	}
	return file
}
