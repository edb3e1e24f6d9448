// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/distribution/distribution/v3/registry/storage/driver"
	"github.com/distribution/distribution/v3/registry/storage/driver/factory"
	"github.com/distribution/distribution/v3/registry/storage/driver/filesystem"

	"github.com/seed-141914ff/okara/internal/text"
)

// store is the library's driver with additions: blobs are checked before reading, one reported to a
// client is no garbage for a while, tags go in one step, collections get exclusive access.
type store struct {
	driver.StorageDriver
	root    string
	gate    sync.RWMutex // changes hold it shared, and briefly; a collection holds it exclusively
	checks  *checks
	reserve *reserve
	sync    func(path string) error // waits until a file or directory is on the disk

	unsynced unsynced
}

const driverName = "okara"

// register makes the driver known to the library; the store is a parameter.
var register = sync.OnceFunc(func() { factory.Register(driverName, storeFactory{}) })

type storeFactory struct{}

func (storeFactory) Create(_ context.Context, parameters map[string]any) (driver.StorageDriver, error) {
	s, ok := parameters["store"].(driver.StorageDriver)
	if !ok {
		return nil, errors.New("no store")
	}
	return s, nil
}

// maxThreads is the library's default of concurrent disk operations.
const maxThreads = 100

func newStore(root string, c *checks) *store {
	base := filesystem.New(filesystem.DriverParameters{RootDirectory: root, MaxThreads: maxThreads})
	return &store{StorageDriver: base, root: root, checks: c, reserve: &reserve{dir: root, log: c.log}, sync: syncPath, unsynced: unsynced{paths: map[string]int{}, failed: map[string]bool{}}}
}

// localPath returns the file name of a path of the library.
func (s *store) localPath(path string) string { return filepath.Join(s.root, filepath.FromSlash(path)) }

// data matches a blob's bytes, belowTag what is below a tag's directory.
var (
	data     = text.Pattern(`^/docker/registry/v2/blobs/sha256/[0-9a-f]{2}/([0-9a-f]{64})/data$`)
	belowTag = text.Pattern(`^(/docker/registry/v2/repositories/.+/_manifests/tags/[^/]+)/`)
)

func (s *store) GetContent(ctx context.Context, path string) ([]byte, error) {
	if err := s.checkBlob(ctx, path); err != nil {
		return nil, err
	}
	content, err := s.StorageDriver.GetContent(ctx, path)
	if err == nil && len(content) == 0 && strings.HasSuffix(path, "/link") {
		// The power failed before its bytes reached the disk, so it was never acknowledged.
		return nil, driver.PathNotFoundError{Path: path, DriverName: driverName}
	}
	if err == nil {
		s.waitForSync(ctx, path)
	}
	return content, err
}

func (s *store) Reader(ctx context.Context, path string, offset int64) (io.ReadCloser, error) {
	if err := s.checkBlob(ctx, path); err != nil {
		return nil, err
	}
	return s.StorageDriver.Reader(ctx, path, offset)
}

// Walk needs no stat for a name in a list of tags: the library uses its path alone.
func (s *store) Walk(ctx context.Context, from string, f driver.WalkFn, options ...func(*driver.WalkOptions)) error {
	if strings.HasSuffix(from, "/_manifests/tags") {
		return driver.WalkFallback(ctx, directories{s.StorageDriver}, from, f, options...)
	}
	return s.StorageDriver.Walk(ctx, from, f, options...)
}

// directories takes each path for a directory.
type directories struct{ driver.StorageDriver }

func (directories) Stat(_ context.Context, path string) (driver.FileInfo, error) {
	return driver.FileInfoInternal{FileInfoFields: driver.FileInfoFields{Path: path, IsDir: true}}, nil
}

// checkBlob returns an error if path is a blob whose bytes do not match its name.
func (s *store) checkBlob(ctx context.Context, path string) error {
	match := data().FindStringSubmatch(path)
	if match == nil {
		return nil
	}
	f, err := os.Open(s.localPath(path))
	if err != nil {
		return nil // the library returns the proper error
	}
	defer f.Close()
	return s.checks.checkWhole(ctx, f, match[1])
}

// Stat reports whether a blob exists, which counts as written now: a manifest may follow.
func (s *store) Stat(ctx context.Context, path string) (driver.FileInfo, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	info, err := s.StorageDriver.Stat(ctx, path)
	match := data().FindStringSubmatch(path)
	if err != nil || match == nil || info.IsDir() {
		return info, err
	}
	file := s.localPath(path)
	// A damaged blob, or one that was not synced, is missing only for writers; readers must get the error.
	if it := changeOf(ctx); it.sends && s.checks.isDamaged(file, match[1]) || it.uploads && s.unsynced.hasFailed(file) {
		return nil, driver.PathNotFoundError{Path: path, DriverName: driverName}
	}
	s.touchOld(file, match[1], info.ModTime())
	s.waitForSync(ctx, path)
	return info, nil
}

// freshFor is how old a blob may look that a client asked for; MinAge in a server is a multiple.
const freshFor = 10 * time.Minute

// touchOld sets an old blob's time to now. Where that is forbidden nothing can be removed.
func (s *store) touchOld(file, hex string, modified time.Time) {
	now := time.Now()
	if age := now.Sub(modified); age < freshFor && age > -freshFor {
		return
	}
	before, err := os.Stat(file)
	if err != nil || os.Chtimes(file, now, now) != nil {
		return
	}
	if after, err := os.Stat(file); err == nil {
		s.checks.recordTouch(hex, before, after)
	}
}

// cutUpload matches the directory of an upload.
var cutUpload = text.Pattern(`^(/docker/registry/v2/repositories/.+/_uploads/[^/]+)/`)

func (s *store) PutContent(ctx context.Context, path string, content []byte) error {
	err := s.change(ctx, func() error {
		// A link or a manifest may use the headroom.
		if err := s.reserve.admit(ctx, int64(len(content)), 0); err != nil {
			return err
		}
		return s.putContent(ctx, path, content)
	})
	if err == nil {
		return nil
	}
	if match := belowTag().FindStringSubmatch(path); match != nil {
		err = errors.Join(err, s.removeDangling(s.localPath(match[1])))
	}
	s.abandonOf(path)
	return diskError(err)
}

// Writer opens an upload's file. One that could not begin is removed; others: see uploads.
func (s *store) Writer(ctx context.Context, path string, appending bool) (w driver.FileWriter, err error) {
	err = s.change(ctx, func() error {
		if err := s.reserve.admitUpload(ctx, 0); err != nil {
			return err
		}
		if uploading().MatchString(path) {
			w, err = openUpload(s.localPath(path), appending)
			return err
		}
		w, err = s.StorageDriver.Writer(ctx, path, appending)
		return err
	})
	if err != nil {
		if !appending {
			s.abandonOf(path)
		}
		return nil, diskError(err)
	}
	return diskWriter{w, ctx, s.reserve}, nil
}

func (s *store) Move(ctx context.Context, from, to string) error {
	if it := changeOf(ctx); it.waits {
		s.addPending(it, filepath.Dir(s.localPath(to)))
	}
	return diskError(s.change(ctx, func() error { return s.StorageDriver.Move(ctx, from, to) }))
}

// change does something to the directory, again if the reserve then freed space.
func (s *store) change(ctx context.Context, do func() error) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	err := do()
	if isDiskFull(unwrapCause(err)) && s.reserve.freeForRetry(ctx) {
		err = do()
	}
	return err
}

// abandonOf removes the upload that a file belongs to, if it belongs to one.
func (s *store) abandonOf(path string) {
	if match := cutUpload().FindStringSubmatch(path); match != nil {
		s.abandon(match[1])
	}
}

// abandon removes a failed upload's directory, if it can.
func (s *store) abandon(path string) {
	s.gate.RLock()
	gone, err := s.discard(s.localPath(path))
	s.gate.RUnlock()
	if err == nil {
		err = os.RemoveAll(gone)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.checks.log.Error("a failed upload keeps its space until the next garbage collection", "error", diskError(err))
	}
}

// Delete removes in one step: a crash must not leave a tag that cannot be read.
func (s *store) Delete(_ context.Context, path string) error {
	s.gate.RLock()
	gone, err := s.discard(s.localPath(path))
	s.gate.RUnlock()
	if errors.Is(err, os.ErrNotExist) {
		return driver.PathNotFoundError{Path: path, DriverName: driverName}
	}
	if err == nil {
		err = os.RemoveAll(gone)
	}
	return diskError(err)
}

// trash is the directory for removed files until they are deleted.
const trash = ".okara-trash"

// discard moves a file or directory to the trash and returns its new path.
func (s *store) discard(file string) (string, error) {
	gone := filepath.Join(s.root, trash, rand.Text())
	err := os.Rename(file, gone)
	if !errors.Is(err, os.ErrNotExist) {
		return gone, err
	}
	if _, err := os.Lstat(file); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(gone), 0o700); err != nil {
		return "", err
	}
	return gone, os.Rename(file, gone)
}

// emptyTrash deletes the trash's content: a tag may be moving in.
func (s *store) emptyTrash() error {
	dir := filepath.Join(s.root, trash)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}

// diskWriter is the writer of an upload.
type diskWriter struct {
	driver.FileWriter
	ctx     context.Context // of the request
	reserve *reserve
}

func (w diskWriter) Write(p []byte) (int, error) {
	if err := w.reserve.admitUpload(w.ctx, int64(len(p))); err != nil {
		return 0, err
	}
	n, err := w.FileWriter.Write(p)
	return n, w.writeFailed(err)
}

func (w diskWriter) Commit(ctx context.Context) error { return w.writeFailed(w.FileWriter.Commit(ctx)) }

func (w diskWriter) writeFailed(err error) error {
	if isDiskFull(err) {
		w.reserve.freeForRetry(w.ctx)
	}
	return diskError(err)
}

// diskError reduces a disk error to what clients may see: no path, the reason as text.
func diskError(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](unwrapCause(err)); ok {
		return driver.Error{DriverName: driverName, Detail: errno}
	}
	return err
}

// unwrapCause returns the cause of a library error that does not unwrap.
func unwrapCause(err error) error {
	if e, ok := errors.AsType[driver.Error](err); ok {
		return e.Detail
	}
	return err
}
