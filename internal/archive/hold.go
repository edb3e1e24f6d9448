// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

// HoldBack excludes what a publisher probably does not mean to publish: files of values and
// secrets, private keys, and what .gitignore names and git does not track. Not used for origins'
// archives.
type HoldBack struct {
	Include  []string // globs, as in .gitignore, of files that ship nevertheless
	Checkout fs.FS    // git checkout with the tree in it, whose .gitignore files above the tree also apply; nil: none
	At       string   // slash path of the tree in Checkout

	// Tracked lists what git tracks, which ships in spite of .gitignore, and below examples
	// although it has values. nil: unknown.
	Tracked []string
	// ByTracked is set by List if a file ships only because of Tracked.
	ByTracked bool

	// Named, if set, receives from List for each glob whether it matches a file.
	Named *sync.Map

	// Held is the list of entries that List held back, sorted by path.
	Held []Dropped
	// Ignored is the rule above the tree that matches it. It ships nevertheless. "": none.
	Ignored string
}

// maxKey bounds the bytes searched for a private key; all authorities' certificates are 256 KiB.
const maxKey = 4 << 20

// valueRules returns rules for names of files with values or secrets, but for examples.
func valueRules() []string {
	return []string{
		".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist", ".envrc", ".netrc", "_netrc",
		"*.tfplan", "tfplan", "terraform.tfstate*",
		"*.tfvars", "*.tfvars.json", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.p12", "*.pfx", "*.jks",
	}
}

// holder decides which entries of one tree are held back.
type holder struct {
	tree    fs.FS
	at      string // path of the tree in the checkout, "." for the checkout itself
	above   []rule // of the .gitignore files above the tree
	read    map[string][]rule
	values  []rule
	include []rule
	named   map[string]bool // globs of include that match something
	git     map[string]bool // what git tracks, with the directories above it
	by      *bool           // see HoldBack.ByTracked
	used    *ignoreBudget
}

func newHolder(tree fs.FS, o *HoldBack, used *ignoreBudget) (h *holder, err error) {
	h = &holder{tree: tree, at: path.Clean(o.At), read: map[string][]rule{}, named: map[string]bool{}, git: map[string]bool{}, by: &o.ByTracked, used: used}
	for _, name := range o.Tracked {
		for ; !h.git[name]; name = path.Dir(name) {
			h.git[name] = true
		}
	}
	if h.values, err = parseRules(valueRules()); err != nil {
		return nil, err
	}
	if h.include, err = parseRules(o.Include); err != nil {
		return nil, err
	}
	if o.Checkout == nil || h.at == "." {
		return h, nil
	}
	dirs := []string{"."}
	for dir := path.Dir(h.at); dir != "."; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	for _, dir := range shallowFirst(dirs) {
		own, err := readRules(o.Checkout, dir, used, ".gitignore")
		if err != nil {
			return nil, fmt.Errorf("parent folder: %w", err)
		}
		h.above = append(h.above, own...)
	}
	o.Ignored, err = h.ruleAbove()
	return h, err
}

// ruleAbove returns the rule that matches the tree or what is above it.
func (h *holder) ruleAbove() (string, error) {
	for dir := h.at; dir != "."; dir = path.Dir(dir) {
		if r, ok, err := h.used.decidingRule(h.above, dir, true); ok || err != nil {
			return r.source, err
		}
	}
	return "", nil
}

// noteNamed records for each glob of the publisher whether it matched.
func (h *holder) noteNamed(o *HoldBack) {
	if o.Named == nil {
		return
	}
	for _, glob := range o.Include {
		if _, noted := o.Named.LoadOrStore(glob, h.named[glob]); noted && h.named[glob] {
			o.Named.Store(glob, true)
		}
	}
}

// shallowFirst orders the directories of one path by the order of their rules.
func shallowFirst(dirs []string) []string {
	ordered := dirs[:1]
	for i := len(dirs) - 1; i > 0; i-- {
		ordered = append(ordered[:len(ordered):len(ordered)], dirs[i])
	}
	return ordered
}

// parseRules parses lines for the root of the tree.
func parseRules(lines []string) ([]rule, error) {
	var rules []rule
	for _, line := range lines {
		r, ok, err := parseRule(line)
		if err != nil {
			return nil, fmt.Errorf("rule %.80q: %w", line, err)
		}
		if ok {
			r.source = line
			r.dir = "."
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// enterDir adds the rules in dir's .gitignore, for paths of the checkout.
func (h *holder) enterDir(dir string, at *place) (err error) {
	rules, ok := h.read[dir]
	if !ok {
		if rules, err = readRules(h.tree, dir, h.used, ".gitignore"); err != nil {
			return err
		}
		for i := range rules {
			rules[i].dir = path.Join(h.at, dir)
		}
		h.read[dir] = rules
	}
	at.git = append(slices.Clip(at.git), rules...)
	return nil
}

// enterPath sets what git ignores in dir, to which a link leads.
func (h *holder) enterPath(dir string, at *place) (err error) {
	if dir == "." {
		at.git = h.above
		at.hides = ""
		return h.enterDir(dir, at)
	}
	if err = h.enterPath(path.Dir(dir), at); err != nil {
		return err
	}
	if at.hides, err = h.reason(dir, true, *at); err != nil {
		return err
	}
	return h.enterDir(dir, at)
}

// isTracked reports whether git tracks the file, or one below the directory.
func (h *holder) isTracked(name string) bool { return h.git[name] }

// isExampleValues reports whether a tracked file has values without which an example does not work.
func (h *holder) isExampleValues(name string) bool {
	lower := strings.ToLower(name)
	values := strings.HasSuffix(lower, ".tfvars") || strings.HasSuffix(lower, ".tfvars.json")
	return values && h.isTracked(name) && strings.Contains("/"+name, "/examples/")
}

// reason returns why the entry is held back, "" if it is not. For a directory
// of which git tracks something, it applies to the other entries.
func (h *holder) reason(name string, isDir bool, at place) (string, error) {
	if !isDir {
		r, ok, err := h.used.decidingRule(h.values, strings.ToLower(name), false)
		if err != nil {
			return "", err
		}
		if ok && !h.isExampleValues(name) {
			return "may contain values or secrets: " + r.source, nil
		}
		*h.by = *h.by || ok
		private, err := privateKey(h.tree, name)
		if err != nil {
			return "", err
		}
		if private {
			return "private key", nil
		}
	}
	reason := at.hides
	if reason == "" {
		r, ok, err := h.used.decidingRule(at.git, path.Join(h.at, name), isDir)
		if !ok || err != nil {
			return "", err
		}
		reason = "ignored by git: " + r.source
	}
	if !isDir && h.isTracked(name) {
		*h.by = true
		return "", nil
	}
	return reason, nil
}

// isIncluded reports whether a publisher's glob matches; below what is held back only one with a
// slash.
func (h *holder) isIncluded(name string, isDir, below bool) (yes bool, err error) {
	for _, r := range h.include {
		if below && r.base {
			continue
		}
		_, ok, err := h.used.decidingRule([]rule{r}, name, isDir)
		if err != nil {
			return false, err
		}
		if ok {
			yes = true
			h.named[r.source] = true
		}
	}
	return yes, nil
}

// reachesBelow reports whether a glob can match below a held-back directory.
func (h *holder) reachesBelow() bool {
	return slices.ContainsFunc(h.include, func(r rule) bool { return !r.base })
}

// privateKey reports whether a file named like a key is a private one; in doubt true.
func privateKey(tree fs.FS, name string) (bool, error) {
	extension := strings.ToLower(path.Ext(name))
	if extension != ".pem" && extension != ".key" && extension != ".asc" {
		return false, nil
	}
	if info, err := fs.Stat(tree, name); err != nil || !info.Mode().IsRegular() {
		return false, nil // a dangling link, or not a file: refused elsewhere
	}
	f, err := tree.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	armored := bytes.Contains(b, []byte("-----BEGIN "))
	return bytes.Contains(b, []byte("PRIVATE KEY")) || extension == ".key" && !armored || len(b) > maxKey, nil
}
