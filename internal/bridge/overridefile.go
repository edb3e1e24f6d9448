// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/seed-141914ff/okara/internal/files"
)

// overrideFile is a run's override, shared in its directory under a shared lock: a run that can
// make it exclusive is alone, and writes or removes it. The kernel drops a killed run's lock.
type overrideFile struct {
	path string
	text []byte
	lock *flock.Flock
}

// maxTries bounds how often a run starts over because other runs started or ended.
const maxTries = 100

// openOverride makes sure that the file has the text until close.
func openOverride(dir string, text []byte) (*overrideFile, error) {
	f := &overrideFile{path: filepath.Join(dir, overrideName), text: text}
	for range maxTries {
		if done, err := f.tryOnce(); done || err != nil {
			return f, err
		}
	}
	return nil, fmt.Errorf("other runs keep writing and removing %s", f.path)
}

func (f *overrideFile) tryOnce() (done bool, err error) {
	if err := f.writeOverride(); err != nil {
		return false, err
	}
	f.lock = f.newLock()
	if err := f.lock.RLock(); err != nil {
		return false, fmt.Errorf("sharing %s: %w", f.path, err)
	}
	got, err := f.readOwn()
	switch {
	case err == nil && bytes.Equal(got, f.text) && f.isCurrent(f.lock):
		return true, nil
	case err == nil && len(got) > 0 && f.isCurrent(f.lock):
		err = fmt.Errorf("another run of okara in this directory uses different backend settings\nhint: wait until it ends")
	}
	return false, errors.Join(err, f.lock.Unlock())
}

// writeOverride writes the text if no other run shares the file.
func (f *overrideFile) writeOverride() error {
	got, err := f.readOwn()
	if err != nil {
		return err
	}
	if bytes.Equal(got, f.text) {
		return nil
	}
	lock := f.newLock()
	alone, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("writing %s: %w\nhint: okara replaces the backend through this file, so it must be able to write to the directory", f.path, err)
	}
	if !alone {
		return nil
	}
	if f.isCurrent(lock) {
		// In place, not by rename: the lock is on this very file.
		err = f.overwriteText()
	}
	return errors.Join(err, lock.Unlock())
}

func (f *overrideFile) overwriteText() error {
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_TRUNC|files.NoFollow, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(f.text)
	return errors.Join(err, file.Close())
}

// readOwn returns the file, or nil; one that okara did not write is an error.
func (f *overrideFile) readOwn() ([]byte, error) {
	info, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file, and okara does not follow links\nhint: remove it; okara needs a file of that name during a run", f.path)
	}
	var b []byte
	if err == nil {
		b, err = f.bytes()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the override file: %w", err)
	}
	if len(b) > 0 && !bytes.HasPrefix(b, []byte(overrideMark)) {
		return nil, fmt.Errorf("%s was not written by okara\nhint: okara needs a file of that name during a run; rename yours", f.path)
	}
	return b, nil
}

// maxOverride is far more than any backend block needs.
const maxOverride = 1 << 20

func (f *overrideFile) bytes() ([]byte, error) {
	file, err := os.OpenFile(f.path, os.O_RDONLY|files.NoFollow, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // another run has just removed it
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxOverride))
}

func (f *overrideFile) newLock() *flock.Flock {
	return flock.New(f.path, flock.SetPermissions(0o644), flock.SetFlag(os.O_CREATE|os.O_RDONLY|files.NoFollow))
}

// isCurrent reports whether the locked file still has that name.
func (f *overrideFile) isCurrent(l *flock.Flock) bool {
	named, err := os.Lstat(f.path)
	if err != nil {
		return false
	}
	locked, err := l.Stat()
	return err == nil && os.SameFile(named, locked)
}

// close removes the file if this was the last run to use it.
func (f *overrideFile) close() error {
	alone, err := f.lock.TryLock()
	if err == nil && alone {
		err = f.removeOwn()
	}
	return errors.Join(err, f.lock.Unlock())
}

// removeOwn removes the file if it is still the one that okara wrote.
func (f *overrideFile) removeOwn() error {
	if _, err := f.readOwn(); err != nil || !f.isCurrent(f.lock) {
		return nil
	}
	return os.Remove(f.path)
}

// removeLeftover removes a killed run's override where none is needed.
func removeLeftover(dir string) error {
	f := &overrideFile{path: filepath.Join(dir, overrideName)}
	if got, err := f.readOwn(); err != nil || got == nil {
		return nil
	}
	f.lock = f.newLock()
	return f.close()
}
