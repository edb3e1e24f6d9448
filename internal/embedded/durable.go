// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/distribution/distribution/v3/registry/storage/driver"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/text"
)

// The library syncs each file it writes, 60 times a version. What is acknowledged must be on the
// disk, and no manifest or tag before what it names: so a request's files are synced together,
// before the links that create manifest and tag, and before the answer. Running uploads are not
// synced: their session ends with the process.

// pending are files a request has not synced, its own and others' it depends on.
type pending struct {
	mu    sync.Mutex // guards paths
	paths map[string]bool
}

// unsynced counts the requests for which a path is pending. After a failed sync it stays: a second
// sync would not report lost data, so the file is written again.
type unsynced struct {
	mu     sync.Mutex // guards the others
	paths  map[string]int
	failed map[string]bool // paths whose last sync failed
}

// noteSync records how the sync of a path ended.
func (u *unsynced) noteSync(path string, err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if delete(u.failed, path); err != nil {
		u.failed[path] = true
	}
	return err
}

func (u *unsynced) hasFailed(path string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failed[path]
}

func (u *unsynced) countPath(path string, by int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := u.paths[path] + by
	if u.paths[path] = n; n == 0 {
		delete(u.paths, path)
	}
	return n
}

// addPending adds paths before they are written, so that no request takes them to be on the disk.
func (s *store) addPending(it *change, paths ...string) {
	p := &it.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paths == nil {
		p.paths = map[string]bool{}
	}
	for _, path := range paths {
		if !p.paths[path] {
			p.paths[path] = true
			s.unsynced.countPath(path, 1)
		}
	}
}

// waitForSync makes a request wait for a file that it read: a manifest may name another's blob.
func (s *store) waitForSync(ctx context.Context, path string) {
	it := changeOf(ctx)
	if !it.waits {
		return
	}
	file := s.localPath(path)
	for _, path := range []string{file, filepath.Dir(file)} {
		if s.unsynced.countPath(path, 0) > 0 {
			s.addPending(it, path)
		}
	}
}

// maxSyncs is how many files a request syncs at once; the disk combines them.
const maxSyncs = 8

// flush waits until all pending files of a request are on the disk.
func (s *store) flush(it *change) error {
	p := &it.pending
	p.mu.Lock()
	paths := p.paths
	p.paths = nil
	p.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(maxSyncs)
	for path := range paths {
		g.Go(func() error {
			err := s.unsynced.noteSync(path, s.sync(path))
			if err == nil {
				s.unsynced.countPath(path, -1)
			}
			return err
		})
	}
	return g.Wait()
}

// syncPath syncs a file or directory, unless it is gone.
func syncPath(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0) // Windows does not sync files that are open for reading only
	if err != nil {
		f, err = os.Open(path) // a directory
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

var (
	// scratch matches the library's files about an upload, besides its bytes.
	scratch = text.Pattern(`^/docker/registry/v2/repositories/.+/_uploads/[^/]+/(?:startedat|hashstates/.+)$`)
	// uploading matches the file of its bytes.
	uploading = text.Pattern(`^/docker/registry/v2/repositories/.+/_uploads/[^/]+/data$`)
	// history matches the links to all manifests that a tag ever had, which only the library's own
	// collection reads.
	history = text.Pattern(`^/docker/registry/v2/repositories/.+/_manifests/tags/[^/]+/index/[^/]+/[^/]+/link$`)
	// revision and naming match the links that create a manifest, and a tag.
	revision = text.Pattern(`^/docker/registry/v2/repositories/.+/_manifests/revisions/[^/]+/[^/]+/link$`)
	naming   = text.Pattern(`^/docker/registry/v2/repositories/.+/_manifests/tags/[^/]+/current/link$`)
)

// putContent writes a file in one step, synced now or at the request's end.
func (s *store) putContent(ctx context.Context, path string, content []byte) error {
	it := changeOf(ctx)
	file := s.localPath(path)
	tag := naming().MatchString(path)
	switch {
	case !it.waits:
		return s.StorageDriver.PutContent(ctx, path, content)
	case scratch().MatchString(path):
		return replaceFile(file, content)
	case history().MatchString(path):
		return nil
	case tag || revision().MatchString(path):
		if err := s.flush(it); err != nil {
			return err
		}
	}
	before, err := os.ReadFile(file)
	missing := errors.Is(err, fs.ErrNotExist)
	now := time.Now()
	// Equal content gets the current time as if it was written, see touchOld.
	same := err == nil && bytes.Equal(before, content) && s.unsynced.countPath(file, 0) == 0 && os.Chtimes(file, now, now) == nil
	if tag || !missing && !same {
		// The file may replace acknowledged content, so it must never be incomplete.
		if err := s.StorageDriver.PutContent(ctx, path, content); err != nil {
			return err
		}
		return s.unsynced.noteSync(file, nil)
	}
	s.addPending(it, file, filepath.Dir(file))
	if missing {
		return replaceFile(file, content)
	}
	return nil
}

// replaceFile writes the content of a file in one step.
func replaceFile(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	part := file + "." + rand.Text() + ".tmp"
	err := os.WriteFile(part, content, 0o666)
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		_ = os.Remove(part) // the part may not exist
	}
	return err
}

// uploadFile receives an upload's bytes, and syncs them when complete.
type uploadFile struct {
	f         *os.File
	w         *bufio.Writer
	size      int64
	committed bool
}

func openUpload(file string, appending bool) (driver.FileWriter, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return nil, err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if appending {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	f, err := os.OpenFile(file, flags, 0o666)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &uploadFile{f: f, w: bufio.NewWriter(f), size: info.Size()}, nil
}

func (u *uploadFile) Write(p []byte) (int, error) {
	n, err := u.w.Write(p)
	u.size += int64(n)
	return n, err
}

func (u *uploadFile) Size() int64 { return u.size }

func (u *uploadFile) Commit(context.Context) error {
	if err := u.w.Flush(); err != nil {
		return err
	}
	u.committed = true
	return u.f.Sync()
}

func (u *uploadFile) Cancel(context.Context) error {
	return errors.Join(u.f.Close(), os.Remove(u.f.Name()))
}

func (u *uploadFile) Close() error {
	if u.committed {
		return u.f.Close()
	}
	return errors.Join(u.w.Flush(), u.f.Close())
}
