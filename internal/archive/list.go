// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Options configures what a tree may contain.
type Options struct {
	Limits  Limits
	Ignore  []string  // rules in addition to those of ignore files; they come last and so win
	All     bool      // exclude nothing: the tree is the content of an archive
	Hold    *HoldBack // nil: nothing is held back
	Foreign bool      // the tree cannot be changed: a link in a circle is left out, not refused
}

// Tree is the shipped part of a tree of files.
type Tree struct {
	Files   []File    // sorted by path
	Dropped []Dropped // sorted by path; nothing below a dropped directory
	Bytes   int64     // sum of the sizes
	Links   []Dropped // the links among Dropped that lead nowhere

	// Read, if set, gets the number of bytes packed since.
	Read func(n int64)

	fsys fs.FS
}

// File is a file that ships.
type File struct {
	Path string
	Size int64
	Exec bool // executable by the owner
}

// Dropped is an excluded file, or a directory with a slash, of which files may ship.
type Dropped struct{ Path, Reason string }

const (
	// maxLinks bounds links to directories on one path, and with them loops.
	maxLinks = 8

	maxResolved = 1000 // elements of a path, with those of links

	maxDepth = 64   // directories and the file of one path
	maxPath  = 1024 // bytes; Windows takes 260 by default, Linux 4096
	maxName  = 255  // bytes of one element, the limit of file systems
)

// List walks tree and returns what ships, links as what they lead to, if that exists. tree must be
// the FS of an [os.Root], which links cannot leave, or have none.
func List(ctx context.Context, tree fs.FS, o Options) (*Tree, error) {
	w := &walk{tree: tree, o: o, limits: o.Limits.withDefaults(), folded: map[string]string{}, out: &Tree{fsys: tree}}
	rules := defaultRules()
	for _, line := range o.Ignore {
		r, ok, err := parseRule(line)
		if err != nil {
			return nil, fmt.Errorf("ignore rule %.80q: %w", line, err)
		}
		if ok {
			r.source = "excluded by the caller: " + line
			r.dir = "."
			rules = append(rules, r)
		}
	}
	if err := w.listTree(ctx, rules); err != nil {
		return nil, err
	}
	return w.out, nil
}

type walk struct {
	tree   fs.FS
	o      Options
	limits Limits
	folded map[string]string // case-folded path -> path
	used   usage
	ignore ignoreBudget
	hold   *holder // nil: nothing is held back
	held   []Dropped
	out    *Tree
}

// place is the context for the entries of a directory.
type place struct {
	real  string        // path of the directory, without links
	rules []rule        // of ignore files
	git   []rule        // of .gitignore files
	dirs  []fs.FileInfo // the directory and those above it, through links
	links int           // number of links followed so far
	held  bool          // a directory above is held back
	hides string        // why untracked files are held back here: the rule for a directory above; "": they are not
}

// listTree walks the whole tree.
func (w *walk) listTree(ctx context.Context, rules []rule) (err error) {
	at := place{real: ".", rules: rules}
	if w.o.Hold != nil {
		if w.hold, err = newHolder(w.tree, w.o.Hold, &w.ignore); err != nil {
			return err
		}
		at.git = w.hold.above
	}
	top, err := fs.Stat(w.tree, ".")
	if err == nil {
		err = w.dir(ctx, ".", top, at)
	}
	if err != nil {
		return err
	}
	byPath := func(a, b Dropped) int { return strings.Compare(a.Path, b.Path) }
	slices.SortFunc(w.out.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(w.out.Dropped, byPath)
	if w.hold != nil {
		slices.SortFunc(w.held, byPath)
		w.o.Hold.Held = w.held
		w.hold.noteNamed(w.o.Hold)
	}
	return nil
}

func (w *walk) dir(ctx context.Context, dir string, info fs.FileInfo, at place) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if dir != "." {
		if err := w.used.countEntry(dir, fs.ModeDir, w.limits); err != nil {
			return err
		}
	}
	at.dirs = append(slices.Clip(at.dirs), info)
	at, err := w.enterDir(dir, at)
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(w.tree, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := w.entry(ctx, path.Join(dir, e.Name()), e, at); err != nil {
			return err
		}
	}
	return nil
}

// enterDir adds the rules of dir itself.
func (w *walk) enterDir(dir string, at place) (place, error) {
	if w.o.All {
		return at, nil
	}
	own, err := readRules(w.tree, dir, &w.ignore, ".terraformignore", ".tfignore")
	if err != nil {
		return at, err
	}
	at.rules = append(slices.Clip(at.rules), own...)
	if w.hold == nil {
		return at, nil
	}
	return at, w.hold.enterDir(at.real, &at)
}

func (w *walk) entry(ctx context.Context, name string, e fs.DirEntry, at place) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	ships, err := w.shipsEntry(name, e, &at)
	if err != nil || !ships {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if info, err = w.followLink(name, &at); err != nil || info == nil {
			return err
		}
	} else {
		at.real = path.Join(at.real, e.Name())
	}
	if err := w.checkName(name); err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return w.dir(ctx, name, info, at)
	case info.Mode().IsRegular():
		return w.addFile(name, info)
	}
	return fmt.Errorf("%s: %s is not a regular file: %w", name, info.Mode().Type(), ErrUnsafe)
}

// shipsEntry reports whether an entry, or something below it, ships, records what does not, and
// sets at.held for what is below.
func (w *walk) shipsEntry(name string, e fs.DirEntry, at *place) (bool, error) {
	if w.o.All {
		return true, nil
	}
	reason, named, err := w.ignoreReason(name, e, at.rules)
	switch {
	case err != nil:
		return false, err
	case reason != "":
		if !at.held {
			w.dropEntry(name, e.IsDir(), reason)
		}
		return false, nil
	case w.hold == nil:
		return true, nil
	}
	return w.heldBack(name, path.Join(at.real, e.Name()), e.IsDir(), at, named)
}

// heldBack records whether an entry is held back. A publisher's glob ships it, or an ignore file
// (named), which does not count below a held-back directory. real is its path without links.
func (w *walk) heldBack(name, real string, isDir bool, at *place, named bool) (ships bool, err error) {
	included, err := w.hold.isIncluded(name, isDir, at.held)
	switch {
	case err != nil:
		return false, err
	case included:
		at.held = false
		return true, nil
	case at.held:
		return isDir, nil
	case named:
		return true, nil
	}
	reason, err := w.hold.reason(real, isDir, *at)
	switch {
	case err != nil:
		return false, err
	case reason == "":
		return true, nil
	case isDir && w.hold.isTracked(real):
		at.hides = reason
		return true, nil
	}
	w.holdBack(name, isDir, reason)
	at.held = true
	return isDir && w.hold.reachesBelow(), nil
}

// ignoreReason returns why ignore files exclude an entry, or "", and whether one names it.
func (w *walk) ignoreReason(name string, e fs.DirEntry, rules []rule) (reason string, named bool, err error) {
	if reason := alwaysDropped(e.Name()); reason != "" {
		return reason, false, nil
	}
	r, ok, err := w.ignore.decidingRule(rules, name, e.IsDir())
	if !ok || err != nil {
		return "", r.include, err
	}
	return r.source, false, nil
}

func (w *walk) dropEntry(name string, isDir bool, reason string) {
	if isDir {
		name += "/"
	}
	w.out.Dropped = append(w.out.Dropped, Dropped{name, reason})
}

// followLink returns what the link name leads to, nil if the link is left out.
func (w *walk) followLink(name string, at *place) (fs.FileInfo, error) {
	target, err := fs.ReadLink(w.tree, name)
	if err != nil {
		return nil, err
	}
	final := w.resolve(name)
	if path.IsAbs(target) {
		return nil, fmt.Errorf("%s: symbolic link to %s, which is an absolute path; make it relative: %w", name, target, ErrUnsafe)
	}
	if !fs.ValidPath(final) {
		return nil, fmt.Errorf("%s: symbolic link to %s, which is %w: %w", name, target, ErrOutside, ErrUnsafe)
	}
	info, err := fs.Stat(w.tree, name)
	circle := errors.Is(err, syscall.ELOOP) || err == nil && slices.ContainsFunc(at.dirs, func(above fs.FileInfo) bool { return os.SameFile(above, info) })
	at.links++
	switch {
	case circle && w.o.Foreign:
		w.leaveOut(name, fmt.Sprintf("circular symbolic link to %s", target))
		return nil, nil
	case circle, at.links > maxLinks:
		return nil, fmt.Errorf("%s: circular symbolic link to %s: %w", name, target, ErrUnsafe)
	case errors.Is(err, fs.ErrNotExist):
		w.leaveOut(name, fmt.Sprintf("symbolic link to %s, which does not exist", target))
		return nil, nil
	case err != nil: // of os.Root: the link leaves it through another one
		return nil, fmt.Errorf("%s: symbolic link to %s, which is %w: %w", name, target, ErrOutside, ErrUnsafe)
	}
	if reason, err := w.neverShips(final, info.IsDir(), at.rules); err != nil || reason != "" {
		w.leaveOut(name, fmt.Sprintf("symbolic link to %s, %s", target, reason))
		return nil, err
	}
	if w.hold != nil {
		ships, err := false, w.hold.enterPath(path.Dir(final), at)
		if err == nil {
			ships, err = w.heldBack(name, final, info.IsDir(), at, false)
		}
		if err != nil || !ships {
			return nil, err
		}
	}
	at.real = final
	return info, nil
}

// neverShips returns why nothing at a path ships, under no other name either, or "".
func (w *walk) neverShips(name string, isDir bool, rules []rule) (string, error) {
	for ; name != "." && !w.o.All; name = path.Dir(name) {
		r, ok, err := w.ignore.decidingRule(rules, name, isDir)
		switch {
		case err != nil:
			return "", err
		case path.Base(name) == ".git":
			return alwaysDropped(".git"), nil
		case !ok:
		case strings.HasPrefix(r.source, byDefault):
			return r.source, nil
		default: // a rule of one's own that says the same
			if r, ok, err := w.ignore.decidingRule(defaultRules(), name, isDir); err != nil || ok {
				return r.source, err
			}
		}
		isDir = true
	}
	return "", nil
}

func (w *walk) holdBack(name string, isDir bool, reason string) {
	w.dropEntry(name, isDir, reason)
	w.held = append(w.held, w.out.Dropped[len(w.out.Dropped)-1])
}

// resolve returns a path without links, not valid outside the tree.
func (w *walk) resolve(name string) string {
	real := "."
	rest := strings.Split(name, "/")
	for links := 0; len(rest) > 0 && fs.ValidPath(real); {
		next := path.Join(real, rest[0])
		rest = rest[1:]
		target, err := fs.ReadLink(w.tree, next)
		if links++; err != nil || links > maxResolved {
			real = next
			continue
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real
}

func (w *walk) leaveOut(name, reason string) {
	w.dropEntry(name, false, reason)
	w.out.Links = append(w.out.Links, Dropped{name, reason})
}

func (w *walk) checkName(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	key := strings.ToLower(strings.ToUpper(strings.TrimRight(name, ". "))) // of directories too
	if other, ok := w.folded[key]; ok {
		return fmt.Errorf("%s and %s differ only in case, or in dots or spaces at the end: %w", other, name, ErrUnsafe)
	}
	w.folded[key] = name
	return nil
}

// CheckName refuses names that some system cannot store.
func CheckName(name string) error {
	switch {
	case !utf8.ValidString(name):
		return fmt.Errorf("%q: name is not UTF-8: %w", name, ErrUnsafe)
	case strings.ContainsFunc(name, unicode.IsControl), strings.Contains(name, `\`):
		return fmt.Errorf("%q: name with a control character or a backslash: %w", name, ErrUnsafe)
	case !fs.ValidPath(name):
		return fmt.Errorf("%q: path leads outside the folder: %w", name, ErrUnsafe)
	case len(name) > maxPath:
		return fmt.Errorf("%.80q…: a path of %d bytes, the limit is %d: %w", name, len(name), maxPath, ErrTooLarge)
	case strings.Count(name, "/") >= maxDepth:
		return fmt.Errorf("%.80q…: %d directories deep, the limit is %d: %w", name, strings.Count(name, "/"), maxDepth-1, ErrTooLarge)
	}
	for element := range strings.SplitSeq(name, "/") {
		if isDevice(element) {
			return fmt.Errorf("%q: Windows reads this name as a drive or a device: %w", name, ErrUnsafe)
		}
		if len(element) > maxName {
			return fmt.Errorf("%.80q…: a name of %d bytes, the limit is %d: %w", element, len(element), maxName, ErrTooLarge)
		}
	}
	return nil
}

// Foreign returns the files whose names are invalid on Windows.
func (t *Tree) Foreign() []string {
	var names []string
	for _, f := range t.Files {
		if slices.ContainsFunc(strings.Split(f.Path, "/"), notOnWindows) {
			names = append(names, f.Path)
		}
	}
	return names
}

// devices are names that Windows reserves, with any extension.
const devices = "con conin$ conout$ prn aux nul com0 com¹ com² com³ lpt0 lpt¹ lpt² lpt³ com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9"

func notOnWindows(element string) bool {
	return strings.ContainsAny(element, `<>:"|?*`) || strings.HasSuffix(element, ".") || strings.HasSuffix(element, " ")
}

// isDevice reports whether an element is a drive as "C:", a device, or "main.tf::$DATA".
func isDevice(element string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(element), ".")
	stem, _, _ = strings.Cut(stem, ":")
	drive := len(element) > 1 && element[1] == ':' && unicode.IsLetter(rune(element[0]))
	return drive || strings.Contains(element, "::$") || slices.Contains(strings.Fields(devices), strings.TrimSpace(stem))
}

func (w *walk) addFile(name string, info fs.FileInfo) error {
	w.out.Files = append(w.out.Files, File{Path: name, Size: info.Size(), Exec: info.Mode()&0o100 != 0})
	w.out.Bytes += info.Size()
	switch {
	case info.Size() > w.limits.FileSize:
		return fmt.Errorf("%s: %d bytes, the limit is %d: %w", name, info.Size(), w.limits.FileSize, ErrTooLarge)
	case w.out.Bytes > w.limits.Bytes:
		return fmt.Errorf("more than %d bytes: %w", w.limits.Bytes, ErrTooLarge)
	}
	return w.used.countEntry(name, 0, w.limits)
}
