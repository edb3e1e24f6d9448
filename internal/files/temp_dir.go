// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	lockName  = "lock"
	filesName = "files"
	// maxTries bounds how often a directory is made again that was taken for a leftover.
	maxTries = 100
)

// TempDir makes an empty directory in parent, "" for the system's, for this user alone, after
// [CleanUp]; done removes it. Its error must be returned or logged: leftovers fill the disk.
func TempDir(parent string) (dir string, done func() error, err error) {
	if parent == "" {
		parent = os.TempDir()
	}
	CleanUp(parent)
	for range maxTries {
		if d, ok, err := tryDir(parent); ok || err != nil {
			return filepath.Join(d.path, filesName), d.close, err
		}
	}
	return "", nil, errors.New("other processes keep removing the temporary directory of this one")
}

// directory is a temporary directory, locked while its process lives.
type directory struct {
	path string
	lock *flock.Flock
}

// tryDir creates a directory; not ok: another process took it for a leftover.
func tryDir(parent string) (d directory, ok bool, err error) {
	path, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return d, false, err
	}
	d = directory{path: path, lock: flock.New(filepath.Join(path, lockName), flock.SetPermissions(0o600))}
	ok, err = d.lock.TryLock()
	if errors.Is(err, fs.ErrNotExist) {
		return d, false, nil
	}
	if err != nil {
		return d, false, errors.Join(err, d.close())
	}
	// The other process may have removed it before the lock was free again.
	if _, serr := os.Stat(d.lock.Path()); !ok || serr != nil {
		return d, false, d.lock.Close()
	}
	if err := os.Mkdir(filepath.Join(path, filesName), 0o700); err != nil {
		return d, false, errors.Join(err, d.close())
	}
	return d, true, nil
}

// close removes the lock last, so that [CleanUp] can remove the rest after a kill.
func (d directory) close() error {
	if err := removeFolder(filepath.Join(d.path, filesName), time.Sleep); err != nil {
		return errors.Join(err, d.lock.Close())
	}
	err := d.lock.Close() // Windows does not remove open files
	for _, name := range []string{d.lock.Path(), d.path} {
		if rerr := os.Remove(name); !errors.Is(rerr, fs.ErrNotExist) { // another process is cleaning up
			err = errors.Join(err, rerr)
		}
	}
	return err
}

// CleanUp removes leftovers of this user's killed processes in parent, "" for the system's, as far
// as it can.
func CleanUp(parent string) {
	if parent == "" {
		parent = os.TempDir()
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(parent, e.Name())
		switch {
		case !strings.HasPrefix(e.Name(), prefix):
		case e.IsDir():
			cleanUpDir(path)
		case e.Type().IsRegular():
			// For a file in use this removes only the name, which its process
			// is about to do; on Windows it fails.
			_ = os.Remove(path)
		}
	}
}

func cleanUpDir(path string) {
	if !ownDir(path) {
		return
	}
	lock := flock.New(filepath.Join(path, lockName), flock.SetFlag(os.O_RDWR)) // the lock file is not created
	free, err := lock.TryLock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_ = os.Remove(path) // empty: left by a killed process, or just being created, which is then repeated
	case err == nil && free:
		_ = directory{path, lock}.close()
	}
}
