// SPDX-License-Identifier: Apache-2.0

package modulelock

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/usage"
)

// maxFiles bounds the files of a package.
const maxFiles = 200_000

// Files reads below what a root module may name: with the methods of an [os.Root] nothing outside of it.
type Files struct {
	Open     func(name string) (*os.File, error)
	OpenRoot func(name string) (*os.Root, error)
}

// machine reads all files of this machine.
func machine() Files { return Files{os.Open, os.OpenRoot} }

// readFile reads a file of at most MaxSize bytes.
func readFile(open func(string) (*os.File, error), name string) ([]byte, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(b) > MaxSize {
		err = fmt.Errorf("%s has more than %d MiB", name, MaxSize>>20)
	}
	return b, err
}

// Read reads the lock of a root module; nil if there is none.
func Read(dir string) (*File, error) {
	name := filepath.Join(dir, Name)
	src, err := readFile(os.Open, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Parse(name, src)
}

// record is one of modules.json, where init lists what it has installed:
// https://github.com/opentofu/opentofu/tree/v1.12.6/internal/modsdir
type record struct{ Key, Source, Version, Dir string }

// readRecords returns the records of the calls that the configuration in dir still has, by key, with the
// folders that the tools read: they never remove one. fs.ErrNotExist: init has not run.
func (in Files) readRecords(dir, dataDir string) (map[string]record, error) {
	name := filepath.Join(dataDir, "modules", "modules.json")
	list, err := readFile(in.Open, name)
	if errors.Is(err, fs.ErrNotExist) {
		if data, openErr := in.Open(dataDir); openErr == nil {
			return nil, data.Close() // no calls
		}
	}
	if err != nil {
		return nil, err
	}
	var file struct{ Modules []record }
	if err := json.Unmarshal(list, &file); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	all := map[string]record{"": {Dir: dir}}
	for _, m := range file.Modules {
		if !filepath.IsLocal(m.Key) && m.Key != "" {
			return nil, fmt.Errorf("%s has the key %q, which is not a call", name, m.Key)
		}
		if m.Key != "" {
			if m.Dir = filepath.FromSlash(m.Dir); !filepath.IsAbs(m.Dir) {
				m.Dir = filepath.Join(dir, m.Dir)
			}
			all[m.Key] = m
		}
	}
	called := map[string]map[string]bool{}
	recorded := maps.Clone(all)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		parent, label := "", key
		if i := strings.LastIndexByte(key, '.'); i >= 0 {
			parent, label = key[:i], key[i+1:]
		}
		_, hasTest := recorded["test"] // a call of this name; test.FOLDER.FILE.RUN is of a test, which no call leads to
		_, hasParent := recorded[parent]
		if key == "" || strings.HasPrefix(key, "test.") && !(hasTest && hasParent) {
			continue
		}
		from, ok := all[parent]
		if ok && called[parent] == nil {
			called[parent] = in.listCalls(from.Dir)
		}
		if !ok || !called[parent][label] && !called[parent][anyCall] {
			delete(all, key)
		}
	}
	return all, nil
}

// LiveCalls returns the paths of the calls that init has installed and the configuration still has.
func LiveCalls(dir, dataDir string) (map[string]bool, error) {
	return machine().ListLive(dir, dataDir)
}

// ListLive is [LiveCalls] of these files.
func (in Files) ListLive(dir, dataDir string) (map[string]bool, error) {
	records, err := in.readRecords(dir, dataDir)
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for key := range records {
		all[key] = true
	}
	return all, nil
}

// ListMissing returns the calls that the configuration has and init did not install, as after one that
// failed: those of the lock, and without one those of the root module, if there is no other.
func (f *File) ListMissing(dir, dataDir string) (missing []string) {
	in := machine()
	records, err := in.readRecords(dir, dataDir)
	if err != nil {
		return nil
	}
	if records == nil {
		records = map[string]record{"": {Dir: dir}}
	}
	for key, m := range records {
		for label := range in.listCalls(m.Dir) {
			path := strings.TrimPrefix(key+"."+label, ".")
			_, installed := records[path]
			locked := slices.ContainsFunc(f.Calls, func(c Call) bool { return c.Path == path })
			if !installed && label != anyCall && (locked || len(f.Calls) == 0 && len(records) == 1) {
				missing = append(missing, path)
			}
		}
	}
	slices.Sort(missing)
	return missing
}

// anyCall says that a folder cannot be read, so that every record may be of a call in it.
const anyCall = "*"

// listCalls returns the labels of the module blocks in a folder.
func (in Files) listCalls(dir string) map[string]bool {
	all := map[string]bool{}
	var entries []fs.DirEntry
	folder, err := in.Open(dir)
	if err == nil {
		entries, err = folder.ReadDir(-1)
		_ = folder.Close() // only read
	}
	for _, e := range entries {
		if !description.IsConfiguration(e.Name()) {
			continue
		}
		var body *hcl.BodyContent
		src, readErr := readFile(in.Open, filepath.Join(dir, e.Name()))
		if file, _ := syntax.Parse(src, e.Name()); readErr == nil && file != nil {
			body, _, _ = file.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "module", LabelNames: []string{"name"}}}})
		}
		if body == nil {
			err = errors.Join(err, readErr, fs.ErrInvalid)
			continue
		}
		for _, b := range body.Blocks {
			all[b.Labels[0]] = true
		}
	}
	all[anyCall] = err != nil
	return all
}

// Installed returns the lock of what init has installed for the root module dir, nothing for one that
// calls no module; fs.ErrNotExist: it has not run. Local folders are not packages.
func Installed(dir, dataDir string) (*File, error) {
	f, err := machine().readInstalled(dir, dataDir)
	written, _ := filepath.Glob(filepath.Join(dir, "*.t*f*")) // the pattern is well formed
	if errors.Is(err, fs.ErrNotExist) && slices.ContainsFunc(written, description.IsConfiguration) {
		if calls := machine().listCalls(dir); len(calls) == 1 && !calls[anyCall] {
			return &File{}, nil
		}
	}
	return f, err
}

func (in Files) readInstalled(dir, dataDir string) (*File, error) {
	records, err := in.readRecords(dir, dataDir)
	if err != nil {
		return nil, err
	}
	f := &File{}
	for _, key := range slices.Sorted(maps.Keys(records)) {
		m := records[key]
		if key == "" {
			continue
		}
		if names := strings.Split(filepath.ToSlash(m.Dir), "/"); slices.Contains(names, ".git") || slices.Contains(names, ".hg") {
			return nil, fmt.Errorf("module %q is read from %s, which is not hashed", key, m.Dir)
		}
		if isLocal(m.Source) {
			if err := in.checkLocal(records, m); err != nil {
				return nil, err
			}
			continue
		}
		folder := filepath.Join(dataDir, "modules", key)
		if !isWithin(folder, m.Dir) {
			return nil, fmt.Errorf("module %q is read from %s, which is not in its package: run init again", key, m.Dir)
		}
		full, plain, commit, err := in.hashPackage(folder)
		if err != nil {
			return nil, fmt.Errorf("module %q cannot be read, run init again: %v", key, err) // not fs.ErrNotExist: init has run
		}
		source, ref := splitSource(m.Source)
		c := Call{Path: key, Source: source, Version: cmp.Or(m.Version, ref), full: full, plain: plain}
		p := f.findPackage(c.Source, c.Version)
		if p == nil {
			f.Packages = append(f.Packages, Package{Source: c.Source, Version: c.Version})
			p = &f.Packages[len(f.Packages)-1]
		}
		p.Hashes = addHashes(p.Hashes, full, plain)
		p.Commit = cmp.Or(p.Commit, commit)
		f.Calls = append(f.Calls, c)
	}
	f.sortBlocks()
	return f, nil
}

// addHashes adds those that are not there.
func addHashes(to []string, more ...string) []string {
	for _, h := range more {
		if !slices.Contains(to, h) && len(to) < maxHashes {
			to = append(to, h)
		}
	}
	return to
}

func isLocal(source string) bool {
	return strings.HasPrefix(source, "./") || strings.HasPrefix(source, "../")
}

// checkLocal checks that a local call is read from the folder that its source names.
func (in Files) checkLocal(records map[string]record, m record) error {
	parent := records[""]
	if i := strings.LastIndexByte(m.Key, '.'); i >= 0 {
		if p, ok := records[m.Key[:i]]; ok { // not a module of a test
			parent = p
		}
	}
	stat := func(dir string) (fs.FileInfo, error) {
		f, err := in.Open(dir)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return f.Stat()
	}
	want, err := stat(filepath.Join(parent.Dir, filepath.FromSlash(m.Source)))
	read, readErr := stat(m.Dir)
	if errors.Is(readErr, fs.ErrNotExist) { // the tool says so
		return nil
	}
	if err != nil || readErr != nil || !os.SameFile(want, read) {
		return fmt.Errorf("module %q is read from %s, not from its source %s: run init again", m.Key, m.Dir, m.Source)
	}
	return nil
}

// isWithin reports whether a path is a folder or in it.
func isWithin(folder, path string) bool {
	for _, p := range []*string{&folder, &path} {
		if abs, err := filepath.Abs(*p); err == nil {
			*p = abs
		}
	}
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// splitSource returns a source of modules.json that is not local, without folder and secrets, and its ref.
func splitSource(source string) (clean, ref string) {
	if clean = usage.CleanSource(source); clean == "" { // of this machine, or very long
		clean = source
		if scheme, rest, ok := strings.Cut(source, "://"); ok {
			host, path, _ := strings.Cut(rest, "/")
			clean = scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + "/" + path
		}
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
	q, _ := url.ParseQuery(query) // what can be parsed
	for _, name := range []string{"ref", "digest", "tag"} {
		if ref == "" {
			ref = q.Get(name)
		}
	}
	return rest, ref
}

// HashFolder returns both hashes of the files of a package, that of all first.
func HashFolder(dir string) ([]string, error) {
	full, plain, _, err := machine().hashPackage(dir)
	return []string{full, plain}, err
}

// hashPackage returns two hashes of the files in a folder, see the package's documentation: of all, and of
// those whose names have no leading dot; and the commit of a clone.
func (in Files) hashPackage(folder string) (full, plain, commit string, err error) {
	root, err := in.OpenRoot(folder)
	if err != nil {
		return "", "", "", err
	}
	defer root.Close()
	var names, plainNames []string
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".git" || name == ".hg":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		case d.Type() == fs.ModeSymlink:
			err = checkLink(root, name)
		case !d.Type().IsRegular():
			err = fmt.Errorf("%s is neither a file nor a link", name)
		}
		if len(names) == maxFiles {
			err = fmt.Errorf("more than %d files", maxFiles)
		}
		names = append(names, name)
		if !strings.HasPrefix(name, ".") && !strings.Contains(name, "/.") {
			plainNames = append(plainNames, name)
		}
		return err
	})
	if err != nil {
		return "", "", "", err
	}
	open := func(name string) (io.ReadCloser, error) {
		if target, err := root.Readlink(filepath.FromSlash(name)); err == nil {
			return io.NopCloser(strings.NewReader(filepath.ToSlash(target))), nil
		}
		return root.Open(filepath.FromSlash(name))
	}
	if plain, err = dirhash.Hash1(plainNames, open); err != nil || len(plainNames) == len(names) {
		return plain, plain, readCommit(root), err
	}
	full, err = dirhash.Hash1(names, open)
	return full, plain, readCommit(root), err
}

// checkLink refuses a link to what is not hashed.
func checkLink(root *os.Root, name string) error {
	target, err := root.Readlink(filepath.FromSlash(name))
	if err != nil {
		return err
	}
	to := filepath.ToSlash(filepath.Join(filepath.Dir(filepath.FromSlash(name)), target))
	first, _, _ := strings.Cut(to, "/")
	_, err = root.Stat(filepath.FromSlash(name)) // which other links may lead out
	if filepath.IsAbs(target) || !filepath.IsLocal(to) || first == ".git" || first == ".hg" || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is a link to outside the package", name)
	}
	return nil
}

// readCommit returns the commit that a clone has checked out, "" where it is not known.
func readCommit(root *os.Root) string {
	read := func(name string) string {
		b, _ := readFile(root.Open, filepath.Join(".git", filepath.FromSlash(name))) // an error: not known
		return strings.TrimSpace(string(b))
	}
	head := read("HEAD")
	ref, isRef := strings.CutPrefix(head, "ref: ")
	if isRef {
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
	if errors.Is(err, fs.ErrNotExist) {
		return rest, nil
	}
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
