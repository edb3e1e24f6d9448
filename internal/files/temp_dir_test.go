// SPDX-License-Identifier: Apache-2.0

package files_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/must"
)

const envParent = "OKARA_TEST_SCRATCH"

// TestMain also acts as a process that uses a directory until it is killed.
func TestMain(m *testing.M) {
	if parent := os.Getenv(envParent); parent != "" {
		dir, _, err := files.TempDir(parent)
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, "tree", "deep"), 0o700)
		}
		fmt.Println(dir, err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestTempDirOfKilledGoes creates a directory beside those of a killed process
// and of a running one.
//
// Shows: mistakes 22
func TestTempDirOfKilledGoes(t *testing.T) {
	parent := t.TempDir()
	killed, goesOn := hold(t, parent), hold(t, parent)
	if n := len(names(t, parent)); n != 2 {
		t.Fatalf("%d directories of 2 processes", n)
	}
	must.Succeed(t, killed.Process.Kill())
	_ = killed.Wait() // the error is that it was killed
	dir, done := must.GetBoth(files.TempDir(parent))(t)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("a new directory has %v, %v", entries, err)
	}
	if info, err := os.Stat(filepath.Dir(dir)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	must.Equal(t, "directories", len(names(t, parent)), 2)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "text"), nil, 0o400))
	must.Succeed(t, done())
	must.Succeed(t, goesOn.Process.Kill())
	_ = goesOn.Wait()
	files.CleanUp(parent)
	if left := names(t, parent); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// hold starts a process that uses a directory.
func hold(t *testing.T, parent string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envParent+"="+parent)
	must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Succeed(t, cmd.Start())
	var dir, problem string
	if _, err := fmt.Fscan(out, &dir, &problem); err != nil || problem != "<nil>" {
		t.Fatalf("%s, %v", problem, err)
	}
	return cmd
}

// TestCleanUpOfKilled has each state in which a process can be killed, and
// directories that must not be removed.
//
// Shows: mistakes 22
func TestCleanUpOfKilled(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{"okara-scratch-1begun/", "okara-scratch-2locked/lock", "okara-scratch-3used/lock", "okara-scratch-3used/files/a/b", "okara-scratch-4named"} {
		write(t, filepath.Join(parent, name), name[len(name)-1] == '/')
	}
	kept := []string{"notes.txt", "okara-scratch-link", "okara-scratch-shared", "okara-scratch-strange"}
	write(t, filepath.Join(parent, "notes.txt"), false)
	write(t, filepath.Join(parent, "okara-scratch-shared/lock"), false)
	write(t, filepath.Join(parent, "okara-scratch-strange/text"), false)
	must.Succeed(t, os.Chmod(filepath.Join(parent, "okara-scratch-shared"), 0o777))
	elsewhere := t.TempDir()
	write(t, filepath.Join(elsewhere, "lock"), false)
	must.Succeed(t, os.Symlink(elsewhere, filepath.Join(parent, "okara-scratch-link")))
	files.CleanUp(parent)
	must.Match(t, "value", names(t, parent), kept)
	if left := names(t, elsewhere); !slices.Equal(left, []string{"lock"}) {
		t.Errorf("behind the link: %v", left)
	}
}

func write(t *testing.T, path string, dir bool) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
	if dir {
		must.Succeed(t, os.MkdirAll(path, 0o700))
		return
	}
	must.Succeed(t, os.WriteFile(path, []byte("left"), 0o600))
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
