// SPDX-License-Identifier: Apache-2.0

package plugincache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/upstream"
)

// Source tells where a package is that its caller may have, and the package's hashes.
type Source interface {
	Package(ctx context.Context, p addr.Provider, v addr.Version, t addr.Platform) (upstream.Package, error)
}

// Share configures how a tool gets packages that it must not change.
type Share struct {
	Source Source // with the rights of the tool
	Dir    string // existing folder of this tool alone, for hard links
	Shown  string // path of Dir as the tool sees it
}

// maxShared bounds the providers of one lock file: each is a request.
const maxShared = 100

// Within returns the cache with a limit in bytes: fetching removes what was unused longest, but not
// what runs use. One package, and what is unpacked, may exceed it.
func (c Cache) Within(maxBytes int64) Cache {
	c.maxBytes = maxBytes
	return c
}

// Share links to the lock file's packages that the source has, fetched where missing or damaged,
// all hashed, and returns how many. Beside a zh: alone it adds the h1:, as the tool does. What is
// left, by error or limit, the tool fetches.
func (c Cache) Share(ctx context.Context, m Module, s Share) (shared int, err error) {
	lock, packages, err := c.lockedPackages(m)
	if err != nil || len(packages) > maxShared {
		return 0, err
	}
	entries := make([]lockfile.Provider, len(packages)) // of packages that are ready
	errs := eachPackage(packages, func(i int, p locked) (err error) {
		entries[i], err = c.readyPackage(ctx, p, s.Source, filepath.Join(s.Dir, strconv.Itoa(i)))
		return err
	})
	if err := completeLock(m, lock, entries); err != nil {
		return 0, errors.Join(append(errs, err)...)
	}
	for i, p := range packages {
		if len(entries[i].Hashes) == 0 {
			continue
		}
		err := errors.Join(os.MkdirAll(filepath.Dir(p.installed), 0o755), os.Symlink(filepath.Join(s.Shown, strconv.Itoa(i)), p.installed))
		if errs = append(errs, err); err == nil {
			shared++
		}
	}
	return shared, errors.Join(errs...)
}

// completeLock adds the hashes of the entries that the lock file lacks.
func completeLock(m Module, lock *lockfile.File, entries []lockfile.Provider) error {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e lockfile.Provider) bool {
		have, ok := lock.Find(e.Address)
		return !ok || len(e.Hashes) == len(have.Hashes)
	})
	if len(entries) == 0 {
		return nil
	}
	return files.Replace(filepath.Join(m.Dir, lockfile.Name), lock.With(entries), 0o600)
}

// Fill fetches what a lock file names, the source has and the cache lacks.
func (c Cache) Fill(ctx context.Context, text []byte, source Source) error {
	lock, err := lockfile.Parse(lockfile.Name, text)
	if err != nil || len(lock.Providers) > maxShared {
		return err
	}
	return errors.Join(eachPackage(c.packagesIn(lock, ""), func(_ int, p locked) error {
		if _, ok := p.keptFolder(); ok {
			return nil
		}
		if pkg, ok := p.offeredPackage(ctx, source); ok {
			if err := c.fetch(ctx, p, pkg); !errors.Is(err, errFull) {
				return err
			}
		}
		return nil
	})...)
}

// readyPackage hard-links a package into own and hashes it there, and returns its entry with h1:,
// or zero if the tool has it or fetches it.
func (c Cache) readyPackage(ctx context.Context, p locked, source Source, own string) (lockfile.Provider, error) {
	none := lockfile.Provider{}
	if _, err := os.Lstat(p.installed); err == nil {
		return none, nil
	}
	pkg, ok := p.offeredPackage(ctx, source)
	if !ok {
		return none, nil
	}
	err := c.givePackage(ctx, p, pkg, own)
	if errors.Is(err, errDamaged) {
		if err = c.dropPackage(p.target(pkg.H1)); err == nil {
			err = c.givePackage(ctx, p, pkg, own)
		}
	}
	if errors.Is(err, errFull) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("plugin cache: %w", err)
	}
	e := p.entry
	if !slices.Contains(e.Hashes, pkg.H1) {
		e.Hashes = append(slices.Clone(e.Hashes), pkg.H1)
	}
	return e, nil
}

// offeredPackage asks the source. False: it refuses, has no hashes, or another package. The lock
// file must have the zh:, or the h1: where Terraform notes that alone: a plan with a changed one is refused.
func (l locked) offeredPackage(ctx context.Context, source Source) (upstream.Package, bool) {
	pkg, err := source.Package(ctx, l.entry.Address, l.entry.Version, addr.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH})
	if err != nil {
		return pkg, false
	}
	_, ok := hexOf(pkg.H1)
	return pkg, ok && (slices.Contains(l.entry.Hashes, "zh:"+pkg.Zh) || slices.Contains(l.entry.Hashes, pkg.H1))
}

// target returns the folder of a package in the cache, for a hash that [hexOf] accepts.
func (l locked) target(h1 string) string {
	hash, _ := hexOf(h1)
	return filepath.Join(l.cached, hash)
}

// errDamaged says that a package does not match its hash, or cannot be read.
var errDamaged = errors.New("a package is damaged")

// givePackage fetches what is missing, links and hashes it. If that fails, own is empty.
func (c Cache) givePackage(ctx context.Context, l locked, pkg upstream.Package, own string) error {
	if err := c.fetch(ctx, l, pkg); err != nil {
		return err
	}
	target := l.target(pkg.H1)
	removeLock := c.removeLock()
	if _, err := removeLock.TryRLockContext(ctx, 10*time.Millisecond); err != nil {
		return err
	}
	err := errors.Join(linkTree(target, own), removeLock.Close())
	if err == nil {
		now := time.Now()
		_ = os.Chtimes(target, now, now) // if this fails, the package is only removed earlier
		err = verifyPackage(own, pkg.H1)
	}
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*os.LinkError](err); !ok || errors.Is(err, fs.ErrNotExist) { // other link errors are those of the file system
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return errors.Join(err, os.RemoveAll(own))
}

// checkModes refuses packages that the user of a tool cannot read, or whose program cannot run.
func checkModes(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o444)
		if e.IsDir() || isProgram(e.Name()) {
			want = 0o555
		}
		if info.Mode()&want != want {
			return fmt.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
}

// isProgram distinguishes the provider from the files beside it, as the tools do.
func isProgram(name string) bool { return strings.HasPrefix(name, "terraform-provider-") }

// verifyPackage checks the h1 hash of a package.
func verifyPackage(dir, h1 string) error {
	if err := errors.Join(onlyFiles(dir), checkModes(dir)); err != nil {
		return err
	}
	now, err := dirhash.HashDir(dir, "", dirhash.Hash1)
	if err == nil && now != h1 {
		err = fmt.Errorf("a package has %s and not %s", now, h1)
	}
	return err
}

// tempDir makes a temporary folder beside the cache, where a later call finds leftovers.
func (c Cache) tempDir() (dir string, remove func() error, err error) {
	all := filepath.Join(c.dir, partialFolder)
	if err := os.MkdirAll(all, 0o700); err != nil {
		return "", nil, err
	}
	return files.TempDir(all)
}

// partialFolder is beside the folders of hosts, whose names do not begin with a dot.
const partialFolder = ".partial"

// dropPackage removes a package from the cache, atomically.
func (c Cache) dropPackage(target string) (err error) {
	aside, remove, err := c.tempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := os.Rename(target, filepath.Join(aside, "package")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // another process was faster
}

// fetch downloads a package into the cache, one process at a time; errFull: no room.
func (c Cache) fetch(ctx context.Context, l locked, pkg upstream.Package) (err error) {
	target := l.target(pkg.H1)
	if isFolder(target) {
		return nil
	}
	if err := os.MkdirAll(l.cached, 0o700); err != nil {
		return err
	}
	removeLock := flock.New(filepath.Join(l.cached, "lock"), flock.SetPermissions(0o600))
	if _, err := removeLock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeLock.Close()) }()
	if isFolder(target) {
		return nil
	}
	if err := c.dropPackage(target); err != nil { // a file or a link
		return err
	}
	if _, held := c.packages(); c.maxBytes > 0 && held >= c.maxBytes {
		return errFull
	}
	if err := c.fetchTo(ctx, pkg, target); err != nil {
		return fmt.Errorf("plugin cache: %w", err)
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// fetchTo downloads a package, verifies the zip, unpacks it and verifies the result.
func (c Cache) fetchTo(ctx context.Context, pkg upstream.Package, target string) (err error) {
	partial, remove, err := c.tempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	zip, done, err := files.TempFile(partial)
	if err != nil {
		return err
	}
	defer done()
	_, size, err := depot.FetchPackage(ctx, pkg, zip)
	if err != nil {
		return err
	}
	whole := filepath.Join(partial, "package")
	if err := os.Mkdir(whole, 0o755); err != nil {
		return err
	}
	if err := archive.Unpack(ctx, zip, size, whole, signing.PackageLimits()); err != nil {
		return err
	}
	if err := errors.Join(makeReadable(whole), verifyPackage(whole, pkg.H1)); err != nil {
		return err
	}
	return c.admitPackage(ctx, whole, target)
}

// makeReadable lets every user read and run a folder's contents, whatever the umask.
func makeReadable(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Mode()&0o100 != 0 || isProgram(e.Name()) { // folders, too
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
}

// errFull says that packages in use by runs fill the cache up to its limit.
var errFull = errors.New("packages in use by runs fill the cache up to its limit")

// removeLock is held to remove packages, and shared to begin to use some.
func (c Cache) removeLock() *flock.Flock {
	return flock.New(filepath.Join(c.dir, "lock"), flock.SetPermissions(0o600))
}

// admitPackage moves a package to its final path, after making room for it.
func (c Cache) admitPackage(ctx context.Context, whole, target string) (err error) {
	removeLock := c.removeLock()
	if _, err := removeLock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeLock.Close()) }()
	if err := c.trim(sizeOf(whole)); err != nil {
		return err
	}
	return moveTo(whole, target)
}

// trim makes room for size bytes by removing the least recently used. What runs use stays and
// counts; at the limit: errFull. Else one package may exceed it.
func (c Cache) trim(size int64) error {
	if c.maxBytes <= 0 {
		return nil
	}
	all, held := c.packages()
	if held >= c.maxBytes {
		return errFull
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.dir, b.dir)) })
	var errs []error
	total := held + size
	for _, k := range all {
		switch {
		case k.held:
		case total+k.size <= c.maxBytes:
			total += k.size
		default:
			errs = append(errs, c.dropPackage(k.dir))
		}
	}
	return errors.Join(errs...)
}

// kept is a package in the cache.
type kept struct {
	dir  string
	size int64 // bytes
	used time.Time
	held bool // by a run, through hard links
}

// packages lists the packages in the cache, and adds up the sizes of those in use by runs.
func (c Cache) packages() (all []kept, held int64) {
	names, _ := fs.Glob(os.DirFS(c.dir), "*/*/*/*/*/*") // the pattern is valid
	for _, name := range names {
		dir := filepath.Join(c.dir, filepath.FromSlash(name))
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || len(filepath.Base(dir)) != 64 || strings.HasPrefix(name, partialFolder+"/") {
			continue
		}
		k := kept{dir: dir, used: info.ModTime()}
		k.size, k.held = measureFolder(dir)
		if all = append(all, k); k.held {
			held += k.size
		}
	}
	return all, held
}

// sizeOf adds up the sizes of the files below a folder, in bytes.
func sizeOf(dir string) int64 {
	size, _ := measureFolder(dir)
	return size
}

// measureFolder adds up file sizes below a folder, in bytes, and tells of other hard links.
func measureFolder(dir string) (size int64, held bool) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error { // files that disappear meanwhile do not count
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				size += info.Size()
				held = held || isLinked(info)
			}
		}
		return nil
	})
	return size, held
}
