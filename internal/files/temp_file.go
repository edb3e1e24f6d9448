// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// prefix is that of all names of this package.
const prefix = "okara-scratch-"

// TempFile opens a temporary file in dir, "" for that of the system; done closes it. Where the system can, the
// file never has a name, so nothing is left of a process that is killed at any
// moment. Elsewhere it loses its name at once, and what a process left that was
// killed before that is removed by the next one.
func TempFile(dir string) (f *os.File, done func(), err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	if f, err = unnamedFile(dir); err == nil {
		return f, func() { _ = f.Close() }, nil // nobody needs what is in it
	}
	return namedFile(dir)
}

func namedFile(dir string) (f *os.File, done func(), err error) {
	CleanUp(dir)
	if f, err = os.CreateTemp(dir, prefix); err != nil {
		return nil, nil, err
	}
	if err := os.Remove(f.Name()); err == nil || errors.Is(err, fs.ErrNotExist) {
		return f, func() { _ = f.Close() }, nil
	}
	return f, func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }, nil // an open file keeps its name on Windows
}

// NoTemporary recognizes the error of a temporary file or directory that could not be
// made, and where it was to be.
func NoTemporary(err error) (dir string, ok bool) {
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok || !slices.Contains([]string{"open", "mkdir", "createtemp", "mkdirtemp"}, e.Op) {
		return "", false
	}
	dir, name := filepath.Split(e.Path)
	return filepath.Clean(dir), strings.HasPrefix(name, prefix)
}
