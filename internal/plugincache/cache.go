// SPDX-License-Identifier: Apache-2.0

package plugincache

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/lockfile"
)

// maxLock bounds the size of a lock file, in bytes.
const maxLock = 4 << 20

// Cache is a folder of provider packages for this platform.
type Cache struct {
	dir      string
	maxBytes int64 // bytes; 0: no limit
}

// New returns the cache in dir, which need not exist, and must be absolute: links lead there.
func New(dir string) (Cache, error) {
	if !filepath.IsAbs(dir) {
		return Cache{}, fmt.Errorf("plugin cache %s: must be an absolute path", dir)
	}
	return Cache{dir: filepath.Clean(dir)}, nil
}

// Module is a root module.
type Module struct {
	Dir     string // contains the lock file
	DataDir string // where the tool keeps providers, .terraform
}

// Link links to each package that the lock file names and the cache has. Other links are removed:
// terraform would install through them. It returns how many are in the cache.
func (c Cache) Link(m Module) (linked int, err error) {
	_, packages, err := c.lockedPackages(m)
	if err := c.unlink(m, packages); err != nil {
		return 0, err
	}
	for _, p := range packages {
		if err := dropDangling(p.installed); err != nil {
			return linked, err
		}
		if _, err := os.Lstat(p.installed); err == nil {
			if to, err := os.Readlink(p.installed); err == nil && filepath.Dir(to) == p.cached {
				linked++
			}
			continue
		}
		kept, ok := p.keptFolder()
		if !ok {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(p.installed), 0o755); err != nil {
			return linked, err
		}
		if err := os.Symlink(kept, p.installed); err != nil && !errors.Is(err, fs.ErrExist) {
			return linked, err
		}
		linked++
	}
	return linked, err
}

// unlink removes a module's links into the cache to packages that its lock file does not name.
func (c Cache) unlink(m Module, packages []locked) error {
	all, err := filepath.Glob(filepath.Join(escapePattern(m.DataDir), "providers", "*", "*", "*", "*", "*"))
	if err != nil {
		return err
	}
	for _, path := range all {
		to, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(to, c.dir+string(filepath.Separator)) {
			continue // not a link into the cache
		}
		vouched := slices.ContainsFunc(packages, func(p locked) bool {
			return p.installed == path && p.cached == filepath.Dir(to) && slices.Contains(p.hashes, filepath.Base(to))
		})
		if vouched {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// escapePattern makes a pattern of [filepath.Glob] that matches only the name itself.
func escapePattern(name string) string {
	if runtime.GOOS == "windows" {
		return name // Windows has no escaping; of the special characters its names can only contain [
	}
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

// Keep moves installed packages into the cache, and links to them. What differs from the lock file
// or cannot move stays, named by the error. It returns how many moved.
func (c Cache) Keep(m Module) (kept int, err error) {
	_, packages, err := c.lockedPackages(m)
	if err != nil {
		return 0, err
	}
	packages = slices.DeleteFunc(packages, func(p locked) bool {
		info, err := os.Lstat(p.installed)
		return err != nil || !info.IsDir() // absent, or linked already
	})
	errs := eachPackage(packages, func(_ int, p locked) error { return c.keepPackage(p) })
	for _, err := range errs {
		if err == nil {
			kept++
		}
	}
	return kept, errors.Join(errs...)
}

// eachPackage calls do for all packages, some of them concurrently.
func eachPackage(packages []locked, do func(i int, p locked) error) []error {
	errs := make([]error, len(packages))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range packages {
		g.Go(func() error {
			errs[i] = do(i, p)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	return errs
}

// locked is a package named in a lock file.
type locked struct {
	entry     lockfile.Provider
	dataDir   string   // of the tool
	installed string   // where the tool installs it
	cached    string   // folder of this version in the cache
	hashes    []string // its possible h1 hashes, in hexadecimal
}

// lockedPackages reads the lock file of the module and lists its packages; none without the file.
func (c Cache) lockedPackages(m Module) (*lockfile.File, []locked, error) {
	file := filepath.Join(m.Dir, lockfile.Name)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > maxLock) {
		return nil, nil, nil // left to the tool to report
	}
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	lock, err := lockfile.Parse(file, text)
	if err != nil {
		return nil, nil, err
	}
	return lock, c.packagesIn(lock, m.DataDir), nil
}

func (c Cache) packagesIn(lock *lockfile.File, dataDir string) (all []locked) {
	for _, p := range lock.Providers {
		at := filepath.Join(p.Address.Hostname, p.Address.Namespace, p.Address.Type, p.Version.String(), runtime.GOOS+"_"+runtime.GOARCH)
		l := locked{entry: p, dataDir: dataDir, installed: filepath.Join(dataDir, "providers", at), cached: filepath.Join(c.dir, at)}
		for _, h := range p.Hashes {
			if folder, ok := hexOf(h); ok {
				l.hashes = append(l.hashes, folder)
			}
		}
		all = append(all, l)
	}
	return all
}

// hexOf returns the folder name for a hash "h1:…", which is base64 of a SHA-256.
func hexOf(h1 string) (string, bool) {
	text, ok := strings.CutPrefix(h1, "h1:")
	sum, err := base64.StdEncoding.DecodeString(text)
	return hex.EncodeToString(sum), ok && err == nil && len(sum) == 32
}

// keptFolder returns the folder of the package in the cache; false if it is not there.
func (l locked) keptFolder() (string, bool) {
	for _, h := range l.hashes {
		dir := filepath.Join(l.cached, h)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, true
		}
	}
	return "", false
}

// dropDangling removes a dangling link, which a tool takes for a broken package.
func dropDangling(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return os.Remove(path)
	}
	return nil
}

// keepPackage moves one package into the cache, or replaces it by a link to the one that is there.
func (c Cache) keepPackage(l locked) error {
	if err := onlyFiles(l.installed); err != nil {
		return fmt.Errorf("plugin cache: %w", err)
	}
	h1, err := dirhash.HashDir(l.installed, "", dirhash.Hash1)
	if err != nil {
		return fmt.Errorf("plugin cache: %w", err)
	}
	hash, ok := hexOf(h1)
	if !ok || !slices.Contains(l.hashes, hash) {
		return fmt.Errorf("plugin cache: the lock file has no h1: of %s, which stays where it is", l.installed)
	}
	if err := os.MkdirAll(l.cached, 0o700); err != nil {
		return err
	}
	target := filepath.Join(l.cached, hash)
	if there, err := dirhash.HashDir(target, "", dirhash.Hash1); err != nil || there != h1 {
		damaged := !errors.Is(err, fs.ErrNotExist)
		if err := c.moveIn(l.installed, target, damaged); err != nil {
			return fmt.Errorf("plugin cache: %w", err)
		}
	}
	return replaceByLink(l.installed, target, l.dataDir)
}

// onlyFiles refuses a package with links, whose targets could change after verification.
func onlyFiles(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !e.Type().IsRegular() {
			return fmt.Errorf("%s is not a file; package not moved", path)
		}
		return err
	})
}

// moveIn copies a folder to a temporary one, by hard links if the file system can, and
// moves the copy to target, where it replaces a damaged one.
func (c Cache) moveIn(from, target string, damaged bool) (err error) {
	partial, remove, err := c.tempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	whole := filepath.Join(partial, "package")
	if err := copyTree(from, whole); err != nil {
		return err
	}
	if damaged {
		if err := os.Rename(target, filepath.Join(partial, "damaged")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return moveTo(whole, target)
}

// copyTree copies a folder, by hard links if the file system can.
func copyTree(from, to string) error {
	if linkTree(from, to) == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from)), makeReadable(to))
}

// moveTo renames a folder. If another process was faster, that one's folder stays.
func moveTo(whole, target string) error {
	err := os.Rename(whole, target)
	if _, there := os.Stat(target); there == nil {
		return nil
	}
	return err
}

// linkTree makes hard links in to for all files in from.
func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if dir := filepath.Join(to, below); e.IsDir() {
			return errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)) // independent of the umask
		}
		return os.Link(path, filepath.Join(to, below))
	})
}

// replaceByLink replaces a folder by a link. A program in it has its files open; an init in that
// moment installs again.
func replaceByLink(path, target, beside string) (err error) {
	aside, remove, err := files.TempDir(beside)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := os.Rename(path, filepath.Join(aside, "package")); err != nil {
		return err
	}
	return os.Symlink(target, path)
}
