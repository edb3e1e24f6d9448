// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/depot"
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
	Source string                        // in place of the address of an archive, which may hold a secret
}

// maxFollowed bounds addresses that each answer with another one.
const maxFollowed = 5

// fetch writes the whole tree at l below dir, which must be empty.
func (f fetcher) fetch(ctx context.Context, l upstream.Location, dir string) (depot.Fetched, error) {
	for range maxFollowed {
		got, next, err := f.followOnce(ctx, l, dir)
		if next == nil {
			return got, err
		}
		l = *next
	}
	return depot.Fetched{}, fmt.Errorf("%s: more than %d chained addresses: %w", publicURL(l), maxFollowed, oci.ErrCorrupt)
}

// followOnce is fetch unless the address answers with the next one.
func (f fetcher) followOnce(ctx context.Context, l upstream.Location, dir string) (got depot.Fetched, next *upstream.Location, err error) {
	if f.Permit != nil {
		if err := f.Permit(l); err != nil {
			return got, nil, err
		}
	}
	source := map[string]string{artifact.AnnSource: publicURL(l)}
	switch l.Kind {
	case upstream.KindGit:
		source[artifact.AnnRevision], err = f.Git.Checkout(ctx, l, dir)
	case upstream.KindOCI:
		l, err = f.fetchOCI(ctx, l, dir)
	default:
		source[artifact.AnnSource] = cmp.Or(f.Source, publicURL(l))
		var body io.ReadCloser
		if body, next, err = f.Client.Archive(ctx, l); body != nil {
			err = f.unpackFolder(ctx, body, "", dir)
		}
	}
	if err != nil || next != nil {
		return got, next, err
	}
	got, err = describeFetched(dir, l.Subdir, source)
	if l.Subdir == "" {
		got.ModuleDir = l.ModuleDir
	}
	return got, nil, err
}

// publicURL returns the address without user and query.
func publicURL(l upstream.Location) string {
	u := *l.URL
	u.User = nil
	u.RawQuery = ""
	return u.String()
}

// describeFetched describes a package below dir whose module is in the directory sub.
func describeFetched(dir, sub string, source map[string]string) (f depot.Fetched, err error) {
	if top, rest, _ := strings.Cut(sub, "/"); top == "*" { // registries name the only directory in a forge's archive like this
		sub = rest
		if dir, err = stripTop(dir); err != nil {
			return f, err
		}
	}
	f = depot.Fetched{Package: dir, Annotations: source}
	if sub == "" {
		return f, nil
	}
	if !filepath.IsLocal(sub) {
		return f, fmt.Errorf("subdirectory %q is outside the module: %w", sub, oci.ErrCorrupt)
	}
	if f.Package, err = filepath.EvalSymlinks(dir); err != nil {
		return f, err
	}
	target, err := filepath.EvalSymlinks(filepath.Join(f.Package, sub))
	if err != nil {
		return f, fmt.Errorf("directory %q not found in the module: %w", sub, oci.ErrNotFound)
	}
	below, err := filepath.Rel(f.Package, target)
	if err != nil || !filepath.IsLocal(below) {
		return f, fmt.Errorf("subdirectory %q is a link to outside the module: %w", sub, oci.ErrCorrupt)
	}
	if info, err := os.Stat(target); err != nil || !info.IsDir() {
		return f, fmt.Errorf("%q in the module is not a directory: %w", sub, oci.ErrNotFound)
	}
	if below != "." {
		f.Dir = filepath.ToSlash(below)
	}
	return f, nil
}

// unpackFolder unpacks body, a zip or tar.gz, below dir, or a named folder of it, and closes it.
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
	return archive.UnpackForeign(ctx, file, n, folder, dir, f.Limits)
}

// fetchOCI also returns where the directory of the module is.
func (f fetcher) fetchOCI(ctx context.Context, l upstream.Location, dir string) (upstream.Location, error) {
	r, parsed, err := readModule(ctx, f.Open, l, cmp.Or(l.Ref, artifact.TagLatest))
	if err != nil {
		return l, err
	}
	body, err := r.Open(ctx, *parsed.Zip)
	if err != nil {
		return l, err
	}
	l.Subdir = cmp.Or(l.Subdir, parsed.Annotations[artifact.AnnModulePath])
	l.ModuleDir = parsed.Annotations[artifact.AnnModuleDir]
	return l, f.unpackFolder(ctx, body, "", dir)
}

func readModule(ctx context.Context, open func(string) (*oci.Repo, error), l upstream.Location, ref string) (r *oci.Repo, m artifact.ModuleManifest, err error) {
	if r, err = open(l.URL.Host + l.URL.Path); err != nil {
		return r, m, err
	}
	raw, err := r.Fetch(ctx, ref)
	if err == nil {
		m, err = artifact.ParseModule(raw)
	}
	return r, m, err
}

// stripTop returns the only directory in dir, which forges put around an archive's files, or dir.
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
