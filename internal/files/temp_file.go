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

// prefix is the prefix of all names that this package creates.
const prefix = "okara-scratch-"

// TempFile opens a temporary file in dir, "" for the system's; done closes it. It has no name where
// the system can, else it loses it at once; the next process removes what a kill left.
func TempFile(dir string) (f *os.File, done func(), err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	if f, err = unnamedFile(dir); err == nil {
		return f, func() { _ = f.Close() }, nil // the content is no longer needed
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

// NoTemporary reports whether err is that nothing temporary could be made, and in which directory.
func NoTemporary(err error) (dir string, ok bool) {
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok || !slices.Contains([]string{"open", "mkdir", "createtemp", "mkdirtemp"}, e.Op) {
		return "", false
	}
	dir, name := filepath.Split(e.Path)
	return filepath.Clean(dir), strings.HasPrefix(name, prefix)
}
