// SPDX-License-Identifier: Apache-2.0

package files

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// TestTempFileHasNoName reads the directory while the files are in use: a
// killed process would leave the same content.
//
// Shows: mistakes 22 | a killed `okara mirror` left temporary files | on Linux such a file never
// has a name; named files and folders are removed by the next run
func TestTempFileHasNoName(t *testing.T) {
	for name, open := range map[string]func(string) (*os.File, func(), error){"scratch": TempFile, "named": namedFile} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if name == "named" { // a process was killed before its file lost its name
				must.Succeed(t, os.WriteFile(filepath.Join(dir, prefix+"123"), []byte("left"), 0o600))
			}
			f, done := must.GetBoth(open(dir))(t)
			defer done()
			must.Get(io.WriteString(f, "text"))(t)
			b := make([]byte, 4)
			if _, err := f.ReadAt(b, 0); err != nil || string(b) != "text" {
				t.Errorf("read %q, %v", b, err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 && runtime.GOOS != "windows" {
				t.Errorf("the folder has %v, %v", left, err)
			}
		})
	}
}
