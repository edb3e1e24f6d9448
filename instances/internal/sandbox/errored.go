// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// ErroredFile is the file in its working folder to which the tool writes a state that it
// could not store.
const ErroredFile = "errored.tfstate"

// erroredPart is that file in a mounted folder.
const erroredPart = "errored"

// Errored is the state that the tool of an attempt could not store.
type Errored struct {
	Name string // of the file, for display
	root *os.Root
	in   string // name of the file in root
}

// openErrored opens the errored state of an attempt by its root module, a name in [Tool];
// fs.ErrNotExist if there is none. A sandbox has the file beside the folder; an empty
// file there means none. A file over limit bytes is refused: it cannot be a stored state,
// so a module wrote it.
func openErrored(scratch, module string, limit int64) (*Errored, error) {
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

// Read reads the state, if it has at most limit bytes.
func (e *Errored) Read(limit int64) ([]byte, error) { return readIn(e.root, e.in, limit) }

// Remove removes the file.
func (e *Errored) Remove() error { return e.root.Remove(e.in) }

// Close closes the folder of the file.
func (e *Errored) Close() error { return e.root.Close() }

// LinkErrored links the file in the root module to the one that outlives the folder, if
// the folder is mounted.
func (w *Workdir) LinkErrored(module string) error {
	if !w.o.Placed || w.begun.Load() {
		return nil
	}
	return w.root.Symlink(string(w.Inside(ErroredFile)), filepath.Join(Tool, filepath.FromSlash(module), ErroredFile))
}
