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
	Tool  = "tool"  // is the tool's: the module, its home, plans
	Given = "given" // is what the tool is given; a sandbox shows it to be read
	Temp  = "tmp"   // is for temporary files
	share = "shm"   // is for shared memory, in a sandbox
)

const (
	// folder of a scratch folder is the Workdir where none is mounted.
	folder = "work"
	// Mount is where [Enter] mounts it, in a namespace of its own: a folder that each
	// Linux has and that every user may enter.
	Mount = "/dev/shm"
	// placedMark tells a folder that [Enter] mounted from that of the machine.
	placedMark = ".okara-run"
	// seen is where a sandbox shows it.
	inside = "/run/okara"
)

// Path is a name as the tool sees it. It is for arguments and variables of the tool
// alone: on this side it may lead anywhere.
type Path string

// Options of a [Workdir].
type Options struct {
	Scratch  string // folder of the attempt, which the tool does not see
	Placed   bool   // [Enter] has mounted the folder
	UID, GID int    // that the tool has; 0: ours
}

// Workdir is the folder that the tool of one attempt can write.
type Workdir struct {
	o     Options
	base  string
	root  *os.Root
	begun atomic.Bool // the tool may have run
}

// Open makes the folder. Nothing of the tool may have run.
func Open(o Options) (*Workdir, error) {
	w := &Workdir{o: o, base: base(o.Scratch)}
	if o.Placed {
		w.base = Mount
		if _, err := os.Lstat(filepath.Join(Mount, placedMark)); err != nil {
			return nil, fmt.Errorf("preparing the run: no folder was mounted for it: %w", err)
		}
	}
	mode := fs.FileMode(0o700)
	if o.UID > 0 {
		mode = 0o711 // others pass, and read nothing
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

func base(scratch string) string { return filepath.Join(scratch, folder) }

func (w *Workdir) parts() []string {
	if w.o.Placed {
		return []string{Tool, Given, Temp, share}
	}
	return []string{Tool, Given, Temp}
}

// Close lets go of the folder. It stays.
func (w *Workdir) Close() error { return w.root.Close() }

// Base is the folder as the tool sees it.
func (w *Workdir) Base() Path {
	if w.o.Placed {
		return inside
	}
	return Path(w.base)
}

// Inside is a name below the folder as the tool sees it.
func (w *Workdir) Inside(elem ...string) Path {
	if w.o.Placed && len(elem) == 1 && elem[0] == Temp {
		return "/tmp" // names of sockets are short
	}
	return Path(path.Join(append([]string{string(w.Base())}, elem...)...))
}

// errBegun refuses to use names that the tool may have replaced.
var errBegun = errors.New("the tool has run here: its folder is used by name no more")

// Fill lets do use the name of a folder in it, before the tool runs for the first
// time.
func (w *Workdir) Fill(name string, do func(dir string) error) error {
	if w.begun.Load() {
		return errBegun
	}
	return do(filepath.Join(w.base, filepath.FromSlash(name)))
}

// Begin is called before the tool runs. What is in the folder becomes the tool's,
// once: whatever it makes is its own.
func (w *Workdir) Begin() error {
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

// straight refuses names that a link, or anything else but a folder, is on the way
// of.
func (w *Workdir) straight(name string) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%q is no name in the folder of a run", name)
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

// Read reads a regular file of at most so many bytes. Links are refused, inside the
// folder too.
func (w *Workdir) Read(name string, limit int64) ([]byte, error) {
	if err := w.straight(name); err != nil {
		return nil, err
	}
	return readIn(w.root, name, limit)
}

// readIn opens without waiting: a pipe may have taken the place of the file.
func readIn(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d", name, info.Size(), limit)
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

// Give makes a new file in [Given] for the tool, whatever lies there.
func (w *Workdir) Give(name string, content []byte) (err error) {
	name = path.Join(Given, name)
	if err := w.straight(name); err != nil {
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

// Clear removes what is in the folder.
func (w *Workdir) Clear() error {
	var errs []error
	for _, part := range w.parts() {
		errs = append(errs, removeIn(w.root, part))
	}
	return errors.Join(errs...)
}

// ErrFull says that an attempt wrote more than it may.
var ErrFull = errors.New("the scratch folder is full")

// Bounded reports whether the kernel bounds the folder as a whole.
func (w *Workdir) Bounded() bool { return w.o.Placed }

// Check refuses a folder without room for more: it holds so many bytes of the disk.
func (w *Workdir) Check(limit int64) error {
	over, err := w.over(limit)
	if err == nil && over {
		err = fmt.Errorf("%w: it holds %d bytes, which is its limit", ErrFull, limit)
	}
	return err
}

func (w *Workdir) over(limit int64) (bool, error) {
	if w.o.Placed {
		return full(w.base)
	}
	size := int64(0)
	err := fs.WalkDir(w.root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return nil // a tool that runs makes and removes files
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

// Binds are the arguments of bubblewrap (bwrap(1)) that show the folder. Their sources
// are beside each other, where the tool sees none of them.
func (w *Workdir) Binds() []string {
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

// Shown is where bubblewrap finds what is to be shown: as another user it cannot enter
// each folder that we can.
func (w *Workdir) Shown(name string, list []string) string {
	for i, s := range list {
		at := filepath.Join(w.base, shownPart(i))
		if _, err := os.Lstat(at); s == name && err == nil && w.o.Placed {
			return at
		}
	}
	return name
}

func shownPart(i int) string { return fmt.Sprintf("shown-%d", i) }
