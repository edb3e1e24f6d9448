// SPDX-License-Identifier: Apache-2.0

package modulelock

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Difference is a call whose package is not the one in the lock.
type Difference struct {
	Call    string `json:"call"`
	Package string `json:"package"`          // its source
	Locked  string `json:"locked,omitempty"` // version, or hash if the versions are the same; "": not in the lock
	Found   string `json:"found,omitempty"`  // likewise; "": not installed
}

func (d Difference) String() string {
	switch {
	case d.Locked == "":
		return fmt.Sprintf("module %q: %s %s is not in %s", d.Call, d.Package, d.Found, Name)
	case d.Found == "":
		return fmt.Sprintf("module %q: %s %s is in %s, but not installed", d.Call, d.Package, d.Locked, Name)
	}
	return fmt.Sprintf("module %q: %s is installed as %s, %s has %s", d.Call, d.Package, d.Found, Name, d.Locked)
}

// Compare returns how what is installed differs from the lock, call by call.
func (f *File) Compare(installed *File) (all []Difference) {
	calls := map[string]Call{}
	for _, c := range f.Calls {
		calls[c.Path] = c
	}
	for _, now := range installed.Calls {
		locked, ok := calls[now.Path]
		delete(calls, now.Path)
		found := installed.findPackage(now.Source, now.Version)
		d := Difference{Call: now.Path, Package: now.Source, Found: now.Version}
		switch {
		case !ok:
			d.Found = found.versionOrSource()
		case locked.Source != now.Source:
			d.Locked, d.Found = f.findPackage(locked.Source, locked.Version).versionOrSource(), found.versionOrSource()
		case locked.Version != now.Version:
			d.Locked = locked.Version
		default:
			want := f.findPackage(locked.Source, locked.Version)
			if slices.Contains(want.Hashes, found.Hashes[0]) {
				continue
			}
			d.Package = strings.TrimSpace(now.Source + " " + now.Version)
			d.Locked, d.Found = strings.Join(want.Hashes, " or "), found.Hashes[0]
		}
		all = append(all, d)
	}
	for path, c := range calls {
		all = append(all, Difference{Call: path, Package: c.Source, Locked: c.Version})
	}
	slices.SortFunc(all, func(a, b Difference) int { return strings.Compare(a.Call, b.Call) })
	return all
}

func (p *Package) versionOrSource() string {
	if p.Version == "" {
		return p.Source
	}
	return p.Version
}

// Upgrade returns the lock with the calls of installed. A call that both have keeps its package, unless
// its path or its source is among those to upgrade; nil upgrades none, "" all.
func (f *File) Upgrade(installed *File, names []string) (now *File, kept []Difference) {
	for _, d := range f.Compare(installed) {
		i := slices.IndexFunc(installed.Calls, func(c Call) bool { return c.Path == d.Call })
		if d.Locked != "" && i >= 0 && !slices.Contains(names, "") && !slices.Contains(names, d.Call) && !slices.Contains(names, installed.Calls[i].Source) {
			kept = append(kept, d)
		}
	}
	return installed, kept
}

// Check compares the lock of a root module, if it has one, with what init has installed. It is nil if
// init has not run: the tool says so itself. A call that is only in the lock does no harm.
func Check(dir, dataDir string) error {
	f, err := Read(dir)
	if f == nil || err != nil {
		return err
	}
	installed, err := Installed(dataDir)
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
	m.text = fmt.Sprintf("the installed modules are not those of %s:\n%s\nhint: ", filepath.Join(dir, Name), strings.Join(lines, "\n"))
	if m.New {
		m.text += "run `okara lock --modules`"
	} else {
		m.text += fmt.Sprintf("to install them again, remove %s and run init; to accept them, run `okara lock --modules --upgrade`", filepath.Join(dataDir, "modules"))
	}
	return m
}

// Mismatch says that other modules are installed than those of a lock.
type Mismatch struct {
	New  bool // the calls are not in the lock; no other differs
	text string
}

func (m *Mismatch) Error() string { return m.text }
