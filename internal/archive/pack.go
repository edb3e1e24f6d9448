// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/seed-141914ff/okara/internal/files"
)

// Packed is a tree in both formats, in memory or temporary files, which Close frees.
type Packed struct {
	Tar, Zip      PackedFile
	ContentDigest string // "sha256:…" of the uncompressed tar
}

// PackedFile is one archive.
type PackedFile struct {
	Digest string // "sha256:…"
	Size   int64

	file io.ReaderAt
	done func()
}

// Open returns a new reader of the whole file.
func (f PackedFile) Open() *io.SectionReader { return io.NewSectionReader(f.file, 0, f.Size) }

// Close removes the files.
func (p *Packed) Close() {
	p.Tar.done()
	p.Zip.done()
}

// compressors are of a MiB each, so that they are used again; a zip has one open entry at a time.
type compressors struct {
	gz      *gzip.Writer
	deflate *flate.Writer
}

var compressorPool sync.Pool

// takeCompressors returns a pair of the pool, or a new one; its user puts it back.
func takeCompressors() (*compressors, error) {
	if c, ok := compressorPool.Get().(*compressors); ok {
		return c, nil
	}
	gz, err := gzip.NewWriterLevel(io.Discard, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	deflate, err := flate.NewWriter(io.Discard, flate.BestCompression)
	return &compressors{gz, deflate}, err
}

// Pack writes t as tar.gz and zip, small ones in memory, else into temporary files in dir, "" is the
// system's. Each file is read once, so both contain the same bytes.
func (t *Tree) Pack(ctx context.Context, dir string) (_ *Packed, err error) {
	tarFile, zipFile := newOutput(dir), newOutput(dir)
	defer func() {
		if err != nil {
			tarFile.done()
			zipFile.done()
		}
	}()
	c, err := takeCompressors()
	if err != nil {
		return nil, err
	}
	defer compressorPool.Put(c)
	gz := c.gz
	gz.Reset(tarFile)
	gz.ModTime = time.Unix(0, 0) // this library writes another number for the zero Time
	content := sha256.New()
	if err := t.writeArchives(ctx, io.MultiWriter(content, gz), zipFile, c.deflate); err != nil {
		return nil, err
	}
	if err := gz.Close(); err != nil {
		return nil, err
	}
	return &Packed{ContentDigest: sha256Digest(content), Tar: tarFile.packedFile(), Zip: zipFile.packedFile()}, nil
}

// ContentDigest returns the digest that Pack would compute.
func (t *Tree) ContentDigest(ctx context.Context) (string, error) {
	content := sha256.New()
	err := t.writeArchives(ctx, content, nil, nil)
	return sha256Digest(content), err
}

// writeArchives writes the entries as tar and, if zipball is not nil, as zip by deflate.
func (t *Tree) writeArchives(ctx context.Context, tarball, zipball io.Writer, deflate *flate.Writer) error {
	w := &packer{tar: tar.NewWriter(tarball), dirs: map[string]bool{}}
	if zipball != nil {
		w.zip = zip.NewWriter(zipball)
		w.zip.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
			deflate.Reset(out)
			return deflate, nil
		})
	}
	for _, f := range t.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.packFile(t.fsys, f); err != nil {
			return fmt.Errorf("pack %s: %w", f.Path, err)
		}
		if t.Read != nil {
			t.Read(f.Size)
		}
	}
	if err := w.tar.Close(); err != nil || w.zip == nil {
		return err
	}
	return w.zip.Close()
}

// packer writes the same entries to a tar and a zip stream.
type packer struct {
	tar  *tar.Writer
	zip  *zip.Writer     // nil: none is wanted
	dirs map[string]bool // directories written so far
}

// zipEpoch returns the earliest time that a zip can store.
func zipEpoch() time.Time { return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) }

func (w *packer) packFile(fsys fs.FS, f File) error {
	if err := w.parents(path.Dir(f.Path)); err != nil {
		return err
	}
	in, err := fsys.Open(f.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	mode := fs.FileMode(0o644)
	if f.Exec {
		mode = 0o755
	}
	zipped, err := w.packHeader(f.Path, mode, f.Size)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.MultiWriter(w.tar, zipped), io.LimitReader(in, f.Size+1))
	if err == nil && n != f.Size {
		err = fmt.Errorf("%d bytes, was %d when listed: the folder is changing", n, f.Size)
	}
	return err
}

// parents writes the entries of a directory and of those above it, each once.
func (w *packer) parents(dir string) error {
	if dir == "." || w.dirs[dir] {
		return nil
	}
	if err := w.parents(path.Dir(dir)); err != nil {
		return err
	}
	w.dirs[dir] = true
	_, err := w.packHeader(dir+"/", fs.ModeDir|0o755, 0)
	return err
}

func (w *packer) packHeader(name string, mode fs.FileMode, size int64) (io.Writer, error) {
	th := &tar.Header{Name: name, Mode: int64(mode.Perm()), Size: size, ModTime: zipEpoch(), Typeflag: tar.TypeReg}
	zh := &zip.FileHeader{Name: name, Method: zip.Deflate}
	if mode.IsDir() {
		th.Typeflag = tar.TypeDir
		zh.Method = zip.Store
	}
	if err := w.tar.WriteHeader(th); err != nil {
		return nil, err
	}
	if w.zip == nil {
		return io.Discard, nil
	}
	zh.SetMode(mode)
	//lint:ignore SA1019 the field Modified would add an extra field to every entry
	zh.ModifiedDate = 1<<5 | 1 // epoch as a DOS date
	return w.zip.CreateHeader(zh)
}

// output is an archive that computes its digest: in memory up to maxInMemory, then in a temporary file.
type output struct {
	dir   string
	small []byte
	file  *os.File // nil: all of it is in small
	done  func()
	hash  hash.Hash
	size  int64
}

const maxInMemory = 256 << 10

func newOutput(dir string) *output {
	return &output{dir: dir, done: func() {}, hash: sha256.New()}
}

func (o *output) Write(b []byte) (n int, err error) {
	switch {
	case o.file != nil:
		n, err = o.file.Write(b)
	case len(o.small)+len(b) <= maxInMemory:
		o.small = append(o.small, b...)
		n = len(b)
	default:
		if o.file, o.done, err = files.TempFile(o.dir); err != nil {
			o.done = func() {}
			return 0, err
		}
		if _, err = o.file.Write(o.small); err != nil {
			return 0, err
		}
		o.small = nil
		n, err = o.file.Write(b)
	}
	o.hash.Write(b[:n])
	o.size += int64(n)
	return n, err
}

func (o *output) packedFile() PackedFile {
	p := PackedFile{Digest: sha256Digest(o.hash), Size: o.size, file: bytes.NewReader(o.small), done: o.done}
	if o.file != nil {
		p.file = o.file
	}
	return p
}

func sha256Digest(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }
