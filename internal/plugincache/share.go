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

// Source tells whoever asks where a package is that he may have, and its hashes.
type Source interface {
	Package(ctx context.Context, p addr.Provider, v addr.Version, t addr.Platform) (upstream.Package, error)
}

// Share is how a tool gets packages that must not change them.
type Share struct {
	Source Source // as the tool may ask it
	Dir    string // of this tool alone, and there already: it gets hard links
	Shown  string // name of Dir where the tool runs
}

// maxShared bounds what one lock file gets: each provider is a request.
const maxShared = 100

// Within returns the cache with a limit in bytes: what was not used for the longest time
// goes when more is fetched. What runs hold counts and stays. Over the limit is one package
// at most, and what is being unpacked.
func (c Cache) Within(maxBytes int64) Cache {
	c.maxBytes = maxBytes
	return c
}

// Share makes links to the packages that the module's lock file names and the source has,
// and returns how many. What the cache lacks is fetched, and all of it is hashed: a
// package that was damaged is fetched anew. A lock file that has the package's zh: alone
// gets its h1: too, as the tool would add it. An error leaves the rest to the tool, as does
// the limit.
func (c Cache) Share(ctx context.Context, m Module, s Share) (shared int, err error) {
	lock, packages, err := c.locked(m)
	if err != nil || len(packages) > maxShared {
		return 0, err
	}
	entries := make([]lockfile.Provider, len(packages)) // whose packages are ready
	errs := each(packages, func(i int, p locked) (err error) {
		entries[i], err = c.ready(ctx, p, s.Source, filepath.Join(s.Dir, strconv.Itoa(i)))
		return err
	})
	if err := complete(m, lock, entries); err != nil {
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

// complete writes the hashes that the entries have more than the lock file.
func complete(m Module, lock *lockfile.File, entries []lockfile.Provider) error {
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
	return errors.Join(each(c.named(lock, ""), func(_ int, p locked) error {
		if _, ok := p.kept(); ok {
			return nil
		}
		if pkg, ok := p.offered(ctx, source); ok {
			if err := c.fetch(ctx, p, pkg); !errors.Is(err, errFull) {
				return err
			}
		}
		return nil
	})...)
}

// ready puts hard links to a package into own, where its files are hashed: what others do
// with the cache meanwhile does not matter. It returns the entry with the h1: of the
// package; the zero entry if the tool has the package, or is to get it for itself.
func (c Cache) ready(ctx context.Context, p locked, source Source, own string) (lockfile.Provider, error) {
	none := lockfile.Provider{}
	if _, err := os.Lstat(p.installed); err == nil {
		return none, nil
	}
	pkg, ok := p.offered(ctx, source)
	if !ok {
		return none, nil
	}
	err := c.give(ctx, p, pkg, own)
	if errors.Is(err, errDamaged) {
		if err = c.drop(p.target(pkg.H1)); err == nil {
			err = c.give(ctx, p, pkg, own)
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

// offered asks the source for the package. It is none if the source does not let have it,
// does not tell its hashes, or has another one than the lock file. That must have the zh:,
// since the tool adds it otherwise, and a plan is refused whose lock file was another one.
func (l locked) offered(ctx context.Context, source Source) (upstream.Package, bool) {
	pkg, err := source.Package(ctx, l.entry.Address, l.entry.Version, addr.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH})
	if err != nil {
		return pkg, false
	}
	_, ok := hexOf(pkg.H1)
	return pkg, ok && slices.Contains(l.entry.Hashes, "zh:"+pkg.Zh)
}

// target is the folder of a package in the cache, by a hash that [hexOf] takes.
func (l locked) target(h1 string) string {
	hash, _ := hexOf(h1)
	return filepath.Join(l.cached, hash)
}

// errDamaged says that a package has not the hash by which it is kept, or cannot be read.
var errDamaged = errors.New("a package is damaged")

// give fetches what the cache lacks, and makes hard links to it that are hashed. What
// cannot be linked or read is damaged, or was removed meanwhile; nothing is in own then.
func (c Cache) give(ctx context.Context, l locked, pkg upstream.Package, own string) error {
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
		_ = os.Chtimes(target, now, now) // one that cannot be marked as used goes early
		err = verify(own, pkg.H1)
	}
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*os.LinkError](err); !ok || errors.Is(err, fs.ErrNotExist) { // else it is the file system
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return errors.Join(err, os.RemoveAll(own))
}

// modes refuses a package that the user of a tool cannot read, or whose program not run.
func modes(dir string) error {
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

// verify hashes a package.
func verify(dir, h1 string) error {
	if err := errors.Join(onlyFiles(dir), modes(dir)); err != nil {
		return err
	}
	now, err := dirhash.HashDir(dir, "", dirhash.Hash1)
	if err == nil && now != h1 {
		err = fmt.Errorf("a package has %s and not %s", now, h1)
	}
	return err
}

// tempDir makes a temporary folder on the file system of the cache. All are in one place,
// so that the next one removes what a killed process left.
func (c Cache) tempDir() (dir string, remove func() error, err error) {
	all := filepath.Join(c.dir, partialFolder)
	if err := os.MkdirAll(all, 0o700); err != nil {
		return "", nil, err
	}
	return files.TempDir(all)
}

// partialFolder is beside the folders of hosts, which have another name.
const partialFolder = ".partial"

// drop removes a package from the cache, at one stroke.
func (c Cache) drop(target string) (err error) {
	aside, remove, err := c.tempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := os.Rename(target, filepath.Join(aside, "package")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // somebody was faster
}

// fetch gets a package into the cache, unless it is there. Of several processes one does.
// It fails with errFull if there is no room.
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
	if err := c.drop(target); err != nil { // a file or a link
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

// fetchTo downloads a package, verifies the zip, unpacks it and verifies what came of it.
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
	if err := errors.Join(readable(whole), verify(whole, pkg.H1)); err != nil {
		return err
	}
	return c.admit(ctx, whole, target)
}

// readable lets the user of a tool read and run what is in a folder, whatever this
// process's umask is. Who may enter the folders above decides who can.
func readable(dir string) error {
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

// errFull says that runs hold all that there may be in the cache.
var errFull = errors.New("runs hold as much as the cache may have")

// removeLock is the lock of those who remove packages, against those who begin to hold some.
func (c Cache) removeLock() *flock.Flock {
	return flock.New(filepath.Join(c.dir, "lock"), flock.SetPermissions(0o600))
}

// admit moves a package to its place, once there is room for it.
func (c Cache) admit(ctx context.Context, whole, target string) (err error) {
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

// trim makes room for a package of so many bytes: what was used least recently goes. What
// runs hold stays and counts, since the disk has it as long as they do. If that is as much
// as the limit, trim fails with errFull; else one package may be over it.
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
			errs = append(errs, c.drop(k.dir))
		}
	}
	return errors.Join(errs...)
}

// kept is a package in the cache.
type kept struct {
	dir  string
	size int64 // bytes
	used time.Time
	held bool // by a run, which has hard links
}

// packages lists what is in the cache, and adds up what runs hold.
func (c Cache) packages() (all []kept, held int64) {
	names, _ := fs.Glob(os.DirFS(c.dir), "*/*/*/*/*/*") // the pattern is a good one
	for _, name := range names {
		dir := filepath.Join(c.dir, filepath.FromSlash(name))
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || len(filepath.Base(dir)) != 64 || strings.HasPrefix(name, partialFolder+"/") {
			continue
		}
		k := kept{dir: dir, used: info.ModTime()}
		k.size, k.held = measure(dir)
		if all = append(all, k); k.held {
			held += k.size
		}
	}
	return all, held
}

// sizeOf adds up the files below a folder, in bytes.
func sizeOf(dir string) int64 {
	size, _ := measure(dir)
	return size
}

// measure adds up the files below a folder, in bytes, and reports whether one of them has
// another name elsewhere.
func measure(dir string) (size int64, held bool) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error { // what goes meanwhile has none
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				size += info.Size()
				held = held || linked(info)
			}
		}
		return nil
	})
	return size, held
}
