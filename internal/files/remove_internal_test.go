// SPDX-License-Identifier: Apache-2.0

//go:build linux

package files

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
)

// TestRemoveWithoutDescriptors removes a tree while the process has one free
// file descriptor, and reports what is left while it has none.
//
// Shows: mistakes 6
func TestRemoveWithoutDescriptors(t *testing.T) {
	dir := t.TempDir() + "/unpacked"
	must.Succeed(t, os.MkdirAll(dir+strings.Repeat("/d", 50), 0o755))
	var old syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	few := old
	few.Cur = 40
	must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	var taken []*os.File
	restore := func() {
		for _, f := range taken {
			f.Close()
		}
		taken = nil
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}
	defer restore()
	for {
		f, err := os.Open("/dev/null")
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, f)
	}
	pauses := 0
	if err := removeFolder(dir, func(time.Duration) { pauses++ }); !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), dir) || pauses == 0 {
		t.Errorf("without a descriptor: %v after %d pauses", err, pauses)
	}
	free := func(time.Duration) { // as if a file was closed meanwhile
		taken[0].Close()
		taken = taken[1:]
	}
	if err := removeFolder(dir, free); err != nil {
		t.Errorf("with one descriptor: %v", err)
	}
	restore()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}
