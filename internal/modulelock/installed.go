// SPDX-License-Identifier: Apache-2.0

package modulelock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/usage"
)

// maxFiles bounds the files of a package.
const maxFiles = 200_000

// Read reads the lock of a root module; nil if there is none.
func Read(dir string) (*File, error) {
	name := filepath.Join(dir, Name)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, err
	}
	return Parse(name, src)
}

// Installed returns the lock of what init has installed below dataDir; fs.ErrNotExist: it has not run.
// Local folders are not packages.
func Installed(dataDir string) (*File, error) {
	list, err := os.ReadFile(filepath.Join(dataDir, "modules", "modules.json"))
	if err != nil {
		return nil, err
	}
	var installed struct {
		Modules []struct{ Key, Source, Version string }
	}
	if err := json.Unmarshal(list, &installed); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(dataDir, "modules", "modules.json"), err)
	}
	f := &File{}
	for _, m := range installed.Modules {
		source, ref := splitSource(m.Source)
		if source == "" { // the root, or a local folder
			continue
		}
		c := Call{Path: m.Key, Source: source, Version: m.Version}
		if c.Version == "" {
			c.Version = ref
		}
		folder := filepath.Join(dataDir, "modules", m.Key)
		if !filepath.IsLocal(m.Key) {
			return nil, fmt.Errorf("modules.json has the key %q, which is not a call", m.Key)
		}
		hash, err := hashPackage(folder)
		if err != nil {
			return nil, fmt.Errorf("module %q cannot be read, run init again: %v", m.Key, err) // not fs.ErrNotExist: init has run
		}
		p := f.findPackage(c.Source, c.Version)
		switch {
		case p == nil:
			f.Packages = append(f.Packages, Package{Source: c.Source, Version: c.Version, Hashes: []string{hash}, Commit: readCommit(folder)})
		case p.Hashes[0] != hash:
			return nil, fmt.Errorf("%s %s is installed twice, and the files of %q differ: remove %s and run init again", c.Source, c.Version, m.Key, filepath.Join(dataDir, "modules"))
		case p.Commit == "":
			p.Commit = readCommit(folder)
		}
		f.Calls = append(f.Calls, c)
	}
	f.sortBlocks()
	return f, nil
}

// splitSource returns a source of modules.json without folder, and its ref; "": it is no package.
func splitSource(source string) (clean, ref string) {
	if source == "" || strings.HasPrefix(source, "./") || strings.HasPrefix(source, "../") {
		return "", ""
	}
	if clean = usage.CleanSource(source); clean == "" { // of this machine
		clean = source
	}
	scheme, rest, hasScheme := strings.Cut(clean, "://")
	if !hasScheme {
		scheme, rest = "", clean
	}
	rest, query, _ := strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "//")
	if hasScheme {
		rest = scheme + "://" + rest
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return rest, query
	}
	for _, name := range []string{"ref", "digest", "tag"} {
		if ref == "" {
			ref = q.Get(name)
		}
	}
	return rest, ref
}

// hashPackage returns the hash of the files in a folder, see the package's documentation.
func hashPackage(folder string) (string, error) {
	var names []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case strings.HasPrefix(d.Name(), ".") && d.IsDir():
			return filepath.SkipDir
		case strings.HasPrefix(d.Name(), ".") || d.IsDir():
			return nil
		case !d.Type().IsRegular() && d.Type() != fs.ModeSymlink:
			return fmt.Errorf("%s is neither a file nor a link", name)
		case len(names) == maxFiles:
			return fmt.Errorf("more than %d files", maxFiles)
		}
		names = append(names, filepath.ToSlash(name))
		return nil
	})
	if err != nil {
		return "", err
	}
	return dirhash.Hash1(names, func(name string) (io.ReadCloser, error) {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if target, err := os.Readlink(path); err == nil {
			return io.NopCloser(strings.NewReader(filepath.ToSlash(target))), nil
		}
		return os.Open(path)
	})
}

// readCommit returns the commit that a clone has checked out, "" where it is not known.
func readCommit(folder string) string {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(folder, ".git", name))
		if err != nil || len(b) > 1<<20 {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	head := read("HEAD")
	ref, isRef := strings.CutPrefix(head, "ref: ")
	if isRef {
		if !filepath.IsLocal(ref) {
			return ""
		}
		if head = read(ref); head == "" {
			for line := range strings.SplitSeq(read("packed-refs"), "\n") {
				if commit, ok := strings.CutSuffix(line, " "+ref); ok {
					head = commit
				}
			}
		}
	}
	if len(head) != 40 && len(head) != 64 || strings.Trim(head, "0123456789abcdef") != "" {
		return ""
	}
	return head
}

// Forget returns the lock without the packages that names have, each the path of a call or a source,
// and removes their calls, with those below them, from what is installed: the next init selects them
// anew. It is nil if the lock has none of them.
func (f *File) Forget(dataDir string, names []string) (*File, error) {
	rest := &File{Packages: slices.DeleteFunc(slices.Clone(f.Packages), func(p Package) bool {
		return slices.Contains(names, p.Source) || slices.ContainsFunc(f.Calls, func(c Call) bool {
			return c.Source == p.Source && slices.Contains(names, c.Path)
		})
	})}
	if len(rest.Packages) == len(f.Packages) {
		return nil, nil
	}
	var gone []string
	for _, c := range f.Calls {
		if rest.findPackage(c.Source, c.Version) != nil {
			rest.Calls = append(rest.Calls, c)
			continue
		}
		gone = append(gone, c.Path)
	}
	isGone := func(key string) bool {
		return slices.ContainsFunc(gone, func(path string) bool { return key == path || strings.HasPrefix(key, path+".") })
	}
	rest.Calls = slices.DeleteFunc(rest.Calls, func(c Call) bool { return isGone(c.Path) })
	rest.Packages = slices.DeleteFunc(rest.Packages, func(p Package) bool {
		return !slices.ContainsFunc(rest.Calls, func(c Call) bool { return c.Source == p.Source && c.Version == p.Version })
	})
	name := filepath.Join(dataDir, "modules", "modules.json")
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var list struct{ Modules []json.RawMessage }
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	list.Modules = slices.DeleteFunc(list.Modules, func(raw json.RawMessage) bool {
		var m struct{ Key string }
		return json.Unmarshal(raw, &m) == nil && isGone(m.Key) // what cannot be read is the tool's to refuse
	})
	if b, err = json.Marshal(list); err != nil {
		return nil, err
	}
	return rest, files.Replace(name, b, 0o644)
}
