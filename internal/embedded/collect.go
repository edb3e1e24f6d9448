// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/distribution/distribution/v3/registry/storage"
	"github.com/distribution/distribution/v3/registry/storage/driver"
	"github.com/distribution/distribution/v3/registry/storage/driver/factory"
	"github.com/gofrs/flock"
)

// ErrInUse says that a registry serves the directory, or a collection runs.
var ErrInUse = errors.New("the registry directory is in use")

// Collected says what a collection removed, or would remove.
type Collected struct {
	Blobs int   // blobs that no manifest pointed to
	Bytes int64 // what the directory shrank by, cut uploads included
}

// Collect removes from a registry directory the blobs that no manifest points
// to and what cut uploads left. Manifests without a tag are kept: an index
// and the pins of locks and referrers point to them. With dry set it only
// counts. It may be interrupted at any time: what it removes is reachable by
// nobody, in whatever order, and the next run continues.
func Collect(ctx context.Context, dir string, dry bool) (Collected, error) {
	quiet(nil)
	if _, err := os.Stat(dir); err != nil {
		return Collected{}, fmt.Errorf("collect garbage: %w", err)
	}
	lock := flock.New(filepath.Join(dir, lockFile))
	ok, err := lock.TryLock()
	if err != nil {
		return Collected{}, fmt.Errorf("collect garbage: %w", err)
	}
	if !ok {
		return Collected{}, fmt.Errorf("collect garbage in %s: %w", dir, ErrInUse)
	}
	defer lock.Close()
	c, err := collect(ctx, dir, dry)
	if err != nil {
		return c, fmt.Errorf("collect garbage in %s: %w", dir, err)
	}
	return c, nil
}

func collect(ctx context.Context, dir string, dry bool) (c Collected, err error) {
	before, err := diskUsage(dir)
	if err != nil {
		return c, err
	}
	base, err := factory.Create(ctx, "filesystem", map[string]any{"rootdirectory": dir})
	if err != nil {
		return c, err
	}
	d := &sweeper{StorageDriver: base, dir: dir, dry: dry}
	err = d.sweep(ctx)
	if ctx.Err() != nil {
		err = ctx.Err() // the library keeps only the text
	}
	c.Blobs, c.Bytes = d.blobs, d.bytes
	if dry || err != nil && ctx.Err() == nil {
		return c, err
	}
	after, uerr := diskUsage(dir)
	c.Bytes = before - after
	return c, errors.Join(err, uerr)
}

// sweeper is the storage driver that the library's collection works on. It
// counts what is removed, removes nothing in a dry run, and stops when the
// context ends, which the library does not look at.
type sweeper struct {
	driver.StorageDriver
	dir   string
	dry   bool
	blobs int
	bytes int64
}

func (s *sweeper) sweep(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(s.dir, "docker/registry/v2/repositories")); errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever pushed
	}
	// No upload can be running: the lock is ours.
	if _, errs := storage.PurgeUploads(ctx, s, time.Now(), true); len(errs) > 0 {
		return errors.Join(errs...)
	}
	registry, err := storage.NewRegistry(ctx, s, storage.EnableDelete)
	if err != nil {
		return err
	}
	return storage.MarkAndSweep(ctx, s, registry, storage.GCOpts{Quiet: true})
}

func (s *sweeper) Delete(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ok, _ := filepath.Match("/docker/registry/v2/blobs/*/*/*", path); ok {
		s.blobs++
	}
	if s.dry {
		n, err := diskUsage(filepath.Join(s.dir, path))
		s.bytes += n
		return err
	}
	return s.StorageDriver.Delete(ctx, path)
}

func (s *sweeper) GetContent(ctx context.Context, path string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.StorageDriver.GetContent(ctx, path)
}

func (s *sweeper) Reader(ctx context.Context, path string, offset int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.StorageDriver.Reader(ctx, path, offset)
}

func diskUsage(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// lockFile is what registries and collections on one directory lock.
const lockFile = ".okara-lock"

func lockShared(dir string) (*flock.Flock, error) {
	lock := flock.New(filepath.Join(dir, lockFile))
	ok, err := lock.TryRLock()
	if err != nil {
		return nil, fmt.Errorf("lock registry storage: %w", err)
	}
	if !ok {
		return nil, fmt.Errorf("open registry storage %s: %w: a garbage collection is running", dir, ErrInUse)
	}
	return lock, nil
}
