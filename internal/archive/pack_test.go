// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/must"
)

func mustList(t *testing.T, tree fs.FS, o archive.Options) *archive.Tree {
	t.Helper()
	return must.Get(archive.List(t.Context(), tree, o))(t)
}

func mustPack(t *testing.T, tree fs.FS) *archive.Packed {
	t.Helper()
	p := must.Get(mustList(t, tree, archive.Options{}).Pack(t.Context(), t.TempDir()))(t)
	t.Cleanup(p.Close)
	return p
}

func paths(tree *archive.Tree) []string {
	var out []string
	for _, f := range tree.Files {
		out = append(out, f.Path)
	}
	return out
}

func mustRoot(t *testing.T, dir string) fs.FS {
	t.Helper()
	root := must.Get(os.OpenRoot(dir))(t)
	t.Cleanup(func() { root.Close() })
	return root.FS()
}

// writeTree creates the same tree with other times and modes.
func writeTree(t *testing.T, umask int, when time.Time) string {
	t.Helper()
	old := syscall.Umask(umask)
	defer syscall.Umask(old)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.tf": "variable \"a\" {}\n", "a.tf": "", "a/b.tf": "locals {}\n", "a/deep/ü.tf": "", "run.sh": "#!/bin/sh\n",
		strings.Repeat("long/", 40) + strings.Repeat("x", 120) + ".tf": "",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o777))
		mode := fs.FileMode(0o666)
		if name == "run.sh" {
			mode = 0o777
		}
		must.Succeed(t, os.WriteFile(file, []byte(text), mode))
		must.Succeed(t, os.Chtimes(file, when, when))
	}
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "empty"), 0o777))
	return dir
}

func TestPackIsDeterministic(t *testing.T) {
	one := mustPack(t, mustRoot(t, writeTree(t, 0o022, time.Unix(1e9, 0))))
	two := mustPack(t, mustRoot(t, writeTree(t, 0o077, time.Unix(1.7e9, 5))))
	if diff := cmp.Diff(one, two, cmpopts.IgnoreUnexported(archive.PackedFile{})); diff != "" {
		t.Errorf("(-umask 022 +umask 077)\n%s", diff)
	}
	// The content digest is stored in every registry: it must not change.
	const golden = "sha256:d8c94968d9e4b879c1142d4dec27752af7fce012eee2e9c7bdd9b47e06824dcc"
	must.Equal(t, "content digest", one.ContentDigest, golden)
}

func TestPackHoldsTheSameInBothForms(t *testing.T) {
	dir := writeTree(t, 0o022, time.Unix(1e9, 0))
	for _, size := range []int{0, 100 << 10, 600 << 10} { // in memory, and in files
		noise := make([]byte, size)
		must.Get(rand.NewChaCha8([32]byte{}).Read(noise))(t)
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "noise"), noise, 0o600))
		checkBothForms(t, mustPack(t, mustRoot(t, dir)))
	}
}

func checkBothForms(t *testing.T, p *archive.Packed) {
	t.Helper()
	type entry struct {
		Name, Text string
		Mode       fs.FileMode
		Time       time.Time
	}
	var tarred, zipped []entry
	gz := must.Get(gzip.NewReader(p.Tar.Open()))(t)
	if gz.Name != "" || gz.Comment != "" || !gz.ModTime.IsZero() || gz.OS != 255 {
		t.Errorf("gzip header %+v", gz.Header)
	}
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b := must.Get(io.ReadAll(tr))(t)
		if h.Uid+h.Gid != 0 || h.Uname+h.Gname != "" {
			t.Errorf("%s has an owner", h.Name)
		}
		for key := range h.PAXRecords {
			if key != "path" {
				t.Errorf("%s has PAX record %s", h.Name, key)
			}
		}
		tarred = append(tarred, entry{h.Name, string(b), h.FileInfo().Mode(), h.ModTime.UTC()})
	}
	z := must.Get(zip.NewReader(p.Zip.Open(), p.Zip.Size))(t)
	for _, h := range z.File {
		r := must.Get(h.Open())(t)
		b := must.Get(io.ReadAll(r))(t)
		if len(h.Extra) > 0 {
			t.Errorf("%s has an extra field", h.Name)
		}
		zipped = append(zipped, entry{h.Name, string(b), h.Mode(), h.Modified.UTC()})
	}
	if diff := cmp.Diff(tarred, zipped); diff != "" {
		t.Errorf("(-tar +zip)\n%s", diff)
	}
	var names []string
	for _, e := range zipped[:5] {
		names = append(names, e.Name)
		if want := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); !e.Time.Equal(want) {
			t.Errorf("%s has time %v", e.Name, e.Time)
		}
	}
	must.Match(t, "order", names, []string{"a.tf", "a/", "a/b.tf", "a/deep/", "a/deep/ü.tf"})
}

func TestPackLeavesNothingAfterAnError(t *testing.T) {
	dir := t.TempDir()
	noise := make([]byte, 600<<10)
	must.Get(rand.NewChaCha8([32]byte{}).Read(noise))(t)
	tree := mustList(t, fstest.MapFS{"a": {Data: noise}, "b.tf": {Data: []byte("x")}}, archive.Options{})
	tree.Files[1].Size = 5 // as if the file had shrunk meanwhile
	if _, err := tree.Pack(t.Context(), dir); err == nil {
		t.Error("want an error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestListRefuses(t *testing.T) {
	many := fstest.MapFS{}
	for _, name := range []string{"a", "b", "c"} {
		many[name+".tf"] = &fstest.MapFile{Data: []byte("12345")}
	}
	tests := []struct {
		name   string
		tree   fs.FS
		limits archive.Limits
		want   error
		text   string
	}{
		{"device", fstest.MapFS{"d": {Mode: fs.ModeDevice}}, archive.Limits{}, archive.ErrUnsafe, "not a regular file"},
		{"case", fstest.MapFS{"Main.tf": {}, "main.tf": {}}, archive.Limits{}, archive.ErrUnsafe, "differ only in case"},
		{"case of a folder", fstest.MapFS{"A/x.tf": {}, "a/y.tf": {}}, archive.Limits{}, archive.ErrUnsafe, "differ only in case"},
		{"backslash", fstest.MapFS{`a\b.tf`: {}}, archive.Limits{}, archive.ErrUnsafe, "backslash"},
		{"control character", fstest.MapFS{"a\nb.tf": {}}, archive.Limits{}, archive.ErrUnsafe, "control character"},
		{"files", many, archive.Limits{Files: 2}, archive.ErrTooLarge, "more than 2 files"},
		{"bytes", many, archive.Limits{Bytes: 14}, archive.ErrTooLarge, "more than 14 bytes"},
		{"one file", many, archive.Limits{FileSize: 4}, archive.ErrTooLarge, "a.tf: 5 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := archive.List(t.Context(), tt.tree, archive.Options{Limits: tt.limits})
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.text)
			}
		})
	}
}

// TestListLinks: links ship as what they lead to; dead ones are named, escaping ones refused.
func TestListLinks(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	must.Succeed(t, os.WriteFile(outside, []byte("secret"), 0o600))
	for _, tt := range []struct {
		links string // NAME>TARGET, separated by spaces
		files string // that ship besides those that are there
		left  string // what is said of a link that is left out
		want  error
	}{
		{"copy>sub/a.tf again>copy", "again copy", "", nil},
		{"copy>sub deep/er>../sub", "copy/a.tf deep/er/a.tf", "", nil},
		{"AGENTS.md>CLAUDE.md", "", "AGENTS.md: symbolic link to CLAUDE.md, which does not exist", nil},
		{"sub/README.md>../docs/none.md b>sub/README.md", "", "b: symbolic link to sub/README.md, which does not exist", nil},
		{"x>" + outside, "", "", archive.ErrUnsafe},
		{"x>../x", "", "", archive.ErrUnsafe},
		{"here>. x>here/../secret", "", "", archive.ErrUnsafe},
		{"x>sub/a.tf/b", "", "", archive.ErrUnsafe},
		{"sub/all>..", "", "", archive.ErrUnsafe},
		{"a>b b>a", "", "", archive.ErrUnsafe},
		{"values>sub/x.tfvars more>values", "", "", nil}, // held back like its target
		{"built>gen/out.txt log>far/deep/a.log all>far/deep", "all/b.txt", "", nil},
		{"up>far/deep/er far/deep/er/top>../../../top.md", "far/deep/er/top up/top", "", nil}, // through a link, but not out
		{"x>.git/config", "", "x: symbolic link to .git/config, never included: .git*", nil},
		{"x>.git", "", "x: symbolic link to .git, never included: .git*", nil},
		{"x>.terraform/a.json", "", "x: symbolic link to .terraform/a.json, excluded by default: .terraform/", nil},
	} {
		t.Run(tt.links, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"main.tf": "", "sub/a.tf": "a", "sub/x.tfvars": "", ".git/config": "", ".terraform/a.json": "", "gen/out.txt": "", ".gitignore": "/gen/\n/far/deep/a.log\n",
				"far/deep/a.log": "", "far/deep/b.txt": "", "top.md": "",
			} {
				writeFile(t, filepath.Join(dir, name), text)
			}
			for one := range strings.FieldsSeq(tt.links) {
				name, target, _ := strings.Cut(one, ">")
				must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.Symlink(target, filepath.Join(dir, name))))
			}
			tree, err := archive.List(t.Context(), mustRoot(t, dir), archive.Options{Hold: &archive.HoldBack{}})
			if !errors.Is(err, tt.want) || err != nil && strings.Contains(err.Error(), "statat") {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err != nil {
				return
			}
			got := slices.DeleteFunc(paths(tree), func(name string) bool {
				return slices.Contains([]string{"main.tf", "sub/a.tf", "far/deep/b.txt", "top.md"}, name)
			})
			must.Match(t, "value", got, strings.Fields(tt.files), cmpopts.EquateEmpty())
			said := tt.left == ""
			for _, l := range tree.Links {
				said = said || l.Path+": "+l.Reason == tt.left
			}
			if !said || tt.left == "" && len(tree.Links) > 0 {
				t.Errorf("left out: %v", tree.Links)
			}
		})
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "main.tf"), "")
	must.Succeed(t, errors.Join(os.Symlink(".", filepath.Join(dir, "all")), os.Symlink("self", filepath.Join(dir, "self"))))
	if tree := mustList(t, mustRoot(t, dir), archive.Options{Foreign: true}); len(tree.Files) != 1 || len(tree.Links) != 2 {
		t.Errorf("of somebody else: %v, left out %v", paths(tree), tree.Links)
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)))
}
