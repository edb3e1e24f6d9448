// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// BlobOptions configures the archive cache on this machine.
type BlobOptions struct {
	Dir   string // created if needed; processes may share it
	Bytes int64  // maximum size of the cache; 0: no cache
}

// touchAfter is how long a file is used before its time, the order of use, is updated.
const touchAfter = time.Minute

// fetchStall ends a fetch whose registry sends no byte for that long.
const fetchStall = 60 * time.Second

var (
	errStalled = errors.New("the registry sent nothing")
	errPanic   = errors.New("panic")
)

// Blob identifies a cached blob, once for each repository: a manifest may name a digest that its
// author cannot read.
type Blob struct {
	Repository string
	Hex        string // SHA-256 of the bytes
}

// name returns the blob's file name, by a hash of the repository's: none chooses another's file.
func (b Blob) name() string {
	sum := sha256.Sum256([]byte(b.Repository))
	return b.Hex + "." + hex.EncodeToString(sum[:16])
}

// isName reports whether a file belongs to the cache.
func isName(s string) bool {
	digest, repository, ok := strings.Cut(s, ".")
	return ok && isHex(digest, 64) && isHex(repository, 32)
}

func isHex(s string, size int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == size
}

// Blobs caches blobs by repository and digest, up to a limit, the least recently used removed.
// Identical misses share a fetch and its growing file. It is safe for concurrent use.
type Blobs struct {
	dir   string
	limit int64
	stall time.Duration // a fetch without a byte for that long ends
	log   *slog.Logger
	count func(result string) // hit, miss, coalesced

	mu       sync.Mutex               // guards the fields below
	files    map[string]*list.Element // by the name of the file
	order    *list.List               // of *blobFile, most recently used first
	bytes    int64                    // of files
	fetches  map[string]*blobFetch    // by the name of the file
	fetching int64                    // bytes of fetches
}

type blobFile struct {
	name  string
	size  int64
	used  time.Time // time of the file
	whole bool      // its bytes matched its digest when its time was used
}

// blobFetch is a running fetch. The fields are set when opened is closed.
type blobFetch struct {
	size   int64
	opened chan struct{}
	spool  *Spool
	to     *url.URL // address to which the registry redirects readers
	err    error
}

// Opener reads a blob from its start, or returns where the registry redirects to. The context is
// the fetch's.
type Opener func(ctx context.Context) (io.ReadCloser, *url.URL, error)

// NewBlobs opens a directory, and removes a crash's remains. Without a limit it returns nil.
func NewBlobs(o BlobOptions, log *slog.Logger, count func(result string)) (*Blobs, error) {
	if o.Bytes <= 0 {
		return nil, nil
	}
	c := &Blobs{
		dir: o.Dir, limit: o.Bytes, stall: fetchStall, log: log, count: count,
		files: map[string]*list.Element{}, order: list.New(), fetches: map[string]*blobFetch{},
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the blob cache: %w", err)
	}
	known, err := c.scan()
	if err != nil {
		return nil, fmt.Errorf("open the blob cache: %w", err)
	}
	slices.SortFunc(known, func(a, b *blobFile) int { return cmp.Compare(a.used.UnixNano(), b.used.UnixNano()) })
	for _, f := range known {
		c.insert(f)
	}
	c.makeRoom(0)
	return c, nil
}

func (c *Blobs) scan() ([]*blobFile, error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	var known []*blobFile
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), strings.TrimSuffix(spoolPattern, "*")) || isHex(e.Name(), 64) { // the latter were written by an older version, without a repository
			if err := os.Remove(filepath.Join(c.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		info, err := e.Info()
		if err != nil || !isName(e.Name()) || !info.Mode().IsRegular() {
			continue // not a file of the cache, or removed meanwhile
		}
		known = append(known, &blobFile{name: e.Name(), size: info.Size(), used: info.ModTime()})
	}
	return known, nil
}

func (c *Blobs) path(name string) string { return filepath.Join(c.dir, name) }

// Open returns a blob's file and, while that grows, its spool. A miss at the start of a blob starts
// a fetch. If it is not and will not be cached, for lack of space or a part alone, the file is nil:
// the caller reads from the registry.
func (c *Blobs) Open(ctx context.Context, b Blob, size, offset int64, opener Opener) (*os.File, *Spool, *url.URL, error) {
	name := b.name()
	c.mu.Lock()
	if f, whole := c.keptFile(name, size); f != nil {
		c.mu.Unlock()
		if whole || c.checkDigest(f, b) {
			c.count("hit")
			return f, nil, nil, nil
		}
		c.mu.Lock()
	}
	fetch, running := c.fetches[name]
	if !running {
		if offset > 0 || !c.makeRoom(size) {
			c.mu.Unlock()
			return nil, nil, nil, nil
		}
		fetch = &blobFetch{size: size, opened: make(chan struct{})}
		c.fetches[name] = fetch
		c.fetching += size
		go c.fetch(context.WithoutCancel(ctx), b, fetch, opener)
	}
	c.mu.Unlock()
	if running {
		c.count("coalesced")
	} else {
		c.count("miss")
	}
	select {
	case <-fetch.opened:
	case <-ctx.Done():
		return nil, nil, nil, fmt.Errorf("wait for the registry: %w", context.Cause(ctx))
	}
	if fetch.err != nil || fetch.to != nil || fetch.spool == nil || !fetch.spool.hasBytes(offset) {
		return nil, nil, fetch.to, fetch.err
	}
	f, err := fetch.spool.Open()
	if err != nil {
		return nil, nil, nil, nil // the fetch has just failed
	}
	return f, fetch.spool, nil, nil
}

// Size returns the size of a complete file.
func (c *Blobs) Size(b Blob) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.files[b.name()]
	if !ok {
		return 0, false
	}
	return el.Value.(*blobFile).size, true
}

// keptFile returns a complete file, or nil, and whether its digest is known to match in this
// process. mu is held.
func (c *Blobs) keptFile(name string, size int64) (f *os.File, whole bool) {
	el, ok := c.files[name]
	if !ok {
		return nil, false
	}
	file := el.Value.(*blobFile)
	if file.size != size {
		c.removeFile(el) // damaged
		return nil, false
	}
	f, err := os.Open(c.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		c.removeFile(el) // another process removed it
	}
	if err != nil {
		return nil, false
	}
	c.order.MoveToFront(el)
	file.whole = file.whole && file.used.Equal(timeOf(f))
	if now := time.Now(); now.Sub(file.used) > touchAfter {
		_ = os.Chtimes(c.path(name), time.Time{}, now) // a failure only affects the order after a restart
		file.used = timeOf(f)
	}
	return f, file.whole
}

// timeOf returns when a file was written; zero if unknown.
func timeOf(f *os.File) time.Time {
	info, err := f.Stat()
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// checkDigest compares a file with its digest. It closes and removes a damaged file.
func (c *Blobs) checkDigest(f *os.File, b Blob) bool {
	written := timeOf(f)
	sum := sha256.New()
	_, err := io.Copy(sum, f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	whole := err == nil && hex.EncodeToString(sum.Sum(nil)) == b.Hex
	c.mu.Lock()
	defer c.mu.Unlock()
	el, known := c.files[b.name()]
	switch {
	case whole && known:
		file := el.Value.(*blobFile)
		file.whole = file.used.Equal(written)
	case !whole && known:
		c.log.Error("removed a damaged file from the blob cache", "repository", b.Repository, "digest", "sha256:"+b.Hex, "error", err)
		c.removeFile(el)
	}
	if !whole {
		_ = f.Close() // opened only for reading
	}
	return whole
}

// makeRoom removes files, open ones too, until one of this size fits, and reports that. mu is held.
func (c *Blobs) makeRoom(size int64) bool {
	if size+c.fetching > c.limit {
		return false
	}
	for size+c.fetching+c.bytes > c.limit {
		c.removeFile(c.order.Back())
	}
	return true
}

// insert adds a file. The caller must hold mu.
func (c *Blobs) insert(f *blobFile) {
	if el, ok := c.files[f.name]; ok {
		c.order.Remove(el)
		c.bytes -= el.Value.(*blobFile).size
	}
	c.files[f.name] = c.order.PushFront(f)
	c.bytes += f.size
}

// removeFile deletes a file. The caller must hold mu.
func (c *Blobs) removeFile(el *list.Element) {
	f := c.order.Remove(el).(*blobFile)
	delete(c.files, f.name)
	c.bytes -= f.size
	if err := os.Remove(c.path(f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("blob not removed from the cache", "file", f.name, "error", err)
	}
}

// fetch runs to its end even if all readers have left.
func (c *Blobs) fetch(ctx context.Context, b Blob, f *blobFetch, opener Opener) {
	err := c.fill(ctx, b, f, opener)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fetches, b.name())
	c.fetching -= f.size
	switch {
	case err != nil:
		c.log.Warn("blob not cached", "repository", b.Repository, "digest", "sha256:"+b.Hex, "error", err)
	case f.spool != nil:
		file := &blobFile{name: b.name(), size: f.size, used: time.Now()}
		if info, err := os.Stat(c.path(file.name)); err == nil {
			file.used = info.ModTime()
			file.whole = true // the spool has verified it
		}
		c.insert(file)
	}
}

func (c *Blobs) fill(ctx context.Context, b Blob, f *blobFetch, opener Opener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(c.stall, func() { cancel(fmt.Errorf("%w for %s", errStalled, c.stall)) })
	defer watch.Stop()
	body, err := c.beginFetch(ctx, b, f, opener)
	if err != nil || body == nil {
		return err
	}
	defer body.Close()
	err = Pump(f.spool, body, func(int) error { watch.Reset(c.stall); return nil })
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err := f.spool.Finish(err); err != nil {
		return err
	}
	return f.spool.moveTo(c.path(b.name()))
}

// beginFetch opens blob and file, and tells readers. Neither error nor body: a redirect.
func (c *Blobs) beginFetch(ctx context.Context, b Blob, f *blobFetch, opener Opener) (body io.ReadCloser, err error) {
	defer close(f.opened)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
			f.err = err
		}
	}()
	body, f.to, f.err = opener(ctx)
	if f.err != nil || f.to != nil {
		return nil, f.err
	}
	if f.spool, err = NewSpool(c.dir, b.Hex); err != nil {
		f.spool = nil // the waiting readers read from the registry
		return nil, errors.Join(err, body.Close())
	}
	return body, nil
}

// Pump copies, calling moved before each piece is written; its error ends the copy. A panic becomes
// an error for readers: the goroutine is its own.
func Pump(to io.Writer, from io.Reader, moved func(n int) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	buffer := make([]byte, pumpBuffer)
	for {
		n, err := io.ReadAtLeast(from, buffer, 1)
		if n > 0 {
			if merr := moved(n); merr != nil {
				return merr
			}
			if _, werr := to.Write(buffer[:n]); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// pumpBuffer is the size, in bytes, of the pieces in which a file grows.
const pumpBuffer = 256 << 10
