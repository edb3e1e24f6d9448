// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/seed-141914ff/okara/internal/files"
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
		dir = baseFolder(scratch)
		in = path.Join(Tool, module, ErroredFile)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	w := Workdir{root: root}
	err = w.checkStraight(in)
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

// noteFile in a scratch folder records the lock and base version of an attempt. Only
// attempts that change something have it: others leave no state.
const noteFile = "attempt.json"

// Note says of an attempt what is needed to store a state that is found in its folder.
type Note struct {
	LockID string `json:"lock_id"` // of the lock of the state: see [run.LockID]
	Base   int64  `json:"base"`    // version of the state at the start; 0: none
	Module string `json:"module"`  // folder of the root module, in the tool's
}

// maxNote bounds that file, in bytes.
const maxNote = 1 << 20

// WriteNote writes the note of an attempt to its scratch folder, before its tool can leave a state.
func WriteNote(scratch string, n Note) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return files.Replace(filepath.Join(scratch, noteFile), b, 0o600)
}

// OpenErrored opens the state that an attempt left in its scratch folder because it could
// not store it, and returns what its note says; fs.ErrNotExist if there is none. The
// caller must close the state.
func OpenErrored(scratch string) (*Errored, Note, error) {
	var note Note
	b, err := files.ReadPrivate(filepath.Join(scratch, noteFile), maxNote)
	if err != nil || json.Unmarshal(b, &note) != nil {
		return nil, note, fs.ErrNotExist // the attempt did not get that far
	}
	e, err := openErrored(scratch, note.Module, MaxErrored)
	return e, note, err
}

// FindErrored returns the file name of such a state, for display; "" if there is none.
func FindErrored(scratch string) string {
	e, _, err := OpenErrored(scratch)
	if err != nil {
		return ""
	}
	_ = e.Close() // it was only looked for
	return e.Name
}

// MaxErrored bounds such a state, in bytes: the most that a store accepts.
const MaxErrored = 512 << 20

// Remove removes the scratch folder of an attempt, including unwritable folders that a
// tool made. It follows no link.
func Remove(scratch string) error {
	err := os.RemoveAll(scratch)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return err
	}
	defer root.Close()
	makeWritable(root, ".")
	return os.RemoveAll(scratch)
}

func removeIn(root *os.Root, name string) error {
	if err := root.RemoveAll(name); err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	makeWritable(root, name)
	return root.RemoveAll(name)
}

// makeWritable makes a folder and all folders in it writable, so that they can be removed.
func makeWritable(root *os.Root, name string) {
	if info, err := root.Lstat(name); err != nil || !info.IsDir() || root.Chmod(name, 0o700) != nil {
		return
	}
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(name))
	if err != nil {
		return
	}
	for _, e := range entries {
		makeWritable(root, filepath.Join(name, e.Name()))
	}
}
