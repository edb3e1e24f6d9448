// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// maxArchive bounds a module archive from an origin, in bytes.
const maxArchive = 512 << 20

// fetcher fetches module trees from any Location.
type fetcher struct {
	Client *upstream.Client
	Git    *upstream.Git
	Open   func(reference string) (*oci.Repo, error) // HOST/REPOSITORY
	Limits archive.Limits
	Permit func(upstream.Location) error // see Origins
}

// fetch writes the tree at l below dir, which must be empty, and returns it
// with the annotations about its source.
func (f fetcher) fetch(ctx context.Context, l upstream.Location, dir string) (fs.FS, map[string]string, error) {
	if f.Permit != nil {
		if err := f.Permit(l); err != nil {
			return nil, nil, err
		}
	}
	source := map[string]string{artifact.AnnSource: publicURL(l)}
	var err error
	switch l.Kind {
	case upstream.KindGit:
		source[artifact.AnnRevision], err = f.Git.Checkout(ctx, l, dir)
	case upstream.KindOCI:
		err = f.oci(ctx, l, dir)
	default:
		var body io.ReadCloser
		if body, err = f.Client.Archive(ctx, l); err == nil {
			err = f.unpack(ctx, body, dir)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	tree, err := subtree(dir, l.Subdir)
	return tree, source, err
}

// publicURL returns the address without user and query.
func publicURL(l upstream.Location) string {
	u := *l.URL
	u.User = nil
	u.RawQuery = ""
	return u.String()
}

func subtree(dir, sub string) (fs.FS, error) {
	switch sub {
	case "":
		return os.DirFS(dir), nil
	case "*": // registries name the only directory in a forge's archive like this
		top, err := stripTop(dir)
		return os.DirFS(top), err
	}
	if !filepath.IsLocal(sub) {
		return nil, fmt.Errorf("subdirectory %q leaves the module: %w", sub, oci.ErrCorrupt)
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	target, err := filepath.EvalSymlinks(filepath.Join(root, sub))
	if err != nil {
		return nil, fmt.Errorf("the module has no directory %q: %w", sub, oci.ErrNotFound)
	}
	if rel, err := filepath.Rel(root, target); err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("subdirectory %q is a link that leaves the module: %w", sub, oci.ErrCorrupt)
	}
	if info, err := os.Stat(target); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%q in the module is not a directory: %w", sub, oci.ErrNotFound)
	}
	return os.DirFS(target), nil
}

// unpack unpacks a zip or tar.gz below dir. It closes body.
func (f fetcher) unpack(ctx context.Context, body io.ReadCloser, dir string) error {
	return f.unpackFolder(ctx, body, "", dir)
}

// unpackFolder is unpack for one directory of a forge's archive.
func (f fetcher) unpackFolder(ctx context.Context, body io.ReadCloser, folder, dir string) error {
	defer body.Close()
	file, done, err := files.TempFile("")
	if err != nil {
		return err
	}
	defer done()
	n, err := io.Copy(file, io.LimitReader(body, maxArchive+1))
	if err != nil {
		return err
	}
	if n > maxArchive {
		return fmt.Errorf("the archive has more than %d bytes: %w", maxArchive, oci.ErrTooLarge)
	}
	return archive.UnpackFolder(ctx, file, n, folder, dir, f.Limits)
}

func (f fetcher) oci(ctx context.Context, l upstream.Location, dir string) error {
	r, err := f.Open(l.URL.Host + l.URL.Path)
	if err != nil {
		return err
	}
	ref := l.Ref
	if ref == "" {
		ref = artifact.TagLatest
	}
	m, err := r.Fetch(ctx, ref)
	if err != nil {
		return err
	}
	parsed, err := artifact.ParseModule(m)
	if err != nil {
		return err
	}
	body, err := r.Open(ctx, *parsed.Zip)
	if err != nil {
		return err
	}
	return f.unpack(ctx, body, dir)
}

// stripTop returns the only directory in dir, which forges add to the files of
// an archive, or dir itself.
func stripTop(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) == 1 && entries[0].IsDir() && !strings.HasPrefix(entries[0].Name(), ".") {
		return filepath.Join(dir, entries[0].Name()), nil
	}
	return dir, nil
}
