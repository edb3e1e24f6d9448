// SPDX-License-Identifier: Apache-2.0

package description

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"go.yaml.in/yaml/v3"

	"github.com/seed-141914ff/okara/internal/text"
)

// Bounds of documentation.
const (
	MaxDocs      = 16 << 20  // of all files, uncompressed
	MaxDocsFiles = 10_000    // aws has about 2,500
	maxPage      = 256 << 10 // bytes; a longer page is cut
	maxFront     = 16 << 10  // bytes of the front matter
	maxTitle     = 200       // bytes
)

// Errors of ReadDocs.
var (
	ErrDocs         = errors.New("not the documentation of a provider")
	ErrDocsTooLarge = fmt.Errorf("%w: over the limit", ErrDocs)
)

// Kind is the kind of subject of a page.
type Kind string

// The kinds, in the order in which they are displayed.
const (
	Overview  Kind = "overview"
	Guide     Kind = "guide"
	Resource  Kind = "resource"
	Data      Kind = "data source"
	Ephemeral Kind = "ephemeral resource"
	Function  Kind = "function"
	List      Kind = "list resource"
	Act       Kind = "action"
)

// Kinds returns all kinds, in order.
func Kinds() []Kind {
	return []Kind{Overview, Guide, Resource, Data, Ephemeral, Function, List, Act}
}

// folderKinds maps directory names to the kinds of their pages.
func folderKinds() map[string]Kind {
	return map[string]Kind{
		"guides": Guide, "resources": Resource, "r": Resource, "data-sources": Data, "d": Data, "ephemeral-resources": Ephemeral,
		"functions": Function, "list-resources": List, "actions": Act,
	}
}

// Page is one page of documentation.
type Page struct {
	Path        string // without extension: "index", "resources/record"
	Kind        Kind
	Title       string // from the front matter, "" if absent
	Subcategory string // "" for none
	Text        string // Markdown
	Cut         bool   // the page was cut
}

// Name returns the title of a page of a provider: for a resource, its name in configurations.
func (p Page) Name(typ string) string {
	name := path.Base(p.Path)
	switch p.Kind {
	case Overview:
		return "Overview"
	case Guide:
		return cmp.Or(text.Block(p.Title), name)
	case Function:
		return name
	}
	if name == typ || strings.HasPrefix(name, typ+"_") {
		return name
	}
	return typ + "_" + name
}

// Docs holds the pages of one version, by kind, subcategory and path.
type Docs struct {
	Pages []Page
	bytes int
}

// Size returns the approximate memory that the pages take.
func (d *Docs) Size() int { return d.bytes + 256*len(d.Pages) }

// Page finds a page by its path.
func (d *Docs) Page(path string) (Page, bool) {
	i := slices.IndexFunc(d.Pages, func(p Page) bool { return p.Path == path })
	if i < 0 {
		return Page{}, false
	}
	return d.Pages[i], true
}

// ReadDocs reads a packed directory. An error wraps ErrDocs, unless it is an error of r.
func ReadDocs(r io.Reader) (*Docs, error) {
	gz, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("gzip: %v: %w", err, ErrDocs)
	}
	defer gz.Close()
	limited := &io.LimitedReader{R: gz, N: MaxDocs + MaxDocsFiles*1024 + 1} // headers count too, so that a stream of only these ends
	d := &Docs{}
	seen := map[string]bool{}
	files := 0
	for t := tar.NewReader(limited); ; {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			d.sort()
			return d, nil
		case limited.N <= 0:
			return nil, fmt.Errorf("%d bytes: %w", int64(MaxDocs), ErrDocsTooLarge)
		case err != nil:
			return nil, fmt.Errorf("tar: %v: %w", err, ErrDocs)
		}
		if files++; files > MaxDocsFiles {
			return nil, fmt.Errorf("%d files: %w", MaxDocsFiles, ErrDocsTooLarge)
		}
		p, ok := pageOf(h.Name)
		if h.Typeflag != tar.TypeReg || !ok || seen[p.Path] {
			continue
		}
		seen[p.Path] = true
		b, err := io.ReadAll(io.LimitReader(t, maxPage+1))
		if err != nil {
			return nil, fmt.Errorf("tar: %v: %w", err, ErrDocs)
		}
		if p.Cut = len(b) > maxPage; p.Cut {
			b = b[:maxPage]
		}
		p.splitPage(string(b))
		if d.bytes += len(b) + len(p.Path); d.bytes > MaxDocs {
			return nil, fmt.Errorf("%d bytes: %w", int64(MaxDocs), ErrDocsTooLarge)
		}
		d.Pages = append(d.Pages, p)
	}
}

// pageOf returns the page that a file contains according to its name.
func pageOf(name string) (Page, bool) {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "./"), "docs/")
	if !fs.ValidPath(name) || !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }) || len(name) > maxTitle {
		return Page{}, false
	}
	path := name
	ok := false
	for _, ending := range []string{".html.markdown", ".html.md", ".markdown", ".md"} {
		if path, ok = strings.CutSuffix(name, ending); ok {
			break
		}
	}
	if !ok {
		return Page{}, false
	}
	folder, page, below := strings.Cut(path, "/")
	if !below {
		return Page{Path: path, Kind: Overview}, path == "index"
	}
	kind, ok := folderKinds()[folder]
	return Page{Path: path, Kind: kind}, ok && !strings.Contains(page, "/")
}

// splitPage splits a page into its front matter and text.
func (p *Page) splitPage(text string) {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), "\ufffd")
	p.Text = text
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return
	}
	front, body, ok := strings.Cut(rest, "\n---\n")
	if !ok || len(front) > maxFront {
		return
	}
	p.Text = body
	var matter struct {
		Title       string `yaml:"page_title"`
		Subcategory string `yaml:"subcategory"`
	}
	if yaml.Unmarshal([]byte(front), &matter) != nil {
		return // a page without a title is accepted
	}
	p.Title = cutText(matter.Title)
	p.Subcategory = cutText(matter.Subcategory)
}

func cutText(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxTitle {
		s = strings.ToValidUTF8(s[:maxTitle], "")
	}
	return s
}

func (d *Docs) sort() {
	slices.SortFunc(d.Pages, func(a, b Page) int {
		return cmp.Or(
			cmp.Compare(slices.Index(Kinds(), a.Kind), slices.Index(Kinds(), b.Kind)),
			cmp.Compare(a.Subcategory, b.Subcategory), cmp.Compare(a.Path, b.Path),
		)
	})
}
