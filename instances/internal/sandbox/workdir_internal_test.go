// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// newWorkdir returns one whose tool has run, with a file and a folder outside.
func newWorkdir(t *testing.T) (w *Workdir, file, dir string) {
	t.Helper()
	outside := t.TempDir()
	file, dir = filepath.Join(outside, "file"), filepath.Join(outside, "dir")
	must.Succeed(t, errors.Join(os.WriteFile(file, []byte("outside"), 0o600), os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "file"), []byte("outside"), 0o600)))
	w, err := openWorkdir(workdirOptions{Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.root.Close(); err != nil {
			t.Error(err)
		}
	})
	err = w.Fill(Tool, func(dir string) error {
		return errors.Join(os.Mkdir(filepath.Join(dir, "module"), 0o700), os.WriteFile(filepath.Join(dir, "module", "file"), []byte("inside"), 0o600))
	})
	must.Succeed(t, errors.Join(err, w.Give("plan", []byte("first")), w.beginTool()))
	return w, file, dir
}

// plants is what a tool can put in a file's place.
func plants(file, dir string) map[string]func(name string) error {
	return map[string]func(name string) error{
		"a link to a file":   func(name string) error { return os.Symlink(file, name) },
		"a link to a folder": func(name string) error { return os.Symlink(dir, name) },
		"a link inside":      func(name string) error { return os.Symlink(filepath.Base(name)+"-moved", name) },
		"a pipe":             func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"a device":           func(name string) error { return os.Symlink("/dev/zero", name) },
		"a hard link":        func(name string) error { return os.Link(file, name) },
	}
}

// TestPlantedInWorkdir replaces each part of the names that the server uses: nothing
// outside is read, written or removed, and nothing blocks.
//
// Shows: platform-attacks 8
func TestPlantedInWorkdir(t *testing.T) {
	for _, part := range []string{"tool", "tool/module", "tool/module/file", "given", "given/plan"} {
		for what := range plants("", "") {
			t.Run(part+", "+what, func(t *testing.T) {
				w, file, dir := newWorkdir(t)
				at := filepath.Join(w.base, part)
				must.Succeed(t, errors.Join(os.Rename(at, at+"-moved"), plants(file, dir)[what](at)))
				hard := what == "a hard link" && part == "tool/module/file" // the system allows it only to the owner
				if b, err := w.Read("tool/module/file", 100); strings.HasPrefix(part, "tool") && !hard && err == nil || string(b) == "outside" && !hard {
					t.Errorf("read %q, %v", b, err)
				}
				err := w.Give("plan", []byte("second"))
				if part == "given/plan" && err != nil || part == "given" && err == nil {
					t.Errorf("given: %v", err)
				}
				if err := w.checkSpace(1 << 20); err != nil {
					t.Error(err)
				}
				if err := w.Clear(); err != nil {
					t.Error(err)
				}
				for _, name := range []string{file, filepath.Join(dir, "file")} {
					if b, err := os.ReadFile(name); err != nil || string(b) != "outside" {
						t.Errorf("%s: %q, %v", name, b, err)
					}
				}
				if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
					t.Errorf("%v, %v", entries, err)
				}
			})
		}
	}
}

// TestNoNamesAfterwards: once the tool has run, no folder is accessed by name.
func TestNoNamesAfterwards(t *testing.T) {
	w, _, _ := newWorkdir(t)
	if err := w.Fill(Tool, func(string) error { return nil }); !errors.Is(err, errBegun) {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"../outside", "/etc/passwd", "tool/../../outside"} {
		if b, err := w.Read(name, 100); err == nil {
			t.Errorf("%s: %q", name, b)
		}
	}
}

// TestNotPlaced: without a namespace nothing is in the machine's folder.
func TestNotPlaced(t *testing.T) {
	if w, err := openWorkdir(workdirOptions{Scratch: t.TempDir(), Placed: true}); err == nil {
		t.Errorf("opened %+v", w)
	}
}

// TestReadBounds refuses a file larger than the limit.
func TestReadBounds(t *testing.T) {
	w, _, _ := newWorkdir(t)
	if b, err := w.Read("tool/module/file", 5); err == nil {
		t.Errorf("%q", b)
	}
	if b, err := w.Read("tool/module/file", 6); err != nil || string(b) != "inside" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestErrored finds a state beside the folder or in the module, no links.
func TestErrored(t *testing.T) {
	w, file, _ := newWorkdir(t)
	scratch := w.o.Scratch
	left := filepath.Join(w.base, Tool, "module", ErroredFile)
	must.Succeed(t, os.Symlink(file, left))
	if e, err := openErrored(scratch, "module", 1<<20); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link: %+v, %v", e, err)
	}
	for name, want := range map[string]string{left: "left", filepath.Join(scratch, ErroredFile): "beside"} {
		must.Succeed(t, errors.Join(os.RemoveAll(name), os.WriteFile(name, []byte(want), 0o600)))
		if e, err := openErrored(scratch, "module", int64(len(want))-1); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("more than a state: %+v, %v", e, err)
		}
		e := must.Get(openErrored(scratch, "module", 1<<20))(t)
		b, err := e.Read(100)
		if err := errors.Join(err, e.Remove(), e.Close()); err != nil || string(b) != want || e.Name != name {
			t.Errorf("%s: %q, %v, want %s", e.Name, b, err, want)
		}
	}
	if e, err := openErrored(scratch, "module", 1<<20); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing is left: %+v, %v", e, err)
	}
}

// TestRemove: unwritable folders, and links, whose targets stay.
func TestRemove(t *testing.T) {
	dir, kept := filepath.Join(t.TempDir(), "tree"), filepath.Join(t.TempDir(), "kept")
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Join(dir, "a", "b", "c"), 0o700), os.WriteFile(kept, nil, 0o600)))
	must.Succeed(t, errors.Join(os.Symlink(kept, filepath.Join(dir, "a", "link")), os.Chmod(filepath.Join(dir, "a", "b"), 0), os.Chmod(filepath.Join(dir, "a"), 0o500)))
	must.Succeed(t, Remove(dir))
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}
