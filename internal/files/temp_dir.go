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
	// maxTries bounds how often a directory is made anew because another process
	// took it for a leftover.
	maxTries = 100
)

// TempDir makes an empty temporary directory in parent, "" for that of the system,
// which only this user can read; done removes it. Before that it does what [CleanUp]
// does. Whoever cannot return the error of done must say it where people look:
// what is left fills the disk.
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

// directory is locked as long as its process has it; the kernel drops the lock of
// a process that is killed.
type directory struct {
	path string
	lock *flock.Flock
}

// tryDir fails to get the lock only if another process takes the directory for
// a leftover at this moment.
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
	// The other one may have been done before the lock was free again.
	if _, serr := os.Stat(d.lock.Path()); !ok || serr != nil {
		return d, false, d.lock.Close()
	}
	if err := os.Mkdir(filepath.Join(path, filesName), 0o700); err != nil {
		return d, false, errors.Join(err, d.close())
	}
	return d, true, nil
}

// close removes the lock after all that it guards, so that a kill in the middle
// leaves what [CleanUp] removes.
func (d directory) close() error {
	if err := remove(filepath.Join(d.path, filesName), time.Sleep); err != nil {
		return errors.Join(err, d.lock.Close())
	}
	err := d.lock.Close() // Windows removes no open file
	for _, name := range []string{d.lock.Path(), d.path} {
		if rerr := os.Remove(name); !errors.Is(rerr, fs.ErrNotExist) { // somebody tidies up
			err = errors.Join(err, rerr)
		}
	}
	return err
}

// CleanUp removes what killed processes of this user left in parent, "" for the
// temporary directory of the system. It is a courtesy: what cannot be removed
// stays.
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
			// Of a file that is in use this takes the name only, which its process is
			// about to do; on Windows it cannot.
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
		_ = os.Remove(path) // empty: killed, or begun at this moment, and made anew
	case err == nil && free:
		_ = directory{path, lock}.close()
	}
}
