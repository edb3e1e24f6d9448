// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestUnpackReversesPack(t *testing.T) {
	p := mustPack(t, mustRoot(t, writeTree(t, 0o022, time.Unix(1e9, 0))))
	for _, packed := range []archive.PackedFile{p.Tar, p.Zip} {
		dir := t.TempDir()
		must.Succeed(t, archive.Unpack(t.Context(), packed.Open(), packed.Size, dir, archive.Limits{}))
		got, err := mustList(t, mustRoot(t, dir), archive.Options{}).ContentDigest(t.Context())
		if err != nil || got != p.ContentDigest {
			t.Errorf("content digest %s, %v, want %s", got, err, p.ContentDigest)
		}
	}
}

type entry struct {
	name, text string
	mode       fs.FileMode
}

func newZip(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode | 0o644)
		f := must.Get(w.CreateHeader(h))(t)
		must.Get(f.Write([]byte(e.text)))(t)
	}
	must.Succeed(t, w.Close())
	return b.Bytes()
}

func newTarGz(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.text)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if e.mode&fs.ModeSymlink != 0 {
			h.Typeflag, h.Linkname, h.Size, e.text = tar.TypeSymlink, e.text, 0, ""
		}
		must.Succeed(t, w.WriteHeader(h))
		must.Get(w.Write([]byte(e.text)))(t)
	}
	must.Succeed(t, errors.Join(w.Close(), gz.Close()))
	return b.Bytes()
}

func TestUnpackRefuses(t *testing.T) {
	bomb := strings.Repeat("0", 4<<20)
	tests := []struct {
		name    string
		entries []entry
		want    error
	}{
		{"parent", []entry{{"../x.tf", "", 0}}, archive.ErrUnsafe},
		{"parent inside", []entry{{"a/../../x.tf", "", 0}}, archive.ErrUnsafe},
		{"absolute", []entry{{"/etc/x", "", 0}}, archive.ErrUnsafe},
		{"backslash", []entry{{`..\x.tf`, "", 0}}, archive.ErrUnsafe},
		{"drive", []entry{{"C:/x.tf", "", 0}}, archive.ErrUnsafe},
		{"device", []entry{{"sub/NUL.tf", "", 0}}, archive.ErrUnsafe},
		{"device with a stream", []entry{{"con:x", "", 0}}, archive.ErrUnsafe},
		{"device of a number", []entry{{"LPT².txt", "", 0}}, archive.ErrUnsafe},
		{"content of a file", []entry{{"main.tf::$DATA", "", 0}}, archive.ErrUnsafe},
		{"link", []entry{{"l", "/etc/passwd", fs.ModeSymlink}}, archive.ErrUnsafe},
		{"file through a link", []entry{{"l", "..", fs.ModeSymlink}, {"l/x", "", 0}}, archive.ErrUnsafe},
		{"file twice", []entry{{"a", "1", 0}, {"a", "2", 0}}, archive.ErrUnsafe},
		{"file as directory", []entry{{"a", "1", 0}, {"a/b", "2", 0}}, archive.ErrUnsafe},
		{"bomb", []entry{{"a", bomb, 0}}, archive.ErrTooLarge},
		{"bomb of parts", []entry{{"a", bomb[:700<<10], 0}, {"b", bomb[:700<<10], 0}}, archive.ErrTooLarge},
		{"many files", []entry{{"a", "", 0}, {"b", "", 0}, {"c", "", 0}, {"d", "", 0}}, archive.ErrTooLarge},
	}
	for _, tt := range tests {
		for form, b := range map[string][]byte{"zip": newZip(t, tt.entries...), "tar.gz": newTarGz(t, tt.entries...)} {
			t.Run(tt.name+"/"+form, func(t *testing.T) {
				parent := t.TempDir()
				dir := parent + "/in"
				must.Succeed(t, os.Mkdir(dir, 0o755))
				err := archive.Unpack(t.Context(), bytes.NewReader(b), int64(len(b)), dir, archive.Limits{Files: 3, Bytes: 1 << 20})
				if !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				left := must.Get(os.ReadDir(parent))(t)
				if diff := cmp.Diff(len(left), 1); diff != "" {
					t.Errorf("files outside: %v", left)
				}
			})
		}
	}
	t.Run("what a bomb takes", func(t *testing.T) {
		const limit = 1 << 20
		zip, tarGz := newZip(t, entry{"a", strings.Repeat("0", 64<<20), 0}), newTarGz(t, entry{"a", strings.Repeat("0", 64<<20), 0})
		for form, b := range map[string][]byte{"zip": zip, "tar.gz": tarGz} {
			var before, after runtime.MemStats
			dir := t.TempDir()
			runtime.ReadMemStats(&before)
			err := archive.Unpack(t.Context(), bytes.NewReader(b), int64(len(b)), dir, archive.Limits{Bytes: limit})
			runtime.ReadMemStats(&after)
			if memory := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, archive.ErrTooLarge) || memory > 8<<20 {
				t.Errorf("%s of %d bytes: %v, with %d bytes of memory", form, len(b), err, memory)
			}
			if info, err := os.Stat(dir + "/a"); err != nil || info.Size() > limit+1 {
				t.Errorf("%s: %v of the disk, %v", form, info.Size(), err)
			}
		}
	})
	for name, b := range map[string][]byte{
		"neither": []byte("hello world"), "empty": {}, "cut zip": newZip(t, entry{"a", "b", 0})[:20], "cut gzip": newTarGz(t, entry{"a", "b", 0})[:20],
	} {
		t.Run(name, func(t *testing.T) {
			if err := archive.Unpack(t.Context(), bytes.NewReader(b), int64(len(b)), t.TempDir(), archive.Limits{}); !errors.Is(err, archive.ErrUnsafe) {
				t.Errorf("got %v, want ErrUnsafe", err)
			}
		})
	}
}

// TestUnpackForeign writes one directory of a forge's archive, whatever else is in it.
func TestUnpackForeign(t *testing.T) {
	elsewhere := []entry{
		{"top/link", "/etc/passwd", fs.ModeSymlink}, {"top/a/bc/x.tf", "", 0}, {"top/b/x.tf", "", 0}, {"b/x.tf", "", 0}, {"top/x.tf", "", 0}, {"../x.tf", "", 0},
	}
	inside := []entry{{"top/a/b/main.tf", "x", 0}, {"top/a/b/c/d.txt", "y", 0}}
	tests := []struct {
		name    string
		entries []entry
		want    error
	}{
		{"good", append(elsewhere, inside...), nil},
		{"link out of the folder", append(inside, entry{"top/a/b/l", "../../../../x", fs.ModeSymlink}), archive.ErrUnsafe},
		{"out of the folder", append(inside, entry{"top/a/b/../../../../x.tf", "", 0}), archive.ErrUnsafe},
		{"out of the archive", append(inside, entry{"../a/b/x.tf", "", 0}), archive.ErrUnsafe},
		{"many files inside", append(inside, entry{"top/a/b/1", "", 0}, entry{"top/a/b/2", "", 0}), archive.ErrTooLarge},
	}
	for _, tt := range tests {
		for form, b := range map[string][]byte{"zip": newZip(t, tt.entries...), "tar.gz": newTarGz(t, tt.entries...)} {
			t.Run(tt.name+"/"+form, func(t *testing.T) {
				dir := t.TempDir()
				err := archive.UnpackForeign(t.Context(), bytes.NewReader(b), int64(len(b)), "a/b", dir, archive.Limits{Files: 3})
				if !errors.Is(err, tt.want) {
					t.Fatalf("got %v, want %v", err, tt.want)
				}
				if tt.want != nil {
					return
				}
				var got []string
				must.Succeed(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
					if err == nil && !e.IsDir() {
						got = append(got, name)
					}
					return err
				}))
				must.Match(t, "files", got, []string{"top/a/b/c/d.txt", "top/a/b/main.tf"})
			})
		}
	}
}

// TestUnpackForms unpacks each form of modules' archives, and names what it does not read.
func TestUnpackForms(t *testing.T) {
	plain := gunzip(t, newTarGz(t, entry{"main.tf", "x", 0}, entry{"l", "main.tf", fs.ModeSymlink}))
	zipped := newZip(t, entry{"main.tf", "x", 0}, entry{"l", "main.tf", fs.ModeSymlink})
	packer := must.Get(zstd.NewWriter(nil))(t)
	bz2 := must.Get(base64.StdEncoding.DecodeString("QlpoOTFBWSZTWeXODa0AAJ77lMmAAEBAAX2AACDhJ55ABAABAAAIIAB1CUJAAaNMhoAKpEmJkGQ00Gmyn08PONtUCW87wRl3tdpzM+myTFxMJIgMCKJM0cIIRlSQFBKCCl5GyT1cy1s8ZCbU+LK37ND8XM2SjgUbqa16og/i7kinChIcucG1oA=="))(t)
	for name, tt := range map[string]struct {
		b    []byte
		text string // of the error; "": it is read
	}{
		"tar": {plain, ""}, "tar.zst": {packer.EncodeAll(plain, nil), ""}, "tar.bz2": {bz2, ""},
		"zip after other bytes": {append([]byte("#!/bin/sh\nexit\n"), zipped...), ""},
		"tar.xz":                {[]byte("\xfd7zXZ\x00\x00\x04"), "tar.xz archives are not supported; use zip, tar"},
		"7z":                    {[]byte("7z\xbc\xaf\x27\x1c\x00\x04"), "is not a complete zip, tar"},
		"twice":                 {newZip(t, entry{"a", "1", 0}, entry{"./a", "2", 0}), `duplicate entry "a"`},
		"both":                  {newZip(t, entry{"a/b", "1", 0}, entry{"a", "2", 0}), `duplicate entry "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			err := archive.UnpackForeign(t.Context(), bytes.NewReader(tt.b), int64(len(tt.b)), "", dir, archive.Limits{})
			if tt.text != "" {
				if !errors.Is(err, archive.ErrUnsafe) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %v, want %q", err, tt.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			must.Match(t, "value", tree(t, dir), map[string]string{"main.tf": "x", "l": "-> main.tf"})
		})
	}
}

// TestUnpackSparse reads a file with holes, as GNU tar stores it.
func TestUnpackSparse(t *testing.T) {
	h := make([]byte, 1024)
	copy(h, "sparse.bin")
	for at, text := range map[int]string{100: "0000644\x00", 124: "00000000003\x00", 136: "00000000000\x00", 156: "S", 257: "ustar  \x00", 386: "00000010000\x0000000000003\x00", 483: "00000010003\x00", 148: "        "} {
		copy(h[at:], text)
	}
	sum := 0
	for _, b := range h[:512] {
		sum += int(b)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	copy(h[512:], "end")
	b := append(h, make([]byte, 1024)...)
	dir := t.TempDir()
	must.Succeed(t, archive.UnpackForeign(t.Context(), bytes.NewReader(b), int64(len(b)), "", dir, archive.Limits{}))
	if got := tree(t, dir)["sparse.bin"]; got != strings.Repeat("\x00", 4096)+"end" {
		t.Errorf("%d bytes", len(got))
	}
}

func gunzip(t *testing.T, b []byte) []byte {
	t.Helper()
	r := must.Get(gzip.NewReader(bytes.NewReader(b)))(t)
	return must.Get(io.ReadAll(r))(t)
}

// TestUnpackWhatWasPacked: trees that compress a hundredfold, and with very many files.
func TestUnpackWhatWasPacked(t *testing.T) {
	many := fstest.MapFS{}
	for i := range 10_500 {
		many[fmt.Sprintf("d/%d", i)] = &fstest.MapFile{}
	}
	for name, in := range map[string]fstest.MapFS{
		"compresses well": {"schema.json": {Data: bytes.Repeat([]byte(`{"Type":"AWS::EC2::VPC","Required":false},`), 60_000)}},
		"many files":      many,
	} {
		t.Run(name, func(t *testing.T) {
			p := mustPack(t, in)
			for form, packed := range map[string]archive.PackedFile{"tar": p.Tar, "zip": p.Zip} {
				if err := archive.Unpack(t.Context(), packed.Open(), packed.Size, t.TempDir(), archive.Limits{}); err != nil {
					t.Errorf("%s of %d bytes: %v", form, packed.Size, err)
				}
			}
			if files, err := archive.Contents(p.Zip.Open(), p.Zip.Size, archive.Limits{}); err != nil || len(files) != len(in) {
				t.Errorf("%d files, %v", len(files), err)
			}
		})
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte("PK\x03\x04"))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		must.Succeed(t, os.Mkdir(dir+"/in", 0o755))
		_ = archive.UnpackForeign(t.Context(), bytes.NewReader(b), int64(len(b)), "", dir+"/in", archive.Limits{Files: 50, Bytes: 1 << 20})
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("outside: %v, %v", left, err)
		}
	})
}
