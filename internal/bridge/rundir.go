// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

const (
	runPrefix = "okara-run-"
	// runLock is locked as long as the run goes on; the kernel drops the lock
	// of a killed run.
	runLock = "lock"
)

// runDir is the private directory of one run.
type runDir struct {
	path string
	lock *flock.Flock
}

// newRunDir makes one, after it has removed those of killed runs.
func newRunDir() (runDir, error) {
	sweepRunDirs()
	for range maxTurns {
		d, ok, err := tryRunDir()
		if ok || err != nil {
			return d, err
		}
	}
	return runDir{}, errors.New("other runs keep removing the directory of this one")
}

// tryRunDir fails to get the lock only if another run takes the directory for
// a leftover at this moment.
func tryRunDir() (d runDir, ok bool, err error) {
	path, err := os.MkdirTemp("", runPrefix)
	if err != nil {
		return d, false, err
	}
	d = runDir{path: path, lock: flock.New(filepath.Join(path, runLock), flock.SetPermissions(0o600))}
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
	return d, true, nil
}

func (d runDir) close() error {
	// Windows removes no open file.
	if err := errors.Join(d.lock.Close(), os.RemoveAll(d.path)); err != nil {
		return fmt.Errorf("removing the directory of the run: %w", err)
	}
	return nil
}

// sweepRunDirs removes the directories that killed runs of this user left. It
// is a courtesy: what cannot be removed stays.
func sweepRunDirs() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), runPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if !ownDir(dir) {
			continue
		}
		lock := flock.New(filepath.Join(dir, runLock), flock.SetFlag(os.O_RDWR)) // not created: without one, the run is just beginning
		if free, err := lock.TryLock(); err != nil || !free {
			continue
		}
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}
