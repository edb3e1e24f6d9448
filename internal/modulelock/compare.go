// SPDX-License-Identifier: Apache-2.0

package modulelock

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
)

// Difference is a call whose package is not the one in the lock.
type Difference struct {
	Call    string `json:"call"`
	Package string `json:"package"`          // its source
	Locked  string `json:"locked,omitempty"` // version, or source, or hashes where those are the same; "": not in the lock
	Found   string `json:"found,omitempty"`  // likewise; "": not installed
}

func (d Difference) String() string {
	name := fmt.Sprintf("module %q: %s", d.Call, text.Line(d.Package))
	switch {
	case d.Locked == "":
		return fmt.Sprintf("%s (%s) is not in %s", name, text.Line(d.Found), Name)
	case d.Found == "":
		return fmt.Sprintf("%s (%s) is in %s, but not installed", name, text.Line(d.Locked), Name)
	}
	return fmt.Sprintf("%s is installed as %s, %s has %s", name, text.Line(d.Found), Name, text.Line(d.Locked))
}

// Compare returns how what is installed differs from the lock, call by call. A new call must have the
// files of its package, if that is locked: who replaces a tag must not get in by one. Of another lock
// only the calls are compared.
func (f *File) Compare(installed *File) (all []Difference) {
	calls := map[string]Call{}
	for _, c := range f.Calls {
		calls[c.Path] = c
	}
	for _, now := range installed.Calls {
		locked, ok := calls[now.Path]
		delete(calls, now.Path)
		d := Difference{Call: now.Path, Package: now.Source, Locked: locked.versionText(), Found: now.versionText()}
		want := f.findPackage(now.Source, now.Version)
		isSame := want != nil && (now.full == "" || slices.Contains(want.Hashes, now.full))
		switch {
		case !ok && (isSame || want == nil):
			d.Locked = ""
		case ok && locked.Source != now.Source:
			d.Locked, d.Found = locked.Source+" "+d.Locked, now.Source+" "+d.Found
		case !ok || locked.Version == now.Version:
			if isSame {
				continue
			}
			d.Locked, d.Found = strings.Join(slices.DeleteFunc(slices.Clone(want.Hashes), isManifest), " or "), now.full
		}
		all = append(all, d)
	}
	for path, c := range calls {
		all = append(all, Difference{Call: path, Package: c.Source, Locked: c.versionText()})
	}
	slices.SortFunc(all, func(a, b Difference) int { return strings.Compare(a.Call, b.Call) })
	return all
}

// FindOther returns the hash of a call of a package with other files than one of hashes, without dot files
// if it is a copy of such a call; "" if there is none.
func (f *File) FindOther(p Package, hashes ...string) string {
	calls := slices.DeleteFunc(slices.Clone(f.Calls), func(c Call) bool { return c.Source != p.Source || c.Version != p.Version })
	for _, c := range calls {
		if slices.Contains(hashes, c.full) {
			hashes = append(hashes, c.plain)
		}
	}
	for _, c := range calls {
		if !slices.Contains(hashes, c.full) {
			return c.full
		}
	}
	return ""
}

// ManifestHash begins the digest of a package's manifest in its registry, among the hashes.
const ManifestHash = "oci:"

func isManifest(hash string) bool { return strings.HasPrefix(hash, ManifestHash) }

// versionText says which package it is, never nothing.
func (c Call) versionText() string { return cmp.Or(c.Version, "no version") }

// Upgrade returns the lock with the calls of installed, and the differences that it does not take: a call
// that both have keeps its package, unless its path or its source is among names; "" is all. Hashes that
// another system found are kept.
func (f *File) Upgrade(installed *File, names []string) (now *File, kept []Difference) {
	for _, d := range f.Compare(installed) {
		if d.Locked != "" && d.Found != "" && !slices.Contains(names, "") && !slices.Contains(names, d.Call) && !slices.Contains(names, d.Package) {
			kept = append(kept, d)
		}
	}
	for i, p := range installed.Packages {
		if before := f.findPackage(p.Source, p.Version); before != nil && slices.ContainsFunc(before.Hashes, func(h string) bool { return slices.Contains(p.Hashes, h) }) {
			installed.Packages[i].Hashes = addHashes(before.Hashes, p.Hashes...)
			installed.Packages[i].Commit = cmp.Or(p.Commit, before.Commit)
		}
	}
	return installed, kept
}

// Check compares the lock of a root module, if it has one, with what init has installed. It is nil if
// init has not run: the tool says so itself.
func Check(dir, dataDir string) error {
	f, err := Read(dir)
	if f == nil || err != nil {
		return err
	}
	return f.CheckInstalled(machine(), dir, dataDir, fmt.Sprintf("to install them again, remove %s and run init; to accept them, run `okara lock --modules --upgrade`", filepath.Join(dataDir, "modules")))
}

// CheckInstalled is [Check] of a lock; an error is a [*Mismatch] with a hint about other packages. A call
// that is only in the lock does no harm.
func (f *File) CheckInstalled(in Files, dir, dataDir, hint string) error {
	installed, err := in.readInstalled(dir, dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(f.Compare(installed), func(d Difference) bool { return d.Found == "" && d.Locked != "" })
	if len(all) == 0 {
		return nil
	}
	m := &Mismatch{New: true}
	var lines []string
	for _, d := range all {
		m.New = m.New && d.Locked == ""
		lines = append(lines, d.String())
	}
	if m.New {
		hint = "run `okara lock --modules`"
	}
	m.text = fmt.Sprintf("the installed modules do not match %s:\n%s\nhint: %s", filepath.Join(dir, Name), strings.Join(lines, "\n"), hint)
	return m
}

// Mismatch says that other modules are installed than those of a lock.
type Mismatch struct {
	New  bool // the calls are not in the lock; no other differs
	text string
}

func (m *Mismatch) Error() string { return m.text }
