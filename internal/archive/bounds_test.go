// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/archive"
)

// TestUnpackBoundsDirectories unpacks archives that are small because they
// contain only names.
//
// Shows: mistakes 6 | an archive of 2.8 KB created a million directories that were never removed |
// directories, depth and lengths are bounded; removal needs one file descriptor, and reports a
// failure
func TestUnpackBoundsDirectories(t *testing.T) {
	deep := strings.Repeat("d/", 400)
	var wide, implied []entry
	for i := range 2000 {
		implied = append(implied, entry{fmt.Sprintf("%d/a/b/c/d/e/f/x", i), "", 0})
		wide = append(wide, entry{fmt.Sprintf("%d/", i), "", fs.ModeDir})
	}
	tests := []struct {
		name    string
		entries []entry
		text    string
	}{
		{"deep file", []entry{{deep + "x", "", 0}}, "directories deep"},
		{"deep directory", []entry{{deep, "", fs.ModeDir}}, "directories deep"},
		{"implied directories", implied, "more than 100 directories"},
		{"directories", wide, "more than 100 directories"},
		{"long name", []entry{{strings.Repeat("x", 256), "", 0}}, "a name of 256 bytes"},
		{"long path", []entry{{strings.Repeat(strings.Repeat("x", 200)+"/", 6), "", fs.ModeDir}}, "a path of"},
	}
	for _, tt := range tests {
		for form, b := range map[string][]byte{"zip": newZip(t, tt.entries...), "tar.gz": newTarGz(t, tt.entries...)} {
			t.Run(tt.name+"/"+form, func(t *testing.T) {
				dir := t.TempDir()
				err := archive.Unpack(t.Context(), bytes.NewReader(b), int64(len(b)), dir, archive.Limits{Dirs: 100})
				if !errors.Is(err, archive.ErrTooLarge) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %v, want %q", err, tt.text)
				}
				left := 0
				_ = fs.WalkDir(os.DirFS(dir), ".", func(string, fs.DirEntry, error) error { left++; return nil })
				if left > 300 {
					t.Errorf("%d files and directories were written", left)
				}
			})
		}
	}
	one := newZip(t, entry{"a/b/c/", "", fs.ModeDir}, entry{"a/b/", "", fs.ModeDir}, entry{"a/b/c/x", "", 0})
	if err := archive.Unpack(t.Context(), bytes.NewReader(one), int64(len(one)), t.TempDir(), archive.Limits{Dirs: 3}); err != nil {
		t.Errorf("three directories named four times: %v", err)
	}
}

// TestUnpackBoundsTheListOfAZip refuses a zip before all its entries are in
// memory, even if only one directory of it is wanted.
//
// Shows: mistakes 6
func TestUnpackBoundsTheListOfAZip(t *testing.T) {
	var many []entry
	for i := range 30_000 {
		many = append(many, entry{fmt.Sprintf("top/%d", i), "", 0})
	}
	b := newZip(t, many...)
	err := archive.UnpackForeign(t.Context(), bytes.NewReader(b), int64(len(b)), "x", t.TempDir(), archive.Limits{Files: 1000, Dirs: 1000})
	if !errors.Is(err, archive.ErrTooLarge) || !strings.Contains(err.Error(), "reading the list of entries") {
		t.Errorf("got %v", err)
	}
}

// TestListBoundsDirectories lists a tree of directories without files.
func TestListBoundsDirectories(t *testing.T) {
	tree := fstest.MapFS{"main.tf": {}}
	for i := range 30 {
		tree[fmt.Sprintf("d%d", i)] = &fstest.MapFile{Mode: fs.ModeDir}
	}
	if _, err := archive.List(t.Context(), tree, archive.Options{Limits: archive.Limits{Dirs: 29}}); !errors.Is(err, archive.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
	if _, err := archive.List(t.Context(), tree, archive.Options{Limits: archive.Limits{Dirs: 30}}); err != nil {
		t.Error(err)
	}
}

// TestIgnoreBounds checks rules that took gigabytes and minutes.
//
// Shows: mistakes 7 | unbounded ignore rules took gigabytes and minutes | files, rules, wildcards
// and the cost of matching are bounded; the error names file and line
func TestIgnoreBounds(t *testing.T) {
	many := fstest.MapFS{}
	for i := range 300 {
		many[fmt.Sprintf("d%d/.tfignore", i)] = &fstest.MapFile{Data: []byte("a\n")}
	}
	costly := fstest.MapFS{".tfignore": {Data: []byte(strings.Repeat(strings.Repeat("a/**/", 8)+strings.Repeat("b", 200)+"\n", 500))}}
	for i := range 500 {
		costly[strings.Repeat("a/", 60)+strings.Repeat("a", 200)+fmt.Sprint(i)] = &fstest.MapFile{}
	}
	tests := []struct {
		name string
		tree fs.FS
		text string
	}{
		{"rules", fstest.MapFS{".tfignore": {Data: []byte(strings.Repeat("a*\n", 3000))}}, ".tfignore:2001: more than 2000 ignore rules"},
		{"long rule", fstest.MapFS{".terraformignore": {Data: []byte("\n" + strings.Repeat("a", 60<<10))}}, ".terraformignore:2: a rule of 61440 bytes"},
		{"wildcards", fstest.MapFS{"x/.tfignore": {Data: []byte("\n\n" + strings.Repeat("*a", 17))}}, "x/.tfignore:3: a rule with 17 wildcards"},
		{"classes", fstest.MapFS{".tfignore": {Data: []byte(strings.Repeat("[a-z]", 17))}}, ".tfignore:1: a rule with 17 wildcards"},
		{"size", fstest.MapFS{".tfignore": {Data: bytes.Repeat([]byte("\n"), 200<<10)}}, ".tfignore: more than 131072 bytes"},
		{"files", many, "more than 200 ignore files"},
		{"work", costly, "too complex to match"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := archive.List(t.Context(), tt.tree, archive.Options{}); !errors.Is(err, archive.ErrTooLarge) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %q", err, tt.text)
			}
		})
	}
	if _, err := archive.List(t.Context(), fstest.MapFS{}, archive.Options{Ignore: []string{strings.Repeat("*", 17)}}); !errors.Is(err, archive.ErrTooLarge) {
		t.Errorf("a rule of the caller: %v", err)
	}
}

// FuzzIgnore lists a tree with an arbitrary ignore file.
func FuzzIgnore(f *testing.F) {
	f.Add("*.txt\n!a/**/b[!c]?\\ \n/d/\n")
	f.Fuzz(func(t *testing.T, text string) {
		tree := newTree("a/b.txt", "a/x/bc", "d/e f", "g")
		tree[".tfignore"] = &fstest.MapFile{Data: []byte(text)}
		_, err := archive.List(t.Context(), tree, archive.Options{})
		if err != nil && !errors.Is(err, archive.ErrTooLarge) {
			t.Error(err)
		}
	})
}
