// SPDX-License-Identifier: Apache-2.0

package child

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/internal/must"
)

// Shows: crash K13
func TestRunLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	file := must.Get(os.Create(name))(t)
	defer file.Close()
	l := newRunLog(newMasks([]string{"a secret value"}), 1000, file)
	l.line("begin")
	for i := range 100 {
		l.line("line %d with é and a sec", i)
		must.Get(l.Write([]byte("ret value")))(t)
	}
	l.line("the end")
	l.end()
	got := string(l.bytes())
	if len(got) > 1100 || !utf8.ValidString(got) || !strings.HasPrefix(got, "begin\n") || !strings.HasSuffix(got, "the end\n") {
		t.Errorf("log of %d bytes: %s", len(got), got)
	}
	if !strings.Contains(got, "bytes are left out here") {
		t.Errorf("nothing says that the middle is cut: %s", got)
	}
	if b, err := os.ReadFile(name); err != nil || len(b) != 1000 || !strings.HasPrefix(string(b), "begin\n") {
		t.Errorf("file of %d bytes, %v", len(b), err)
	}
}

// TestRunLogWrites writes the same text in pieces of different sizes.
func TestRunLogWrites(t *testing.T) {
	text := strings.Repeat("0123456789", 50)
	for _, limit := range []int{40, 41, 499, 500, 501} {
		var first string
		for size := 1; size < 600; size += 37 {
			l := newRunLog(newMasks(nil), limit, nil)
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				must.Get(l.Write([]byte(rest[:n])))(t)
				rest = rest[n:]
			}
			l.end()
			got := string(l.bytes())
			if first == "" {
				first = got
			}
			if got != first || l.size() != 500 {
				t.Fatalf("limit %d, pieces of %d: %q, want %q", limit, size, got, first)
			}
			if limit >= 500 && got != text {
				t.Errorf("limit %d: %q", limit, got)
			}
			if !strings.HasPrefix(text, got[:limit/2]) || !strings.HasSuffix(text, got[len(got)-limit/2:]) {
				t.Errorf("limit %d: %q", limit, got)
			}
		}
	}
}
