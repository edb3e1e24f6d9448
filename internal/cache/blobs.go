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

// BlobOptions says where archives are kept on this machine.
type BlobOptions struct {
	Dir   string // made if needed; processes may share it
	Bytes int64  // the most it may hold, 0: nothing is kept
}

// touchAfter is how long a file is used before its time says so. Its time is
// what the order of use is known by after a restart.
const touchAfter = time.Minute

// fetchStall ends a fetch whose registry sends no byte for so long.
const fetchStall = 60 * time.Second

var (
	errStalled = errors.New("the registry sent nothing")
	errPanic   = errors.New("panic")
)

// Blob is the place of a blob. One that two repositories have is kept twice: a
// manifest may name the digest of what its author cannot read, so nothing that was
// read from one repository is given to those who ask for it in another.
type Blob struct {
	Repository string
	Hex        string // SHA-256 of the bytes
}

// name is that of its file. Names of repositories are long and have slashes, and
// whoever makes one must not meet the file of another.
func (b Blob) name() string {
	sum := sha256.Sum256([]byte(b.Repository))
	return b.Hex + "." + hex.EncodeToString(sum[:16])
}

// isName reports whether a file is one of the cache's.
func isName(s string) bool {
	digest, repository, ok := strings.Cut(s, ".")
	return ok && isHex(digest, 64) && isHex(repository, 32)
}

func isHex(s string, size int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == size
}

// Blobs keeps blobs in a folder by repository and digest; the least recently used
// go when there are too many bytes. Identical misses are one fetch, whose readers
// follow the growing file. It is safe for concurrent use.
type Blobs struct {
	dir   string
	limit int64
	stall time.Duration // a fetch without a byte for so long ends
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
	used  time.Time // as the file has it
	whole bool      // its bytes were compared with its digest, and used was its time then
}

// blobFetch is a fetch that runs. The fields are set when opened is closed.
type blobFetch struct {
	size   int64
	opened chan struct{}
	spool  *Spool
	to     *url.URL // the registry sends readers there
	err    error
}

// Opener begins to read a blob at its start, or returns where the registry
// sends readers. The context is that of the fetch, which no request owns.
type Opener func(ctx context.Context) (io.ReadCloser, *url.URL, error)

// NewBlobs opens a folder, and removes what a crash may have left in it.
// Where nothing is to be kept it returns nil.
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
		if strings.HasPrefix(e.Name(), strings.TrimSuffix(spoolPattern, "*")) || isHex(e.Name(), 64) { // the latter without a repository, by an older version
			if err := os.Remove(filepath.Join(c.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		info, err := e.Info()
		if err != nil || !isName(e.Name()) || !info.Mode().IsRegular() {
			continue // not ours, or gone again
		}
		known = append(known, &blobFile{name: e.Name(), size: info.Size(), used: info.ModTime()})
	}
	return known, nil
}

func (c *Blobs) path(name string) string { return filepath.Join(c.dir, name) }

// Open returns the file of a blob; if it is still growing, with the spool that
// says how far it can be read. A miss at the start of a blob begins a fetch. If
// the blob is not and will not be here, for want of room or because only a
// part of it is asked for, the file is nil and the registry is to be asked.
func (c *Blobs) Open(ctx context.Context, b Blob, size, offset int64, opener Opener) (*os.File, *Spool, *url.URL, error) {
	name := b.name()
	c.mu.Lock()
	if f, whole := c.kept(name, size); f != nil {
		c.mu.Unlock()
		if whole || c.check(f, b) {
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
	if fetch.err != nil || fetch.to != nil || fetch.spool == nil || !fetch.spool.has(offset) {
		return nil, nil, fetch.to, fetch.err
	}
	f, err := fetch.spool.Open()
	if err != nil {
		return nil, nil, nil, nil // the fetch has just failed
	}
	return f, fetch.spool, nil, nil
}

// Size is that of a file that is complete.
func (c *Blobs) Size(b Blob) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.files[b.name()]
	if !ok {
		return 0, false
	}
	return el.Value.(*blobFile).size, true
}

// kept returns a file that is complete, or nil, and whether its bytes are known to be those
// of its digest: a file of a process before, or one that somebody has written to since, is
// to be checked. It needs mu.
func (c *Blobs) kept(name string, size int64) (f *os.File, whole bool) {
	el, ok := c.files[name]
	if !ok {
		return nil, false
	}
	file := el.Value.(*blobFile)
	if file.size != size {
		c.remove(el) // damaged
		return nil, false
	}
	f, err := os.Open(c.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		c.remove(el) // another process made room
	}
	if err != nil {
		return nil, false
	}
	c.order.MoveToFront(el)
	file.whole = file.whole && file.used.Equal(timeOf(f))
	if now := time.Now(); now.Sub(file.used) > touchAfter {
		_ = os.Chtimes(c.path(name), time.Time{}, now) // the order after a restart is a little worse
		file.used = timeOf(f)
	}
	return f, file.whole
}

// timeOf is when a file was written; zero: nobody knows.
func timeOf(f *os.File) time.Time {
	info, err := f.Stat()
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// check compares a file with its digest. It closes and removes a damaged one.
func (c *Blobs) check(f *os.File, b Blob) bool {
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
		c.log.Error("a damaged file is removed from the blob cache", "repository", b.Repository, "digest", "sha256:"+b.Hex, "error", err)
		c.remove(el)
	}
	if !whole {
		_ = f.Close() // it was only read
	}
	return whole
}

// makeRoom removes files until there is room for one more of this size, and reports
// whether there is. Readers of what is removed have it open. It needs mu.
func (c *Blobs) makeRoom(size int64) bool {
	if size+c.fetching > c.limit {
		return false
	}
	for size+c.fetching+c.bytes > c.limit {
		c.remove(c.order.Back())
	}
	return true
}

// insert needs mu.
func (c *Blobs) insert(f *blobFile) {
	if el, ok := c.files[f.name]; ok {
		c.order.Remove(el)
		c.bytes -= el.Value.(*blobFile).size
	}
	c.files[f.name] = c.order.PushFront(f)
	c.bytes += f.size
}

// remove needs mu.
func (c *Blobs) remove(el *list.Element) {
	f := c.order.Remove(el).(*blobFile)
	delete(c.files, f.name)
	c.bytes -= f.size
	if err := os.Remove(c.path(f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("blob not removed from the cache", "file", f.name, "error", err)
	}
}

// fetch runs to its end whoever waits for it.
func (c *Blobs) fetch(ctx context.Context, b Blob, f *blobFetch, opener Opener) {
	err := c.fill(ctx, b, f, opener)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fetches, b.name())
	c.fetching -= f.size
	switch {
	case err != nil:
		c.log.Warn("blob not kept", "repository", b.Repository, "digest", "sha256:"+b.Hex, "error", err)
	case f.spool != nil:
		file := &blobFile{name: b.name(), size: f.size, used: time.Now()}
		if info, err := os.Stat(c.path(file.name)); err == nil {
			file.used = info.ModTime()
			file.whole = true // the spool has compared it
		}
		c.insert(file)
	}
}

func (c *Blobs) fill(ctx context.Context, b Blob, f *blobFetch, opener Opener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(c.stall, func() { cancel(fmt.Errorf("%w for %s", errStalled, c.stall)) })
	defer watch.Stop()
	body, err := c.begin(ctx, b, f, opener)
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
	return f.spool.keep(c.path(b.name()))
}

// begin opens the blob and the file, and lets the waiting know. Neither an
// error nor a body: the registry redirects.
func (c *Blobs) begin(ctx context.Context, b Blob, f *blobFetch, opener Opener) (body io.ReadCloser, err error) {
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
		f.spool = nil // those who wait ask the registry themselves
		return nil, errors.Join(err, body.Close())
	}
	return body, nil
}

// Pump copies with a large buffer and reports each piece to moved before it is
// written; an error of that ends the copy. A panic is an error of those who read
// the copy: it happens in a goroutine of its own, where it would end the process.
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

// pumpBuffer is the size of the pieces in which a file grows.
const pumpBuffer = 256 << 10
