// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

func mustCache(t *testing.T, dir string, limit int64) *Blobs {
	t.Helper()
	return must.Get(NewBlobs(BlobOptions{Dir: dir, Bytes: limit}, slog.New(slog.DiscardHandler), func(string) {}))(t)
}

// opens is an opener that counts its calls.
type opens struct {
	n    atomic.Int64
	text string
	err  error
}

func (o *opens) open(context.Context) (io.ReadCloser, *url.URL, error) {
	o.n.Add(1)
	if o.err != nil {
		return nil, nil, o.err
	}
	return io.NopCloser(strings.NewReader(o.text)), nil, nil
}

// blobOf identifies the blob of a text in the repository of these tests.
func blobOf(text string) Blob { return Blob{"acme/a", sumOf(text)} }

// get reads a blob through the cache; "" without error: read from the registry.
func (c *Blobs) get(ctx context.Context, text string, o Opener) (string, error) {
	f, s, _, err := c.Open(ctx, blobOf(text), int64(len(text)), 0, o)
	if err != nil || f == nil {
		return "", err
	}
	defer f.Close()
	if s != nil {
		return readSpoolFile(ctx, s, f, 1<<20)
	}
	b, err := io.ReadAll(f)
	return string(b), err
}

// settled waits until no fetch is running.
func (c *Blobs) settled() {
	for {
		c.mu.Lock()
		n := len(c.fetches)
		c.mu.Unlock()
		if n == 0 {
			return
		}
		synctest.Wait()
	}
}

func (c *Blobs) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.files))
}

func (c *Blobs) mustGet(t *testing.T, text string) {
	t.Helper()
	if got, err := c.get(t.Context(), text, (&opens{text: text}).open); err != nil || got != text {
		t.Fatalf("got %d of %d bytes, %v", len(got), len(text), err)
	}
	c.settled()
}

// TestCacheShared: 50 readers miss at once: one fetch, read while it is written.
func TestCacheShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustCache(t, t.TempDir(), 1<<20)
		first, last := strings.Repeat("a", 1000), strings.Repeat("b", 1000)
		in, out := io.Pipe()
		var n atomic.Int64
		open := func(context.Context) (io.ReadCloser, *url.URL, error) { n.Add(1); return in, nil, nil }
		gone, leave := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		readers.Go(func() {
			if _, err := c.get(gone, first+last, open); !errors.Is(err, context.Canceled) {
				t.Errorf("who left: %v", err)
			}
		})
		synctest.Wait() // its request started the fetch
		for range 50 {
			readers.Go(func() {
				if got, err := c.get(t.Context(), first+last, open); err != nil || got != first+last {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			})
		}
		mustWrite(t, out, first)
		mustWrite(t, out, last[:1])
		synctest.Wait()
		leave()
		f, s, _, err := c.Open(t.Context(), blobOf(first+last), 2000, 0, open)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if good, err := s.Readable(t.Context(), 0); err != nil || good < 1000 {
			t.Errorf("%d bytes while the rest is on its way, %v", good, err)
		}
		mustWrite(t, out, last[1:])
		out.Close()
		readers.Wait()
		c.settled()
		if n.Load() != 1 || len(c.names()) != 1 {
			t.Errorf("%d fetches, %d files", n.Load(), len(c.names()))
		}
	})
}

// TestCacheLimit fills the directory, and opens it again as after a restart.
func TestCacheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a, b, d := strings.Repeat("a", 400), strings.Repeat("b", 400), strings.Repeat("d", 400)
		c := mustCache(t, dir, 1000)
		c.mustGet(t, a)
		reader, err := os.Open(c.path(blobOf(a).name()))
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		c.mustGet(t, b)
		for text, age := range map[string]time.Duration{a: 2 * time.Hour, b: time.Hour} {
			at := time.Now().Add(-age)
			must.Succeed(t, os.Chtimes(c.path(blobOf(text).name()), at, at))
		}
		c = mustCache(t, dir, 1000)
		never := &opens{err: errors.New("asked the registry")}
		if got, err := c.get(t.Context(), a, never.open); got != a || err != nil { // now b is the older one
			t.Errorf("after a restart: %d bytes, %v", len(got), err)
		}
		c = mustCache(t, dir, 1000)
		c.mustGet(t, d)
		must.Match(t, "kept", c.names(), slices.Sorted(slices.Values([]string{blobOf(a).name(), blobOf(d).name()})))
		c.mustGet(t, b) // a is removed
		if got, err := io.ReadAll(reader); string(got) != a || err != nil {
			t.Errorf("a reader of what was removed got %d bytes, %v", len(got), err)
		}
		if got, err := c.get(t.Context(), strings.Repeat("e", 1001), never.open); got != "" || err != nil {
			t.Errorf("a blob larger than the cache: %q, %v", got, err)
		}
		var onDisk []string
		for _, e := range must.Fixed(os.ReadDir(dir)) {
			onDisk = append(onDisk, e.Name())
		}
		if diff := cmp.Diff(onDisk, c.names()); diff != "" {
			t.Errorf("on disk - known +:\n%s", diff)
		}
	})
}

// TestCacheFailures checks that only complete blobs are cached.
func TestCacheFailures(t *testing.T) {
	down := errors.New("registry down")
	hung := func(ctx context.Context) (io.ReadCloser, *url.URL, error) {
		in, out := io.Pipe()
		context.AfterFunc(ctx, func() { out.CloseWithError(ctx.Err()) })
		return in, nil, nil
	}
	tests := map[string]struct {
		open Opener
		want error
	}{
		"down":        {(&opens{err: down}).open, down},
		"wrong bytes": {(&opens{text: strings.Repeat("x", 2000)}).open, oci.ErrCorrupt},
		"cut":         {(&opens{text: "te"}).open, oci.ErrCorrupt},
		"no progress": {hung, errStalled},
		"panic":       {func(context.Context) (io.ReadCloser, *url.URL, error) { panic("broken") }, errPanic},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				c := mustCache(t, dir, 1<<20)
				// A later reader has to read from the registry, without an error.
				if got, err := c.get(t.Context(), "text", tt.open); got != "" || err != nil && !errors.Is(err, tt.want) {
					t.Errorf("got %q, %v; want %v", got, err, tt.want)
				}
				c.settled()
				if left := must.Fixed(os.ReadDir(dir)); len(left) != 0 || len(c.names()) != 0 {
					t.Errorf("left behind: %v", left)
				}
				c.mustGet(t, "text") // the next fetch may succeed
			})
		})
	}
}

// TestCacheCrash opens a directory in which another process was killed.
func TestCacheCrash(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".part-123", "notes.txt", sumOf("half")} { // the last without a repository
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600))
	}
	c := mustCache(t, dir, 1000)
	left := must.Fixed(os.ReadDir(dir))
	if len(left) != 1 || left[0].Name() != "notes.txt" || len(c.names()) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestCacheDamaged: a damaged file is read again from the registry; an undamaged one is hashed
// once.
func TestCacheDamaged(t *testing.T) {
	dir := t.TempDir()
	const text = "what the registry has"
	name := filepath.Join(dir, blobOf(text).name())
	damage := func() {
		t.Helper()
		must.Succeed(t, os.WriteFile(name, []byte(strings.Replace(text, "has", "had", 1)), 0o600))
	}
	read := func(c *Blobs, fetches int64) {
		t.Helper()
		o := &opens{text: text}
		if got, err := c.get(t.Context(), text, o.open); err != nil || got != text {
			t.Errorf("got %q, %v", got, err)
		}
		for fetching := true; fetching; {
			c.mu.Lock()
			fetching = len(c.fetches) > 0
			c.mu.Unlock()
		}
		if o.n.Load() != fetches {
			t.Errorf("the registry was asked %d times, want %d", o.n.Load(), fetches)
		}
	}
	c := mustCache(t, dir, 1000)
	read(c, 1)
	read(c, 0)
	damage()
	read(c, 1)
	damage()
	c = mustCache(t, dir, 1000)
	read(c, 1)
	c = mustCache(t, dir, 1000)
	read(c, 0)
	if file := c.order.Front().Value.(*blobFile); !file.whole {
		t.Error("the file is hashed with each download")
	}
}

// TestCacheRepositories asks for one repository's blob under others' names, at any time.
func TestCacheRepositories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = "private bytes"
		dir := t.TempDir()
		c := mustCache(t, dir, 1<<20)
		refused := &opens{err: oci.ErrNotFound}
		others := func(c *Blobs, when string) {
			t.Helper()
			for i, repository := range []string{"acme/b", "acme/a/", "", "acme"} {
				b := Blob{repository, sumOf(text)}
				if f, _, _, err := c.Open(t.Context(), b, int64(len(text)), 0, refused.open); f != nil || !errors.Is(err, oci.ErrNotFound) {
					t.Errorf("%s: %q opened %v, %v", when, repository, f, err)
				}
				if _, ok := c.Size(b); ok {
					t.Errorf("%s: the size is known in %q", when, repository)
				}
				if n := refused.n.Swap(0); n != 1 {
					t.Errorf("%s: question %d asked the registry %d times", when, i, n)
				}
			}
		}
		in, out := io.Pipe()
		var reader sync.WaitGroup
		reader.Go(func() {
			if got, err := c.get(t.Context(), text, func(context.Context) (io.ReadCloser, *url.URL, error) { return in, nil, nil }); err != nil || got != text {
				t.Errorf("its reader got %q, %v", got, err)
			}
		})
		mustWrite(t, out, text)
		others(c, "on its way")
		out.Close()
		reader.Wait()
		c.settled()
		others(c, "kept")
		c = mustCache(t, dir, 1<<20)
		others(c, "after a restart")
		if size, ok := c.Size(blobOf(text)); !ok || size != int64(len(text)) {
			t.Errorf("in its own repository: %d, %v", size, ok)
		}
		if got, err := c.get(t.Context(), text, refused.open); got != text || err != nil {
			t.Errorf("in its own repository: %q, %v", got, err)
		}
	})
}
