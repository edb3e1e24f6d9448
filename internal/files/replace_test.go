// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	for _, content := range []string{"old", "new"} {
		must.Succeed(t, files.Replace(name, []byte(content), 0o640))
		if got, err := os.ReadFile(name); err != nil || string(got) != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o640 && runtime.GOOS != "windows" {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	cut := errors.New("cut")
	err := files.ReplaceWith(name, 0o600, func(f *os.File) error {
		_, err := f.WriteString("half")
		return errors.Join(err, cut)
	})
	if got, rerr := os.ReadFile(name); !errors.Is(err, cut) || rerr != nil || string(got) != "new" {
		t.Errorf("after %v: %q, %v", err, got, rerr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}

// TestWriteOutput writes through to what is no regular file, and replaces what is one.
func TestWriteOutput(t *testing.T) {
	r, w, err := os.Pipe()
	must.Succeed(t, err)
	pipe := fmt.Sprintf("/dev/fd/%d", w.Fd()) // of Linux and macOS
	must.Succeed(t, files.WriteOutput(pipe, []byte("state"), 0o600))
	w.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != "state" {
		t.Errorf("the pipe got %q, %v", got, err)
	}
	name := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"longer", "new"} {
		must.Succeed(t, files.WriteOutput(name, []byte(content), 0o600))
		if got := must.Get(os.ReadFile(name))(t); string(got) != content {
			t.Errorf("got %q, want %q", got, content)
		}
	}
	link := name + ".link" // as /dev/stdout of a shell's > FILE
	must.Succeed(t, os.Symlink(name, link))
	must.Succeed(t, files.WriteOutput(link, []byte("by link"), 0o600))
	if i := must.Get(os.Lstat(link))(t); i.Mode().IsRegular() || string(must.Get(os.ReadFile(name))(t)) != "by link" {
		t.Error("the link was replaced, not the file")
	}
	if err := files.WriteOutput(filepath.Dir(name), nil, 0o600); err == nil {
		t.Error("a folder was written")
	}
}

// TestReplaceLink has a link at the path of the file.
func TestReplaceLink(t *testing.T) {
	dir := t.TempDir()
	victim, name := filepath.Join(dir, "victim"), filepath.Join(dir, "file")
	if err := os.Symlink(victim, name); err != nil {
		t.Skipf("this system makes no symbolic links: %v", err)
	}
	must.Succeed(t, files.Replace(name, []byte("new"), 0o600))
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Stat(victim); err == nil {
		t.Error("written through the link")
	}
}
