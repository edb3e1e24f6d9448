// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/internal/addr"
)

// Bounds of a query.
const (
	maxQuery = 200 // bytes
	maxTerms = 8
	MaxPage  = 100
	PageSize = 100 // entries
)

// Orders of results.
const (
	ByRelevance = "relevance"
	ByName      = "name"
	ByNewest    = "newest"
	ByDownloads = "downloads"
)

// Query selects entries. An empty field matches all.
type Query struct {
	Text         string // as the caller wrote it
	Kind         string
	Namespace    string // with the host in front for a mirrored provider
	System       string
	Signed       bool   // only signed versions
	Scan         string // only versions that were scanned without a finding of this level or worse
	Undeprecated bool   // only versions that are not deprecated
	Sort         string // "": by relevance
	Page         int    // from 1

	Version addr.Version // that the text names beside words; zero: none

	terms []string
}

// ParseQuery parses the parameters q, kind, namespace, system, signed, scan, deprecated,
// sort and page. Its errors are for the caller.
func ParseQuery(v url.Values) (Query, error) {
	q := Query{
		Text: v.Get("q"), Kind: v.Get("kind"), Namespace: v.Get("namespace"), System: v.Get("system"),
		Signed: v.Get("signed") == "yes", Scan: v.Get("scan"), Undeprecated: v.Get("deprecated") == "no", Sort: v.Get("sort"), Page: 1,
	}
	q.terms = strings.Fields(strings.ToLower(q.Text))
	q.cutVersion()
	if len(q.Text) > maxQuery || !utf8.ValidString(q.Text) || len(q.terms) > maxTerms {
		return q, fmt.Errorf("a query must have at most %d words and %d bytes", maxTerms, maxQuery)
	}
	for _, c := range []struct {
		name, value string
		choices     []string
	}{
		{"kind", q.Kind, []string{"", "module", "provider", "mirror", "template"}},
		{"signed", v.Get("signed"), []string{"", "yes"}},
		{"scan", q.Scan, append([]string{""}, scanLevels()[:4]...)},
		{"deprecated", v.Get("deprecated"), []string{"", "no"}},
		{"sort", q.Sort, []string{"", ByRelevance, ByName, ByNewest, ByDownloads}},
	} {
		if !slices.Contains(c.choices, c.value) {
			return q, fmt.Errorf("%s must be one of %s", c.name, strings.Join(c.choices[1:], ", "))
		}
	}
	if text := v.Get("page"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > MaxPage {
			return q, fmt.Errorf("page is a number from 1 to %d", MaxPage)
		}
		q.Page = n
	}
	return q, nil
}

// cutVersion takes a version out of the terms, as in vpc aws 6.6.0 and net/vpc/aws@6.6.0: items are
// found by the other words, and which of them have it is known only from their lists.
func (q *Query) cutVersion() {
	for i, word := range strings.Fields(q.Text) {
		at := strings.LastIndexAny(word, "@/")
		v, err := addr.ParseVersion(word[at+1:])
		if err != nil || at < 1 && len(q.terms) == 1 {
			continue
		}
		q.Version = v
		if q.terms = slices.Clone(q.terms); at > 0 {
			q.terms[i] = strings.ToLower(word[:at])
		} else {
			q.terms = slices.Delete(q.terms, i, i+1)
		}
		return
	}
}

func (q *Query) passesFilters(e *Entry) bool {
	switch {
	case q.Kind != "" && e.Kind != q.Kind,
		q.Namespace != "" && e.Namespace() != q.Namespace,
		q.System != "" && e.System() != q.System,
		q.Signed && !e.Signed,
		q.Undeprecated && e.Deprecated:
		return false
	}
	return q.Scan == "" || e.Scan != "" && slices.Index(scanLevels(), e.Scan) > slices.Index(scanLevels(), q.Scan)
}
