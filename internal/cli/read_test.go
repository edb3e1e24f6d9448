// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestReadToken refuses a file that others may read, as with a key.
func TestReadToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o644: false} {
		must.Succeed(t, os.WriteFile(file, []byte("a-token\n"), 0o600))
		must.Succeed(t, os.Chmod(file, mode))
		got, err := cli.ReadToken(nil, file)
		if _, open := err.(*files.ModeError); open == ok || ok != (got == "a-token") {
			t.Errorf("mode %04o: %q, %v", mode, got, err)
		}
		must.Succeed(t, os.Chmod(file, 0o600))
	}
	if got, err := cli.ReadToken(strings.NewReader("another\n"), "-"); err != nil || got != "another" {
		t.Errorf("standard input: %q, %v", got, err)
	}
}
