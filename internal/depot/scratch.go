// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const scratchPrefix = "okara-scratch-"

// scratchFile opens a temporary file; done closes it. Where the system can, the
// file never has a name, so nothing is left of a process that is killed at any
// moment. Elsewhere it loses its name at once, and what a process left that was
// killed before that is removed by the next one.
func scratchFile(dir string) (f *os.File, done func(), err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	if f, err = unnamedFile(dir); err == nil {
		return f, func() { _ = f.Close() }, nil // nobody needs what is in it
	}
	return namedFile(dir)
}

func namedFile(dir string) (f *os.File, done func(), err error) {
	sweepScratch(dir)
	if f, err = os.CreateTemp(dir, scratchPrefix); err != nil {
		return nil, nil, err
	}
	if err := os.Remove(f.Name()); err == nil || errors.Is(err, fs.ErrNotExist) {
		return f, func() { _ = f.Close() }, nil
	}
	return f, func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }, nil // an open file keeps its name on Windows
}

// sweepScratch removes the names of scratch files. Of a file that is in use it
// takes the name only, which its process is about to do; on Windows it cannot.
func sweepScratch(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), scratchPrefix) && e.Type().IsRegular() {
			_ = os.Remove(filepath.Join(dir, e.Name())) // another's, if it cannot be removed
		}
	}
}
