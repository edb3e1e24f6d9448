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
	// maxTries bounds how often the creation of a directory is repeated because
	// another process took it for a leftover.
	maxTries = 100
)

// TempDir creates an empty temporary directory in parent, "" for that of the
// system, which only this user can read; done removes it. Before that it does
// the work of [CleanUp]. A caller that cannot return the error of done must log
// it, because leftovers fill the disk.
func TempDir(parent string) (dir string, done func() error, err error) {
	if parent == "" {
		parent = os.TempDir()
	}
	CleanUp(parent)
	for range maxTries {
		d, ok, err := tryDir(parent)
		if ok || err != nil {
			return filepath.Join(d.path, filesName), d.close, err
		}
	}
	return "", nil, errors.New("other processes keep removing the temporary directory of this one")
}

// directory is a temporary directory that is locked as long as its process uses
// it; the kernel releases the lock of a process that is killed.
type directory struct {
	path string
	lock *flock.Flock
}

// tryDir creates a directory. ok is false if another process takes the
// directory for a leftover at the same time.
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

// close removes the lock after the content that it guards, so that [CleanUp]
// can remove the rest if the process is killed in between.
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

// CleanUp removes the leftovers of killed processes of this user in parent, ""
// for the temporary directory of the system. Leftovers that cannot be removed
// are ignored.
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
