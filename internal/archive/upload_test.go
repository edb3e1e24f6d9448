// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/must"
)

func reg(name, text string) part { return part{tar.Header{Name: name, Mode: 0o600}, text} }
func symlink(name, target string) part {
	return part{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}, ""}
}
func folder(name string) part { return part{tar.Header{Name: name, Typeflag: tar.TypeDir}, ""} }

type part struct {
	tar.Header
	text string
}

func pack(t testing.TB, entries ...part) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, e := range entries {
		e.Size = int64(len(e.text))
		must.Succeed(t, w.WriteHeader(&e.Header))
		must.Get(io.WriteString(w, e.text))(t)
	}
	must.Succeed(t, errors.Join(w.Close(), gz.Close()))
	return b.Bytes()
}

// tree returns a directory's content: text of files, "-> target" of links, "/" of directories.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	must.Succeed(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			got[name] = "/"
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			got[name] = "-> " + target
			return err
		default:
			b, err := os.ReadFile(path)
			got[name] = string(b)
			return err
		}
		return nil
	}))
	return got
}

// TestUnpackUpload unpacks an archive as made by a tool: directories before and
// after their content, links before their targets, and dangling links.
func TestUnpackUpload(t *testing.T) {
	run := reg("modules/a/run.sh", "x")
	run.Mode = 0o755
	b := pack(t,
		symlink("a/b/up", "../../main.tf"), symlink("dir", "modules/a/"), symlink("self", "self"), symlink("gone", "./none/at/all"),
		reg("./main.tf", "text"), folder("modules"), run, folder("modules/a/"), folder("./"), symlink("a/root", ".."))
	dir := t.TempDir()
	must.Succeed(t, archive.UnpackUpload(t.Context(), bytes.NewReader(b), dir, archive.Limits{}))
	want := map[string]string{
		"main.tf": "text", "a": "/", "a/b": "/", "a/b/up": "-> ../../main.tf", "a/root": "-> ..", "dir": "-> modules/a/", "self": "-> self",
		"gone": "-> ./none/at/all", "modules": "/", "modules/a": "/", "modules/a/run.sh": "x",
	}
	must.Match(t, "value", tree(t, dir), want)
	if info, err := os.Stat(filepath.Join(dir, "modules/a/run.sh")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("%v %v", info, err)
	}
	must.Succeed(t, archive.CheckUpload(t.Context(), bytes.NewReader(b), archive.Limits{}))
}

// TestUploadRefused has each way to leave a directory, and each bound.
//
// Shows: cloud 29
func TestUploadRefused(t *testing.T) {
	device := func(kind byte) part { return part{tar.Header{Name: "x", Typeflag: kind, Linkname: "main.tf"}, ""} }
	deep := strings.Repeat("d/", 64) + "x"
	many := func(n int) (list []part) {
		for i := range n {
			list = append(list, folder(fmt.Sprintf("d%d", i)))
		}
		return list
	}
	for name, tt := range map[string]struct {
		entries []part
		want    error
	}{
		"absolute":                       {[]part{reg("/etc/x", "")}, archive.ErrUnsafe},
		"parent":                         {[]part{reg("../x", "")}, archive.ErrUnsafe},
		"parent inside":                  {[]part{reg("a/../../x", "")}, archive.ErrUnsafe},
		"link out":                       {[]part{symlink("x", "../y")}, archive.ErrUnsafe},
		"link out below":                 {[]part{symlink("a/x", "../../y")}, archive.ErrUnsafe},
		"absolute link":                  {[]part{symlink("x", "/etc/passwd")}, archive.ErrUnsafe},
		"link without target":            {[]part{symlink("x", "")}, archive.ErrUnsafe},
		"link to a control character":    {[]part{symlink("x", "a\nb")}, archive.ErrUnsafe},
		"link up over another link":      {[]part{symlink("a/b/up", "../.."), symlink("a/b/out", "up/../y")}, archive.ErrUnsafe},
		"file below a link":              {[]part{folder("a"), symlink("x", "a"), reg("x/y", "")}, archive.ErrUnsafe},
		"file below a later link":        {[]part{reg("x/y", ""), symlink("x", "a")}, archive.ErrUnsafe},
		"link below a link":              {[]part{symlink("x", "a"), symlink("x/y", "b")}, archive.ErrUnsafe},
		"file over a link":               {[]part{symlink("x", "a"), reg("x", "")}, archive.ErrUnsafe},
		"file below a file":              {[]part{reg("x", ""), reg("x/y", "")}, archive.ErrUnsafe},
		"folder over a file":             {[]part{reg("x", ""), folder("x")}, archive.ErrUnsafe},
		"file twice":                     {[]part{reg("x", "1"), reg("./x", "2")}, archive.ErrUnsafe},
		"hard link":                      {[]part{reg("main.tf", ""), device(tar.TypeLink)}, archive.ErrUnsafe},
		"device":                         {[]part{device(tar.TypeChar)}, archive.ErrUnsafe},
		"block device":                   {[]part{device(tar.TypeBlock)}, archive.ErrUnsafe},
		"pipe":                           {[]part{device(tar.TypeFifo)}, archive.ErrUnsafe},
		"deep":                           {[]part{reg(deep, "")}, archive.ErrTooLarge},
		"long":                           {[]part{reg(strings.Repeat("abcdefg/", 140)+"x", "")}, archive.ErrTooLarge},
		"long link":                      {[]part{symlink("x", strings.Repeat("y/", 600))}, archive.ErrUnsafe},
		"too many":                       {many(101), archive.ErrTooLarge},
		"too large":                      {[]part{reg("x", strings.Repeat("x", 1000)), reg("y", "12345678901234567890123456789")}, archive.ErrTooLarge},
		"folder that is a link and more": {[]part{symlink("a", "b"), folder("a")}, archive.ErrUnsafe},
	} {
		t.Run(name, func(t *testing.T) {
			outside := t.TempDir()
			dir := filepath.Join(outside, "a", "b")
			must.Succeed(t, os.MkdirAll(dir, 0o700))
			b := pack(t, tt.entries...)
			l := archive.Limits{Files: 100, Dirs: 100, Bytes: 1024}
			if err := archive.UnpackUpload(t.Context(), bytes.NewReader(b), dir, l); !errors.Is(err, tt.want) {
				t.Errorf("unpacked: %v, want %v", err, tt.want)
			}
			if err := archive.CheckUpload(t.Context(), bytes.NewReader(b), l); !errors.Is(err, tt.want) {
				t.Errorf("checked: %v, want %v", err, tt.want)
			}
			for name := range tree(t, outside) {
				if name != "a" && !strings.HasPrefix(name, filepath.Join("a", "b")) {
					t.Errorf("%s was written", name)
				}
			}
		})
	}
}

// TestUploadBroken tells an invalid archive from an incomplete one.
func TestUploadBroken(t *testing.T) {
	whole := pack(t, reg("main.tf", strings.Repeat("0123456789", 1000)))
	for name, b := range map[string][]byte{"nothing": nil, "no gzip": []byte("PK\x03\x04aaaaaaaaaaaa"), "half": whole[:len(whole)/2], "damaged": append(bytes.Clone(whole[:20]), bytes.Repeat([]byte{0xff}, 200)...)} {
		if err := archive.CheckUpload(t.Context(), bytes.NewReader(b), archive.Limits{}); !errors.Is(err, archive.ErrUnsafe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone := errors.New("gone")
	for n := range 3 {
		r := io.MultiReader(bytes.NewReader(whole[:n*len(whole)/2]), iotest.ErrReader(gone))
		if err := archive.CheckUpload(t.Context(), r, archive.Limits{}); !errors.Is(err, gone) || errors.Is(err, archive.ErrUnsafe) {
			t.Errorf("after %d halves: %v", n, err)
		}
	}
}

// TestUploadBomb checks that reading ends soon.
//
// Shows: cloud 29
func TestUploadBomb(t *testing.T) {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	const size = 64 << 20
	must.Succeed(t, w.WriteHeader(&tar.Header{Name: "x", Mode: 0o600, Size: size}))
	zero := make([]byte, 1<<20)
	for range size / len(zero) {
		must.Get(w.Write(zero))(t)
	}
	must.Succeed(t, errors.Join(w.Close(), gz.Close()))
	dir := t.TempDir()
	err := archive.UnpackUpload(t.Context(), &b, dir, archive.Limits{Bytes: 1 << 20, Files: 10})
	if !errors.Is(err, archive.ErrTooLarge) {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "x")); err == nil && info.Size() > 1<<20+1 {
		t.Errorf("%d bytes were written", info.Size())
	}
}

// FuzzUpload unpacks arbitrary input: nothing is written outside, no link leads
// outside, and the checked content is the unpacked content.
//
// Shows: cloud 29
func FuzzUpload(f *testing.F) {
	for _, entries := range [][]part{
		{reg("main.tf", "x"), symlink("a/b", "../main.tf"), folder("c")},
		{symlink("a/b/up", "../.."), symlink("a/b/out", "up/../y"), reg("a/b/c/d", "")},
		{part{tar.Header{Name: "x", Typeflag: tar.TypeLink, Linkname: "../y"}, ""}},
	} {
		gz := must.Get(gzip.NewReader(bytes.NewReader(pack(f, entries...))))(f)
		plain := must.Get(io.ReadAll(gz))(f)
		f.Add(plain)
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		var b bytes.Buffer
		gz := gzip.NewWriter(&b)
		_, _ = gz.Write(plain)
		_ = gz.Close()
		outside := t.TempDir()
		dir := filepath.Join(outside, "in")
		must.Succeed(t, os.Mkdir(dir, 0o700))
		l := archive.Limits{Files: 50, Bytes: 1 << 20}
		err := archive.UnpackUpload(t.Context(), bytes.NewReader(b.Bytes()), dir, l)
		if checked := archive.CheckUpload(t.Context(), bytes.NewReader(b.Bytes()), l); (err == nil) != (checked == nil) {
			t.Errorf("unpacked: %v, checked: %v", err, checked)
		}
		real := must.Get(filepath.EvalSymlinks(dir))(t)
		for name, what := range tree(t, outside) {
			if name != "in" && !strings.HasPrefix(name, "in/") {
				t.Errorf("%q was written", name)
			}
			if strings.HasPrefix(what, "-> ") {
				if at, err := filepath.EvalSymlinks(filepath.Join(outside, name)); err == nil && at != real && !strings.HasPrefix(at, real+"/") {
					t.Errorf("%q leads to %q", name, at)
				}
			}
		}
	})
}
