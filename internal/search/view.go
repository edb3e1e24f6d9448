// SPDX-License-Identifier: Apache-2.0

package search

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"time"
)

// View is the part of an index that one set of rights may read. Its entries never change.
type View struct {
	Derived sync.Map // values that callers derive from the view, by form

	x    *Index
	list []int32 // positions, ascending
}

// Visible returns the view of the entries for which may returns true.
func (x *Index) Visible(may func(kind, address string) bool) *View {
	v := &View{x: x}
	for i := range x.Entries {
		if may(x.Entries[i].Kind, x.Entries[i].Address) {
			v.list = append(v.list, int32(i))
		}
	}
	return v
}

// Len returns the number of entries.
func (v *View) Len() int { return len(v.list) }

// All yields the entries by kind and address.
func (v *View) All(yield func(*Entry) bool) {
	for _, i := range v.list {
		if !yield(&v.x.Entries[i]) {
			return
		}
	}
}

// Has returns an entry.
func (v *View) Has(kind, address string) (*Entry, bool) {
	i, ok := slices.BinarySearchFunc(v.list, Entry{Kind: kind, Address: address}, func(i int32, e Entry) int { return compareEntries(v.x.Entries[i], e) })
	if !ok {
		return nil, false
	}
	return &v.x.Entries[v.list[i]], true
}

// Search returns matching entries, best first. downloads counts recent ones, for that order alone.
func (v *View) Search(q Query, downloads func(kind, address string) int64) []*Entry {
	hits := v.findHits(q)
	switch q.Sort {
	case ByName:
		slices.SortStableFunc(hits, func(a, b *Entry) int { return strings.Compare(a.Name(), b.Name()) })
	case ByNewest:
		slices.SortStableFunc(hits, func(a, b *Entry) int { return b.Time.Compare(a.Time) })
	case ByDownloads:
		n := make(map[*Entry]int64, len(hits))
		for _, e := range hits {
			n[e] = downloads(e.Kind, e.Address)
		}
		slices.SortStableFunc(hits, func(a, b *Entry) int { return int(max(-1, min(1, n[b]-n[a]))) })
	}
	return hits
}

// Why says where an entry matches a query, if not by its address or description.
func (e *Entry) Why(q Query) string {
	seen := strings.ToLower(e.Address + " " + e.Description)
	whole := strings.Join(q.terms, "_") // as the type of a resource is written
	if i := slices.IndexFunc(e.Resources, func(name string) bool { return len(q.terms) > 1 && strings.Contains(strings.ToLower(name), whole) }); i >= 0 {
		return "Resource " + e.Resources[i]
	}
	for _, term := range q.terms {
		for _, word := range append([]string{term}, parts(bareAddress(term))...) {
			word = strings.TrimSuffix(word, "s")
			if strings.Contains(seen, word) {
				continue
			}
			if strings.Contains(strings.ToLower(e.Heading), word) {
				return "Heading " + e.Heading
			}
			has := func(name string) bool { return strings.Contains(strings.ToLower(name), word) }
			if i := slices.IndexFunc(e.Submodules, has); i >= 0 {
				return "Submodule " + e.Submodules[i]
			}
			if i := slices.IndexFunc(e.Inputs, has); i >= 0 {
				return "Input " + e.Inputs[i]
			}
			if i := slices.IndexFunc(e.Resources, has); i >= 0 {
				return "Resource " + e.Resources[i]
			}
		}
	}
	if slices.ContainsFunc(q.terms, func(term string) bool { return !strings.Contains(seen, term) && slices.Contains(e.Texts, term) }) {
		return "In its README or in the description of an input"
	}
	return ""
}

// findHits returns the matching entries, by rank and then by address.
func (v *View) findHits(q Query) []*Entry {
	sums := make([]uint16, len(v.x.Entries))
	ranks := make([]uint8, len(v.x.Entries))
	terms := q.terms
	for n := 0; n < len(terms); n++ {
		clear(ranks)
		v.x.rankEntries(terms[n], ranks)
		words := parts(bareAddress(terms[n])) // a repository is found by its words, without its host
		isSplit := len(words) > 1
		words = slices.DeleteFunc(words, func(w string) bool { return w == "terraform" }) // repositories of modules begin so
		if isSplit && len(words) > 0 && len(terms)+len(words) <= maxWords && !slices.ContainsFunc(v.list, func(i int32) bool { return ranks[i] != noRank }) {
			terms = slices.Concat(terms, words)
			continue
		}
		for i, rank := range ranks {
			switch {
			case rank == noRank:
				sums[i] = maxRank
			case sums[i] < maxRank:
				sums[i] += uint16(rank)
			}
		}
	}
	var by [maxRank][]*Entry
	n := 0
	for _, i := range v.list {
		if e := &v.x.Entries[i]; sums[i] < maxRank && q.passesFilters(e) {
			by[sums[i]] = append(by[sums[i]], e)
			n++
		}
	}
	hits := make([]*Entry, 0, n)
	for _, some := range by {
		hits = append(hits, some...)
	}
	return hits
}

// maxWords bounds the terms and, of those that nothing has whole, their parts.
const maxWords = 2 * maxTerms

// maxRank is greater than the sum of the ranks of all terms.
const maxRank = maxWords*(rankText+1) + 1

// Near returns up to ten entries within two letters of a word: most failed searches are misspelt.
func (v *View) Near(text string) []*Entry {
	const maxDistance, entries = 2, 10
	var near []*Entry
	for away := 1; away <= maxDistance; away++ {
		for _, term := range strings.Fields(strings.ToLower(text))[:min(maxTerms, len(strings.Fields(text)))] {
			for _, i := range v.list {
				isNear := func(word string) bool { return editDistance(term, word, maxDistance) == away }
				if e := &v.x.Entries[i]; away < len(term) && (isNear(v.x.names[i]) || strings.ContainsAny(v.x.names[i], "-_") && slices.ContainsFunc(parts(v.x.names[i]), isNear)) && !slices.Contains(near, e) {
					if near = append(near, e); len(near) == entries {
						return near
					}
				}
			}
		}
	}
	return near
}

// editDistance returns the letters to change or swap between a and b, or limit+1.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	var buf [3][maxName + 1]int // longer names are rare
	before, last, row := buf[0][:], buf[1][:], buf[2][:]
	if len(b) > maxName {
		before, last, row = make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	}
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		best := i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
			best = min(best, row[j+1])
		}
		if best > limit {
			return limit + 1
		}
	}
	return min(row[len(b)], limit+1)
}

// Bounds of [Views].
const (
	viewsTTL = 30 * time.Second
	maxViews = 256
)

// Views keeps views by rights for half a minute. It is safe for concurrent use; zero is empty.
type Views struct {
	mu    sync.Mutex // guards the fields below
	x     *Index     // the index of all views; views of an older index are dropped
	by    map[string]*list.Element
	order list.List // of *kept, most recently used first
}

type kept struct {
	rights string
	view   *View
	until  time.Time
}

// Of returns the view of an index for a set of rights, which the text rights identifies.
func (s *Views) Of(x *Index, rights string, now time.Time, may func(kind, address string) bool) *View {
	s.mu.Lock()
	if el, ok := s.by[rights]; ok {
		if k := el.Value.(*kept); s.x == x && now.Before(k.until) {
			s.order.MoveToFront(el)
			s.mu.Unlock()
			return k.view
		}
	}
	s.mu.Unlock()
	v := x.Visible(may) // not under the lock, since it takes a while
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.x != x {
		s.x = x
		s.by = map[string]*list.Element{}
		s.order.Init()
	}
	if el, ok := s.by[rights]; ok {
		s.order.Remove(el)
	}
	s.by[rights] = s.order.PushFront(&kept{rights, v, now.Add(viewsTTL)})
	if s.order.Len() > maxViews {
		last := s.order.Remove(s.order.Back()).(*kept)
		delete(s.by, last.rights)
	}
	return v
}
