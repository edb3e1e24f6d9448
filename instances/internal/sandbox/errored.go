// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// ErroredFile is where the tool leaves a state that it could not store, in the
// folder that it works in.
const ErroredFile = "errored.tfstate"

// erroredPart of a mounted folder is that file.
const erroredPart = "errored"

// Errored is the state that the tool of an attempt could not store.
type Errored struct {
	Name string // of the file, for display
	root *os.Root
	in   string // of the file, in root
}

// OpenErrored finds it by the root module of the attempt, a name in [Tool];
// fs.ErrNotExist if there is none. A sandbox has it beside the folder, and an empty
// file there is none. One of more than so many bytes is no state that can be stored,
// but what a module wrote there.
func OpenErrored(scratch, module string, limit int64) (*Errored, error) {
	dir := scratch
	in := ErroredFile
	if info, err := os.Lstat(filepath.Join(scratch, ErroredFile)); err != nil || info.Size() == 0 {
		dir = base(scratch)
		in = path.Join(Tool, module, ErroredFile)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	w := Workdir{root: root}
	err = w.straight(in)
	if err == nil {
		var info fs.FileInfo
		if info, err = root.Lstat(in); err == nil && (!info.Mode().IsRegular() || info.Size() == 0 || info.Size() > limit) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Errored{Name: filepath.Join(dir, filepath.FromSlash(in)), root: root, in: in}, nil
}

// Read reads it, if it has at most so many bytes.
func (e *Errored) Read(limit int64) ([]byte, error) { return readIn(e.root, e.in, limit) }

// Remove removes it.
func (e *Errored) Remove() error { return e.root.Remove(e.in) }

// Close lets go of it.
func (e *Errored) Close() error { return e.root.Close() }

// LinkErrored leads the file in the root module to the one that outlives the folder,
// where that is mounted.
func (w *Workdir) LinkErrored(module string) error {
	if !w.o.Placed || w.begun.Load() {
		return nil
	}
	return w.root.Symlink(string(w.Inside(ErroredFile)), filepath.Join(Tool, filepath.FromSlash(module), ErroredFile))
}
