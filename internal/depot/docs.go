// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// DocsFile ends the name of packed documentation in a release.
const DocsFile = "docs.tar.gz"

// takeDocs uses packed documentation if it can be read.
func (p *ProviderPlan) takeDocs(name string, packed []byte) error {
	if len(packed) > artifact.MaxProviderDocs {
		return fmt.Errorf("%s: %d bytes, the limit is %d: %w", name, len(packed), artifact.MaxProviderDocs, oci.ErrTooLarge)
	}
	if _, err := description.ReadDocs(bytes.NewReader(packed)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.docsName = name
	p.metadata.DocsBytes = packed
	return nil
}

// findDocs finds documentation: of the options, the directory docs, or okara pull's file.
func (d *dist) findDocs(ctx context.Context, plan *ProviderPlan, tree fs.FS) error {
	name := d.stem + DocsFile
	if tree == nil {
		if found := d.findFile(name); found != "" {
			b, err := d.readDistFile(found, artifact.MaxProviderDocs)
			if err != nil {
				return err
			}
			return plan.takeDocs(name, b)
		}
		info, err := fs.Stat(d.fsys, "docs")
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		if tree, err = fs.Sub(d.fsys, "docs"); err != nil {
			return err
		}
	}
	packed, err := packDocs(ctx, tree)
	if err != nil {
		return fmt.Errorf("docs: %w", err)
	}
	return plan.takeDocs(name, packed)
}

// packDocs packs a directory as modules are, without the large translated pages.
func packDocs(ctx context.Context, tree fs.FS) ([]byte, error) {
	list, err := archive.List(ctx, tree, archive.Options{
		Ignore: []string{"/cdktf/"}, Limits: archive.Limits{Files: description.MaxDocsFiles, Bytes: description.MaxDocs},
	})
	if err != nil {
		return nil, err
	}
	packed, err := list.Pack(ctx, "")
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	return io.ReadAll(packed.Tar.Open())
}
