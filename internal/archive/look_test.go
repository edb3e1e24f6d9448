// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/must"
)

// lookZip returns a zip of the files, in the order of their names.
func lookZip(t testing.TB, files map[string]string) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f := must.Get(w.Create(name))(t)
		must.Get(f.Write([]byte(files[name])))(t)
	}
	must.Succeed(t, w.Close())
	return bytes.NewReader(b.Bytes())
}

func TestContents(t *testing.T) {
	r := lookZip(t, map[string]string{"main.tf": "a", "docs/": "", "docs/x.md": "hello", "./y": "z"})
	files, err := archive.Contents(r, r.Size(), archive.Limits{})
	if want := []archive.File{{Path: "docs/x.md", Size: 5}, {Path: "main.tf", Size: 1}, {Path: "y", Size: 1}}; err != nil || !slices.Equal(files, want) {
		t.Errorf("got %v, %v", files, err)
	}
	if _, err := archive.Contents(r, r.Size(), archive.Limits{Files: 2}); !errors.Is(err, archive.ErrTooLarge) {
		t.Errorf("three of two files: %v", err)
	}
	for _, name := range []string{"../x", "/x", "a/../../x", "a\\b"} {
		bad := lookZip(t, map[string]string{name: ""})
		if _, err := archive.Contents(bad, bad.Size(), archive.Limits{}); !errors.Is(err, archive.ErrUnsafe) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestReadFile(t *testing.T) {
	r := lookZip(t, map[string]string{"bomb": strings.Repeat("a", 1<<20), "docs/x.md": "hello", "d/": ""})
	for _, c := range []struct {
		path, want string
		err        error
	}{
		{"docs/x.md", "hello", nil},
		{"bomb", "", archive.ErrTooLarge},
		{"none", "", fs.ErrNotExist},
		{"d/", "", fs.ErrNotExist},
		{"../x", "", fs.ErrNotExist},
	} {
		got, err := archive.ReadFile(r, r.Size(), c.path, 100)
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.path, got, err)
		}
	}
}

// FuzzContents checks that the result for arbitrary bytes is within the bounds.
func FuzzContents(f *testing.F) {
	for _, files := range []map[string]string{{"main.tf": "a"}, {"a/b": "c", "a/": ""}, {}} {
		b := make([]byte, 4096)
		n, _ := lookZip(f, files).Read(b)
		f.Add(b[:n])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		files, err := archive.Contents(r, r.Size(), archive.Limits{Files: 10})
		if err != nil {
			return
		}
		for i, file := range files {
			if i >= 10 || !fs.ValidPath(file.Path) || file.Size < 0 {
				t.Fatalf("%v", files)
			}
			if text, err := archive.ReadFile(r, r.Size(), file.Path, 100); err == nil && len(text) > 100 {
				t.Fatalf("%s has %d bytes", file.Path, len(text))
			}
		}
	})
}
