// SPDX-License-Identifier: Apache-2.0

package search

import (
	"slices"
	"strings"
	"unicode"
)

// Index is a sorted list of entries with their words. It is never changed.
type Index struct {
	Entries []Entry  // by kind and address, each once
	names   []string // of the entries, in lower case
	words   []string
	posts   [][]posting // of words, in the same order
}

// posting is an occurrence of a word: an entry, and the place in it.
type posting uint32

const placeBits = 3

// Places of a word, best first.
const (
	inName        = iota // the word is the name
	inAddress            // a word of the address
	inDescription        // a word of the description
	inCode               // name of an input, or type of a resource
	inText               // a word of the readme
)

func (p posting) entryNumber() int { return int(p >> placeBits) }

func (p posting) placeNumber() int { return int(p & (1<<placeBits - 1)) }

// NewIndex makes an index of entries, and takes the slice over.
func NewIndex(entries []Entry) *Index {
	slices.SortFunc(entries, compareEntries)
	entries = slices.CompactFunc(entries, func(a, b Entry) bool { return compareEntries(a, b) == 0 })
	entries = entries[:min(len(entries), maxEntries)]
	x := &Index{Entries: entries, names: make([]string, len(entries))}
	c := collector{ids: map[string]int32{}}
	for i := range entries {
		x.names[i] = strings.ToLower(entries[i].Name())
		c.entry = i
		entries[i].words(c.addWord)
	}
	c.sortInto(x)
	return x
}

// collector gathers the postings of all words in one list, without a list for each word.
type collector struct {
	ids   map[string]int32 // number of a word
	words []string         // by number
	last  []posting        // last posting of each word
	n     []int32          // number of postings of each word
	all   []placed
	entry int
}

type placed struct {
	word int32
	at   posting
}

func (c *collector) addWord(word string, place int) {
	if word == "" {
		return
	}
	id, ok := c.ids[word]
	if !ok {
		id = int32(len(c.words))
		c.ids[word] = id
		c.words = append(c.words, word)
		c.last = append(c.last, 0)
		c.n = append(c.n, 0)
	}
	if c.n[id] > 0 && c.last[id].entryNumber() == c.entry && c.last[id].placeNumber() <= place {
		return // the word has a better place in this entry already
	}
	p := posting(c.entry<<placeBits | place)
	c.last[id] = p
	c.n[id]++
	c.all = append(c.all, placed{id, p})
}

// sortInto sorts the words, and gives each its postings.
func (c *collector) sortInto(x *Index) {
	x.words = slices.Clone(c.words)
	slices.Sort(x.words)
	x.posts = make([][]posting, len(x.words))
	flat := make([]posting, len(c.all))
	from := int32(0)
	of := make([]int, len(c.words)) // index in x.words by number
	for i, w := range x.words {
		id := c.ids[w]
		of[id] = i
		x.posts[i] = flat[from : from : from+c.n[id]]
		from += c.n[id]
	}
	for _, p := range c.all {
		x.posts[of[p.word]] = append(x.posts[of[p.word]], p.at)
	}
}

// words passes the words of an entry to add, those in the best places first.
func (e *Entry) words(add func(word string, place int)) {
	name := strings.ToLower(e.Name())
	add(name, inName)
	for _, part := range e.segments() {
		part = strings.ToLower(part)
		add(part, inAddress)
		if strings.ContainsAny(part, "-_.") {
			for _, w := range parts(part) {
				add(w, inAddress)
			}
		}
	}
	for _, w := range parts(strings.ToLower(e.Heading + " " + e.Description)) {
		add(w, inDescription)
	}
	for _, list := range [][]string{e.Submodules, e.Inputs, e.Resources} {
		for _, w := range list {
			w = strings.ToLower(w)
			add(w, inCode)
			if own, ok := strings.CutPrefix(w, name+"_"); ok { // dns_record of cloudflare_dns_record
				add(own, inCode)
			}
			for _, part := range parts(w) {
				add(part, inCode)
			}
		}
	}
	for _, w := range e.Texts {
		add(w, inText)
	}
}

func parts(text string) []string { return strings.FieldsFunc(text, IsBreak) }

func IsBreak(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// Ranks of a match, best first. noRank means no match.
const (
	rankAddress = iota + 1 // the whole address
	rankName
	rankNamePrefix
	rankWord
	rankWordPrefix // of the address
	rankDescription
	rankCode
	rankPrefix // of a word of the description, an input or a resource
	rankText   // of the readme; the whole word only
	noRank     = 0
)

// shortest is the least prefix looked for in descriptions and code.
const shortest = 3

// rankEntries sets the rank of each entry for a term in lower case, noRank for no match. A
// plural matches the singular too, one rank lower.
func (x *Index) rankEntries(term string, ranks []uint8) {
	x.rankWord(term, 0, ranks)
	if one := strings.TrimSuffix(term, "s"); len(one) >= shortest && !strings.HasSuffix(one, "s") && one != term {
		x.rankWord(one, 1, ranks)
	}
}

func (x *Index) rankWord(term string, lower uint8, ranks []uint8) {
	better := func(i int, rank uint8) {
		if rank += lower; ranks[i] == noRank || rank < ranks[i] {
			ranks[i] = rank
		}
	}
	first, _ := slices.BinarySearch(x.words, term)
	for i := first; i < len(x.words) && strings.HasPrefix(x.words[i], term); i++ {
		whole := len(x.words[i]) == len(term)
		for _, p := range x.posts[i] {
			if rank := rankIn(p.placeNumber(), whole, len(term)); rank != noRank {
				better(p.entryNumber(), rank)
			}
		}
	}
	if !strings.Contains(term, "/") {
		return
	}
	bare := bareAddress(term)
	for i := range x.Entries {
		switch at := x.Entries[i].Address; {
		case at == term:
			better(i, rankAddress)
		case at == bare:
			better(i, rankName)
		case strings.Contains(at, term), bare != "" && bare != term && strings.HasSuffix(at, "/"+bare):
			better(i, rankWordPrefix)
		}
	}
}

// bareAddress returns the address in a source, such as oci://HOST/A/B/C//DIR?ref=V.
func bareAddress(source string) string {
	if _, rest, ok := strings.Cut(source, "://"); ok {
		source = rest
	}
	source, _, _ = strings.Cut(source, "?")
	source, _, _ = strings.Cut(source, "//")
	source = strings.TrimSuffix(source, ".git")
	if host, rest, ok := strings.Cut(source, "/"); ok && strings.ContainsAny(host, ".:") {
		return rest
	}
	return source
}

// rankIn returns the rank of a match in a place: of the whole word, or of a prefix.
func rankIn(place int, whole bool, length int) uint8 {
	switch {
	case place == inName && whole:
		return rankName
	case place == inName:
		return rankNamePrefix
	case place == inAddress && whole:
		return rankWord
	case place == inAddress:
		return rankWordPrefix
	case place == inDescription && whole:
		return rankDescription
	case place == inCode && whole:
		return rankCode
	case place == inText && whole:
		return rankText
	case place == inText:
		return noRank
	case length >= shortest:
		return rankPrefix
	}
	return noRank
}
