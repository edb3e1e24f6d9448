// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
)

// Bounds of an entry. Longer texts are cut, further items are left out.
const (
	maxAddress     = 255 // bytes; an entry with a longer one is dropped
	maxDescription = 300 // bytes
	maxInputs      = 200
	maxResources   = 100
	maxDocumented  = 1000 // resources and data sources of a provider
	MaxTexts       = 150  // words of a readme
	maxCalls       = 50
	maxName        = 64  // bytes, of an input, a resource type or a version
	maxSource      = 200 // bytes, of a module block
)

// Levels of scan findings, worst first, and [ScanClean] for a report without findings.
const (
	ScanCritical = "critical"
	ScanHigh     = "high"
	ScanMedium   = "medium"
	ScanLow      = "low"
	ScanClean    = "clean"
)

// scanLevels returns the possible results of a scan.
func scanLevels() []string { return []string{ScanCritical, ScanHigh, ScanMedium, ScanLow, ScanClean} }

// Entry is an item in the index. All but kind and address is of its newest version, once that was
// read.
type Entry struct {
	Kind        string    `json:"kind"`            // a kind of package addr
	Address     string    `json:"address"`         // in the form of package addr
	Title       string    `json:"title,omitempty"` // the address as it was written first, if not so
	Version     string    `json:"version,omitempty"`
	Digest      string    `json:"digest,omitempty"`  // of the manifest or index
	Time        time.Time `json:"time,omitzero"`     // when the version was made
	Heading     string    `json:"heading,omitempty"` // of the readme, or the title of a template
	Description string    `json:"description,omitempty"`
	Inputs      []string  `json:"inputs,omitempty"`     // names
	Resources   []string  `json:"resources,omitempty"`  // types, of data sources too; of a provider the documented ones
	Submodules  []string  `json:"submodules,omitempty"` // names
	Calls       []string  `json:"calls,omitempty"`      // sources of module blocks
	Texts       []string  `json:"texts,omitempty"`      // words of the readme, in lower case
	Signed      bool      `json:"signed,omitempty"`
	Scan        string    `json:"scan,omitempty"` // worst level with a finding, or ScanClean; "": not scanned
	Deprecated  bool      `json:"deprecated,omitempty"`

	Tags   string    `json:"tags,omitempty"`  // hash of the tag list from which the entry was made
	Listed time.Time `json:"listed,omitzero"` // when the tag list was read; of two entries the newer one is used
	Read   time.Time `json:"read,omitzero"`   // when the version was read
}

// Key is equal for two entries of the same item.
func (e *Entry) Key() string { return e.Kind + " " + e.Address }

func (e *Entry) segments() []string { return strings.Split(e.Address, "/") }

// Name returns the name in its namespace.
func (e *Entry) Name() string {
	if part := e.segments(); e.Kind == "module" && len(part) == 3 {
		return part[1]
	}
	return e.Address[strings.LastIndexByte(e.Address, '/')+1:]
}

// Namespace returns the namespace; of a mirrored provider with its host in front.
func (e *Entry) Namespace() string {
	if e.Kind == "module" {
		namespace, _, _ := strings.Cut(e.Address, "/")
		return namespace
	}
	return e.Address[:max(0, strings.LastIndexByte(e.Address, '/'))]
}

// System returns the target system of a module; "" for other kinds.
func (e *Entry) System() string {
	if e.Kind == "module" && strings.Count(e.Address, "/") == 2 { // called for each entry of a search, so without splitting
		return e.Address[strings.LastIndexByte(e.Address, '/')+1:]
	}
	return ""
}

// Trim bounds an entry: texts are cut, lists sorted without duplicates.
func (e *Entry) Trim() {
	e.Version = Cut(e.Version, maxName)
	e.Description = Cut(plainText(e.Description), maxDescription)
	e.Heading = Cut(plainText(e.Heading), maxDescription)
	e.Digest = Cut(e.Digest, 128)
	e.Tags = Cut(e.Tags, 128)
	e.Inputs = trimList(e.Inputs, maxInputs, maxName)
	resources := maxResources
	if e.Kind == addr.KindProvider || e.Kind == addr.KindMirror {
		resources = maxDocumented
	}
	e.Resources = trimList(e.Resources, resources, maxName)
	e.Texts = trimList(e.Texts, MaxTexts, maxName)
	e.Submodules = trimList(e.Submodules, maxResources, maxName)
	e.Calls = trimList(e.Calls, maxCalls, maxSource)
	if !slices.Contains(scanLevels(), e.Scan) {
		e.Scan = ""
	}
}

func trimList(words []string, maxWords, length int) []string {
	if len(words) == 0 {
		return nil
	}
	cut := make([]string, 0, min(len(words), maxWords))
	for _, w := range words[:min(len(words), 10*maxWords)] {
		if w = Cut(plainText(w), length); w != "" {
			cut = append(cut, w)
		}
	}
	slices.Sort(cut)
	cut = slices.Compact(cut)
	return slices.Clip(cut[:min(len(cut), maxWords)])
}

// plainText returns the beginning of a text, on one line.
func plainText(s string) string {
	return strings.Join(strings.Fields(text.Line(Cut(s, 8*maxDescription))), " ")
}

// Cut cuts s to at most n bytes, at the beginning of a rune.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// compareEntries orders entries by kind and address.
func compareEntries(a, b Entry) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Address, b.Address))
}
