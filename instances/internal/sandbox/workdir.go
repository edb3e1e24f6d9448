// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
)

// Parts of a Workdir. Names in it begin with one of them.
const (
	Tool  = "tool"  // written by the tool: the module, its home, plans
	Given = "given" // files for the tool; read-only in a sandbox
	Temp  = "tmp"   // temporary files
	share = "shm"   // shared memory, in a sandbox
)

const (
	// folder is the name of the Workdir in the scratch folder, if none is mounted.
	folder = "work"
	// Mount is where [Enter] mounts the Workdir, in a new namespace: a folder that every
	// Linux has and that every user may enter.
	Mount = "/dev/shm"
	// placedMark marks a folder that [Enter] mounted.
	placedMark = ".okara-run"
	// inside is where a sandbox shows the Workdir.
	inside = "/run/okara"
)

// Path is a name as the tool sees it. It is only for arguments and variables of the tool:
// outside the sandbox it may lead anywhere.
type Path string

type workdirOptions struct {
	Scratch  string // folder of the attempt, hidden from the tool
	Placed   bool   // [Enter] has mounted the folder
	UID, GID int    // of the tool; 0: ours
}

// Workdir is the folder to which the tool of one attempt can write.
type Workdir struct {
	o     workdirOptions
	base  string
	root  *os.Root
	begun atomic.Bool // the tool may have run
}

// openWorkdir makes the folder. The tool must not have run yet.
func openWorkdir(o workdirOptions) (*Workdir, error) {
	w := &Workdir{o: o, base: baseFolder(o.Scratch)}
	if o.Placed {
		w.base = Mount
		if _, err := os.Lstat(filepath.Join(Mount, placedMark)); err != nil {
			return nil, fmt.Errorf("preparing the run: no folder was mounted for it: %w", err)
		}
	}
	mode := fs.FileMode(0o700)
	if o.UID > 0 {
		mode = 0o711 // others can enter it, but not list it
	}
	err := errors.Join(os.MkdirAll(w.base, mode), os.Chmod(w.base, mode))
	for _, part := range w.parts() {
		err = errors.Join(err, os.MkdirAll(filepath.Join(w.base, part), 0o700))
	}
	if err == nil {
		w.root, err = os.OpenRoot(w.base)
	}
	if err != nil {
		return nil, fmt.Errorf("preparing the run: %w", err)
	}
	return w, nil
}

func baseFolder(scratch string) string { return filepath.Join(scratch, folder) }

func (w *Workdir) parts() []string {
	if w.o.Placed {
		return []string{Tool, Given, Temp, share}
	}
	return []string{Tool, Given, Temp}
}

// seenPath returns the folder as the tool sees it.
func (w *Workdir) seenPath() Path {
	if w.o.Placed {
		return inside
	}
	return Path(w.base)
}

// Inside returns a name below the folder as the tool sees it.
func (w *Workdir) Inside(elem ...string) Path {
	if w.o.Placed && len(elem) == 1 && elem[0] == Temp {
		return "/tmp" // socket names must be short
	}
	return Path(path.Join(append([]string{string(w.seenPath())}, elem...)...))
}

// errBegun refuses names that the tool may have replaced.
var errBegun = errors.New("the tool has run here: its folder must no longer be accessed by name")

// Fill calls do with the name of a folder in the Workdir, before the tool runs for the first time.
func (w *Workdir) Fill(name string, do func(dir string) error) error {
	if w.begun.Load() {
		return errBegun
	}
	return do(filepath.Join(w.base, filepath.FromSlash(name)))
}

// beginTool is called before the tool runs. The first call makes the tool's user the owner of
// the files in the folder; files made later have that owner anyway.
func (w *Workdir) beginTool() error {
	if w.begun.Swap(true) || w.o.UID <= 0 {
		return nil
	}
	for _, part := range w.parts() {
		err := fs.WalkDir(w.root.FS(), part, func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return w.root.Lchown(filepath.FromSlash(name), w.o.UID, w.o.GID)
		})
		if err != nil {
			return fmt.Errorf("giving the run its folder: %w", err)
		}
	}
	return nil
}

// checkStraight refuses names whose parents include a link or anything else but a folder.
func (w *Workdir) checkStraight(name string) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%q is not a valid name in the folder of a run", name)
	}
	parts := strings.Split(path.Dir(filepath.ToSlash(name)), "/")
	for i := range parts {
		dir := path.Join(parts[:i+1]...)
		info, err := w.root.Lstat(filepath.FromSlash(dir))
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", dir)
		}
	}
	return nil
}

// Read reads a regular file of at most limit bytes. Links are refused, even inside the folder.
func (w *Workdir) Read(name string, limit int64) ([]byte, error) {
	if err := w.checkStraight(name); err != nil {
		return nil, err
	}
	return readIn(w.root, name, limit)
}

// readIn opens the file without blocking: a pipe may have replaced it.
func readIn(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", name, info.Size(), limit)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return nil, fmt.Errorf("%s changed while it was read", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s grew to more than %d bytes", name, limit)
	}
	return b, err
}

// OpenRoot opens a folder, to read it while no tool runs.
func (w *Workdir) OpenRoot(name string) (*os.Root, error) {
	if err := w.checkStraight(name); err != nil {
		return nil, err
	}
	return w.root.OpenRoot(name)
}

// Give makes a new file in [Given] for the tool, replacing whatever is there.
func (w *Workdir) Give(name string, content []byte) error {
	return w.Put(path.Join(Given, name), content)
}

// Put makes a new file for the tool, replacing whatever is there.
func (w *Workdir) Put(name string, content []byte) (err error) {
	if err := w.checkStraight(name); err != nil {
		return err
	}
	if err := w.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if w.o.UID > 0 {
		if err := f.Chown(w.o.UID, w.o.GID); err != nil {
			return err
		}
	}
	_, err = f.Write(content)
	return err
}

// Clear removes the contents of the folder.
func (w *Workdir) Clear() error {
	var errs []error
	for _, part := range w.parts() {
		errs = append(errs, removeIn(w.root, part))
	}
	return errors.Join(errs...)
}

// errFull reports that an attempt wrote more than it may.
var errFull = errors.New("the scratch folder is full")

// checkSpace refuses a folder that is full: limit is how many bytes it may take on disk.
func (w *Workdir) checkSpace(limit int64) error {
	over, err := w.isOverLimit(limit)
	if err == nil && over {
		err = fmt.Errorf("%w: limit of %d bytes reached", errFull, limit)
	}
	return err
}

func (w *Workdir) isOverLimit(limit int64) (bool, error) {
	if w.o.Placed {
		return isFull(w.base)
	}
	size := int64(0)
	err := fs.WalkDir(w.root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return nil // a running tool makes and removes files
		}
		if info, err := d.Info(); err == nil {
			size += onDisk(info)
		}
		if size > limit {
			return fs.SkipAll
		}
		return nil
	})
	return size > limit, err
}

// bindArgs returns the arguments of bubblewrap (bwrap(1)) that show the folder. Their
// sources are siblings in a folder that the tool does not see.
func (w *Workdir) bindArgs() []string {
	at := func(part string) string { return filepath.Join(w.base, part) }
	args := []string{
		"--bind", at(share), Mount, "--bind", at(Temp), "/tmp",
		"--perms", "0755", "--dir", "/run", "--perms", "0755", "--dir", inside,
		"--bind", at(Tool), string(w.Inside(Tool)), "--ro-bind", at(Given), string(w.Inside(Given)),
	}
	if _, err := os.Stat(at(erroredPart)); err == nil {
		args = append(args, "--bind", at(erroredPart), string(w.Inside(ErroredFile)))
	}
	return args
}

// shownName returns where bubblewrap finds a file to show: running as another user, it cannot
// enter every folder that we can.
func (w *Workdir) shownName(name string, list []string) string {
	for i, s := range list {
		at := filepath.Join(w.base, shownPart(i))
		if _, err := os.Lstat(at); s == name && err == nil && w.o.Placed {
			return at
		}
	}
	return name
}

func shownPart(i int) string { return fmt.Sprintf("shown-%d", i) }
