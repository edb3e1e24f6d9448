// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/seed-141914ff/okara/docs"
)

// Page is a page of the documentation.
type Page struct {
	Name  string `json:"page"`  // its path without ".md": use/start
	Title string `json:"title"` // its first heading
	Text  string `json:"-"`     // Markdown
	lower string // Text, for a search
	known string // what the index says of it, likewise
}

// Index is the name of the page that lists the others.
const Index = "index"

// read holds the pages once they were needed: nothing is done before main.
var read struct {
	once sync.Once
	all  []Page
}

// Pages returns all pages, sorted by name.
func Pages() []Page {
	read.once.Do(func() { read.all = readPages() })
	return read.all
}

func readPages() (all []Page) {
	_ = fs.WalkDir(docs.Files, ".", func(file string, _ fs.DirEntry, err error) error { // embedded: it does not fail
		name, isPage := strings.CutSuffix(file, ".md")
		if err != nil || !isPage || strings.HasPrefix(name, "changelog/") {
			return err
		}
		b, err := docs.Files.ReadFile(file)
		title, _, _ := strings.Cut(strings.TrimPrefix(string(b), "# "), "\n")
		all = append(all, Page{name, strings.ReplaceAll(title, "`", ""), string(b), strings.ToLower(string(b)), ""})
		return err
	})
	noteIndex(all)
	return all
}

// noteIndex gives pages what the items of the index that link them say: the words of the link, and those up to the next.
func noteIndex(all []Page) {
	i := slices.IndexFunc(all, func(p Page) bool { return p.Name == Index })
	for item := range strings.SplitSeq(strings.ReplaceAll(all[i].lower, "\n  ", " "), "\n- ") {
		item, _, _ = strings.Cut(item, "\n")
		parts := strings.Split(item, "](")
		for n, part := range parts[1:] {
			target, after, _ := strings.Cut(part, ".md)")
			after, _, _ = strings.Cut(after, "[")
			if j := slices.IndexFunc(all, func(p Page) bool { return p.Name == target }); j >= 0 {
				all[j].known += parts[n][strings.LastIndex(parts[n], "[")+1:] + after + "\n"
			}
		}
	}
}

// Get returns the page of a name, or of the last part of one if no other page ends so.
func Get(name string) (Page, bool) {
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "/")), ".md")
	var found []Page
	for _, p := range Pages() {
		if p.Name == name {
			return p, true
		}
		if path.Base(p.Name) == name {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		return Page{}, false
	}
	return found[0], true
}

// maxFound is the number of pages that a search returns.
const maxFound = 20

// Search returns the pages that contain the words, or words that begin so, the best first: most
// of the words, then those of the title and of headings count most.
func Search(words string) []Page {
	terms := strings.FieldsFunc(strings.ToLower(words), isBreak)
	if len(terms) > 10 {
		return nil
	}
	type hit struct {
		page        Page
		terms, rank int
	}
	var hits []hit
	for _, p := range Pages() {
		h := hit{page: p}
		for _, term := range terms {
			rank := p.rankFor(term)
			for _, other := range otherWords(term) {
				rank = max(rank, p.rankFor(other))
			}
			if rank > 0 {
				h.terms++
				h.rank += rank
			}
		}
		hits = append(hits, h)
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Or(cmp.Compare(b.terms, a.terms), cmp.Compare(b.rank, a.rank)) })
	var found []Page
	for _, h := range hits[:maxFound] {
		if h.terms > 0 && h.terms == hits[0].terms {
			found = append(found, h.page)
		}
	}
	return found
}

// otherWords are what the pages say for a word that people type.
func otherWords(term string) []string {
	for _, words := range []string{"rollback restore", "rolling restore", "permission rights access", "rbac rights access", "migrate move", "import move",
		"tls certificate serve", "https certificate serve", "s3 move", "unauthorized 401", "latest newest", "uninstall remove", "delete withdraw remove", "private credential", "jenkins ci", "sso login oidc",
		"prometheus monitor", "metric monitor", "grafana monitor", "docker credential container", "unlock locks", "encryption keys", "sbom uses"} {
		if typed, said, _ := strings.Cut(words, " "); strings.TrimSuffix(term, "s") == typed || term == typed {
			return strings.Fields(said)
		}
	}
	return nil
}

// rankFor returns how well a page answers a term; 0: not at all.
func (p *Page) rankFor(term string) int {
	if len(term) > 3 {
		term = strings.TrimSuffix(term, "s")
	}
	prose, heads := 0, 0
	for line := range strings.Lines(p.lower) {
		if n := countWord(line, term); strings.HasPrefix(line, "#") {
			heads += n
		} else {
			prose += n
		}
	}
	rank := 60*min(1, countWord(strings.ToLower(p.Title+" "+p.Name), term)) + 40*min(1, countWord(p.known, term)) + 8*min(heads, 5) + min(prose, 30)
	switch dir := path.Dir(p.Name); {
	case dir == ".": // what lists everything, and what is for contributors
		rank = (rank + 7) / 8
	case strings.HasPrefix(dir, "reference"):
		rank = (rank + 1) / 2 // a page about the subject first
	}
	return rank
}

// countWord counts the words of a line that begin with a term, both in lower case.
func countWord(line, term string) (n int) {
	for {
		at := strings.Index(line, term)
		if at < 0 {
			return n
		}
		if before := strings.TrimRightFunc(line[:at], func(r rune) bool { return !isBreak(r) }); len(before) == at {
			n++
		}
		line = line[at+len(term):]
	}
}

func isBreak(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
