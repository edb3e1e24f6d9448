// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci"
)

// Archives opens the blobs of versions. The caller has checked that they may be read.
type Archives interface {
	// OpenArchive opens a blob of a repository for reading; done closes it.
	OpenArchive(ctx context.Context, repository string, d oci.Descriptor) (_ io.ReaderAt, done func(), err error)
	// ArchiveLink returns a path to a blob below the root of the server. It expires.
	ArchiveLink(repository, sha256hex, file string) string
}

// Bounds of the files that pages show.
const (
	maxArchive  = 64 << 20  // bytes of an archive that is opened
	maxText     = 256 << 10 // bytes of a text file
	maxImage    = 2 << 20
	listedBytes = 16 << 20 // cache of file lists
	fileBytes   = 32 << 20 // cache of file contents
)

// files reads the archives of modules, without unpacking them.
type files struct {
	archives Archives // nil: archives cannot be opened
	text     *markdown.Renderer
	renders  site.RenderLimiter
	lists    *cache.Cache[[]archive.File] // archiveKey
	read     *cache.Cache[[]byte]         // archiveKey and path
}

func newFiles(archives Archives, text *markdown.Renderer, c site.RenderLimiter, now func() time.Time) *files {
	size := func(list []archive.File) int {
		n := 64
		for _, f := range list {
			n += 64 + len(f.Path)
		}
		return n
	}
	untold := func(string, string) {}
	return &files{
		archives: archives, text: text, renders: c,
		lists: cache.New("files", listedBytes, size, now, untold),
		read:  cache.New("file", fileBytes, func(b []byte) int { return 64 + len(b) }, now, untold),
	}
}

// archiveKey identifies the archive of a version. The repository is part of it, since a
// manifest may name a digest that its repository does not have.
func archiveKey(mv *catalog.ModuleVersion) string {
	return mv.Repository + "@" + mv.Zip.Digest.String()
}

func (f *files) list(r *site.Request, mv *catalog.ModuleVersion) (list []archive.File, err error) {
	if list, ok := f.lists.Peek(archiveKey(mv)); ok {
		return list, nil
	}
	err = f.withArchive(r, mv, func(z io.ReaderAt) error {
		list, err = archive.Contents(z, mv.Zip.Size, archive.Limits{})
		return err
	})
	if err == nil {
		f.lists.Put(archiveKey(mv), list)
	}
	return list, err
}

func (f *files) readFile(r *site.Request, mv *catalog.ModuleVersion, name string) (b []byte, err error) {
	key := archiveKey(mv) + "/" + name
	if b, ok := f.read.Peek(key); ok {
		return b, nil
	}
	err = f.withArchive(r, mv, func(z io.ReaderAt) error {
		b, err = archive.ReadFile(z, mv.Zip.Size, name, maxImage)
		return err
	})
	if err == nil {
		f.read.Put(key, b)
	}
	return b, err
}

// withArchive calls look with an open archive, if the render limiter has a place.
func (f *files) withArchive(r *site.Request, mv *catalog.ModuleVersion, look func(io.ReaderAt) error) error {
	if mv.Zip.Size > maxArchive {
		return fmt.Errorf("an archive of %d bytes: %w", mv.Zip.Size, archive.ErrTooLarge)
	}
	return f.renders.Do(r.Grant.Caller, func() error {
		z, done, err := f.archives.OpenArchive(r.Context(), mv.Repository, *mv.Zip)
		if err != nil {
			return err
		}
		defer done()
		return look(z)
	})
}

// filesBody is the page of a directory of an archive, or of one file.
type filesBody struct {
	Path    string
	Parents []site.Link // directories above, from the root
	Rows    []fileRow
	Pages   site.Pages
	Total   int // files in the whole archive
	Bytes   int64
	Problem string // why the archive cannot be shown

	Name  string // of the file; "": the page shows a directory
	Size  int64
	Text  template.HTML // of a text file
	Image string        // address of the image
	Large bool          // the file is too large to be shown
}

// fileRow is an entry of a directory.
type fileRow struct {
	site.Link
	Dir   bool
	Files int // number of files below a directory
	Size  int64
	Exec  bool
}

// filesPage returns the page for a path in the archive.
func (f *files) filesPage(r *site.Request, mv *catalog.ModuleVersion, base, at string) (filesBody, error) {
	body := filesBody{Path: at}
	list, err := f.list(r, mv)
	if errors.Is(err, archive.ErrTooLarge) || errors.Is(err, archive.ErrUnsafe) {
		body.Problem = err.Error()
		return body, nil
	}
	if err != nil {
		return body, err
	}
	for _, f := range list {
		body.Bytes += f.Size
	}
	body.Total = len(list)
	body.Parents = parentLinks(base, at)
	if i, ok := slices.BinarySearchFunc(list, at, func(f archive.File, p string) int { return strings.Compare(f.Path, p) }); ok {
		return body, f.fillFile(r, mv, base, list[i], &body)
	}
	rows := directoryRows(list, base, at)
	if len(rows) == 0 && at != "" {
		return body, site.NotFound("the module has no file %q", at)
	}
	body.Rows, body.Pages = site.OnePage(r, "page", rows)
	return body, nil
}

// directoryRows returns the entries of one directory, subdirectories first.
func directoryRows(list []archive.File, base, at string) []fileRow {
	prefix := ""
	if at != "" {
		prefix = at + "/"
	}
	var dirs, rows []fileRow
	for _, f := range list {
		below, ok := strings.CutPrefix(f.Path, prefix)
		if !ok {
			continue
		}
		name, _, deeper := strings.Cut(below, "/")
		href := base + "/files/" + site.EscapePath(prefix+name)
		switch n := len(dirs); {
		case !deeper:
			rows = append(rows, fileRow{Link: site.Link{Text: name, Href: href}, Size: f.Size, Exec: f.Exec})
		case n > 0 && dirs[n-1].Text == name:
			dirs[n-1].Files++
			dirs[n-1].Size += f.Size
		default:
			dirs = append(dirs, fileRow{Link: site.Link{Text: name, Href: href}, Dir: true, Files: 1, Size: f.Size})
		}
	}
	return slices.Concat(dirs, rows)
}

// parentLinks returns the directories above a path.
func parentLinks(base, at string) []site.Link {
	all := []site.Link{{Text: "All files", Href: base + "/files"}}
	for i, c := range at {
		if c == '/' {
			all = append(all, site.Link{Text: path.Base(at[:i]), Href: base + "/files/" + site.EscapePath(at[:i])})
		}
	}
	return all
}

// links returns a function for the page of a line of a file, nil if archives cannot be
// opened. It does not open an archive: only a cached list shows whether the file exists.
func (f *files) links(mv *catalog.ModuleVersion, base string) func(path string, line int) string {
	if f.archives == nil {
		return nil
	}
	list, known := f.lists.Peek(archiveKey(mv))
	return func(name string, line int) string {
		name = strings.TrimPrefix(name, "./")
		if _, ok := slices.BinarySearchFunc(list, name, func(f archive.File, p string) int { return strings.Compare(f.Path, p) }); known && !ok || !fs.ValidPath(name) {
			return ""
		}
		href := base + "/files/" + site.EscapePath(name)
		if line > 0 {
			href += "#L" + strconv.Itoa(line)
		}
		return href
	}
}

// fillFile fills in a file: its text or its image, or why it is not shown.
func (f *files) fillFile(r *site.Request, mv *catalog.ModuleVersion, base string, of archive.File, body *filesBody) error {
	body.Name = path.Base(of.Path)
	body.Size = of.Size
	if imageType(of.Path) != "" && of.Size <= maxImage {
		body.Image = base + "/files/" + site.EscapePath(of.Path) + "?raw=1"
		return nil
	}
	if of.Size > maxText {
		body.Large = true
		return nil
	}
	b, err := f.readFile(r, mv, of.Path)
	if errors.Is(err, archive.ErrTooLarge) || errors.Is(err, archive.ErrUnsafe) {
		body.Problem = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	if site.IsText(string(b)) {
		body.Text = f.text.Code(string(b), markdown.LanguageOf(of.Path)).HTML
	}
	return nil
}

// imageType returns the media type of an image by its name, "" for other files.
func imageType(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	case ".svg":
		return "image/svg+xml"
	}
	return ""
}

// image sends an image file of a module.
func (s *modules) image(r *site.Request, w http.ResponseWriter) error {
	x, err := s.versionIn(r)
	if err != nil {
		return err
	}
	name := r.PathValue("path")
	if s.files.archives == nil {
		return site.NotFound("the module has no image %q", name)
	}
	b, err := s.files.readFile(r, x.mv, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, archive.ErrTooLarge) || errors.Is(err, archive.ErrUnsafe) {
		return site.NotFound("the module has no image %q", name)
	}
	if err != nil {
		return err
	}
	return sendImage(w, r.Request, name, b)
}

// looksLike reports whether bytes can be an image of a media type.
func looksLike(kind string, b []byte) bool {
	if kind == "image/svg+xml" {
		return utf8.Valid(b)
	}
	return http.DetectContentType(b) == kind
}

// sendImage sends an image, if its name and its bytes are those of one. The sandbox keeps
// an SVG that is opened as a page from running scripts.
func sendImage(w http.ResponseWriter, r *http.Request, name string, b []byte) error {
	kind := imageType(name)
	if kind == "" || !looksLike(kind, b) {
		return site.NotFound("the module has no image %q", name)
	}
	sum := sha256.Sum256(b)
	h := w.Header()
	site.Secure(h)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Cookie, Authorization")
	h.Set("Etag", `"`+hex.EncodeToString(sum[:16])+`"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(b)))
	return nil
}
