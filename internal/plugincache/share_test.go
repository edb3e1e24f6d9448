// SPDX-License-Identifier: Apache-2.0

package plugincache_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/plugincache"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// origin has the same package for each provider, such as acme/dns.
type origin struct {
	zip    []byte
	zh, h1 string
	denied atomic.Bool
	opened atomic.Int64
}

func newOrigin(t *testing.T, program string) *origin {
	t.Helper()
	o := &origin{zip: depottest.NewZip(t, depottest.File("terraform-provider-dns", program, 0o755), depottest.File("docs/LICENSE", "MIT", 0o600))}
	sum := sha256.Sum256(o.zip)
	o.zh = hex.EncodeToString(sum[:])
	z, err := zip.NewReader(bytes.NewReader(o.zip), int64(len(o.zip)))
	if err != nil {
		t.Fatal(err)
	}
	if o.h1, err = dirhash.Hash1([]string{"docs/LICENSE", "terraform-provider-dns"}, func(name string) (io.ReadCloser, error) { return z.Open(name) }); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *origin) Package(_ context.Context, _ addr.Provider, _ addr.Version, at addr.Platform) (upstream.Package, error) {
	if o.denied.Load() {
		return upstream.Package{}, oci.ErrDenied
	}
	return upstream.Package{Platform: at, Filename: "dns.zip", Zh: o.zh, H1: o.h1, Open: func(context.Context) (io.ReadCloser, error) {
		o.opened.Add(1)
		return io.NopCloser(bytes.NewReader(o.zip)), nil
	}}, nil
}

// shared makes a module with a lock file of these hashes, and calls Share as a run does.
func shared(t *testing.T, c plugincache.Cache, source plugincache.Source, hashes ...string) (plugincache.Module, int, error) {
	t.Helper()
	dir, own := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, lockfile.Name), fmt.Sprintf("provider \"registry.opentofu.org/acme/dns\" {\n  version = \"1.2.3\"\n  hashes = [\n    \"%s\",\n  ]\n}\n", strings.Join(hashes, "\",\n    \"")))
	m := plugincache.Module{Dir: dir, DataDir: filepath.Join(dir, ".terraform")}
	n, err := c.Share(t.Context(), m, plugincache.Share{Source: source, Dir: own, Shown: own})
	return m, n, err
}

func newCache(t *testing.T) (plugincache.Cache, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache")
	c := must.Get(plugincache.New(dir))(t)
	return c, dir
}

// TestShareRuns fetches once for many runs, with zh:, h1: or both.
func TestShareRuns(t *testing.T) {
	c, dir := newCache(t)
	o := newOrigin(t, "ours")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			m, n, err := shared(t, c, o, [][]string{{"zh:" + o.zh}, {o.h1, "zh:" + o.zh}, {o.h1}}[i%3]...)
			if n != 1 || err != nil {
				t.Error(n, err)
				return
			}
			has(t, m, "ours")
			lock, err := os.ReadFile(filepath.Join(m.Dir, lockfile.Name))
			if err != nil || strings.Count(string(lock), o.h1) != 1 || strings.Contains(string(lock), o.zh) != (i%3 < 2) {
				t.Errorf("%s, %v", lock, err)
			}
		})
	}
	all.Wait()
	if n := o.opened.Load(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	kept, err := filepath.Glob(filepath.Join(dir, place, "*", "*"))
	if len(kept) != 2 || err != nil { // including the lock file
		t.Error(kept, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may look into the cache: %v %v", info, err)
	}
}

// TestShareRefuses: what the source refuses, or the lock file does not name.
func TestShareRefuses(t *testing.T) {
	c, _ := newCache(t)
	o := newOrigin(t, "ours")
	if _, n, err := shared(t, c, o, "zh:"+o.zh); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if m, n, err := shared(t, c, newOrigin(t, "theirs"), "zh:"+o.zh, o.h1); n != 0 || err != nil {
		t.Error("a source gave what it has not:", n, err, m)
	}
	if _, n, err := shared(t, c, o, "zh:"+strings.Repeat("0", 64)); n != 0 || err != nil {
		t.Errorf("the lock file has another hash: %d, %v", n, err)
	}
	o.denied.Store(true)
	if m, n, err := shared(t, c, o, "zh:"+o.zh, o.h1); n != 0 || err != nil {
		t.Error("what the source denies was given:", n, err, m)
	}
}

// TestShareLies: a zip other than reported is not kept.
func TestShareLies(t *testing.T) {
	for name, lie := range map[string]func(o *origin){
		"zip":   func(o *origin) { o.zip = newOrigin(t, "theirs").zip },
		"files": func(o *origin) { o.zip = newOrigin(t, "theirs").zip; o.zh = newOrigin(t, "theirs").zh },
	} {
		t.Run(name, func(t *testing.T) {
			c, dir := newCache(t)
			o := newOrigin(t, "ours")
			lie(o)
			if _, n, err := shared(t, c, o, "zh:"+o.zh); n != 0 || err == nil {
				t.Error(n, err)
			}
			if kept, err := filepath.Glob(filepath.Join(dir, place, "*", "[0-9a-f]*")); len(kept) != 0 || err != nil {
				t.Error(kept, err)
			}
		})
	}
}

// TestShareDamaged: a changed file is fetched again, once.
func TestShareDamaged(t *testing.T) {
	for name, damage := range map[string]func(name string) error{
		"changed":        func(name string) error { return os.WriteFile(name, []byte("bad!"), 0o755) },
		"gone":           os.Remove,
		"a link":         func(name string) error { return errors.Join(os.Remove(name), os.Symlink("/bin/true", name)) },
		"a folder":       func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o755)) },
		"not to be run":  func(name string) error { return os.Chmod(name, 0o644) },
		"not to be read": func(name string) error { return os.Chmod(filepath.Join(filepath.Dir(name), "docs", "LICENSE"), 0o600) },
		"all a file": func(name string) error {
			return errors.Join(os.RemoveAll(filepath.Dir(name)), os.WriteFile(filepath.Dir(name), nil, 0o600))
		},
		"all a link": func(name string) error {
			return errors.Join(os.RemoveAll(filepath.Dir(name)), os.Symlink("/nowhere", filepath.Dir(name)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, dir := newCache(t)
			o := newOrigin(t, "ours")
			if _, n, err := shared(t, c, o, "zh:"+o.zh); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			kept, err := filepath.Glob(filepath.Join(dir, place, "*", "*", "terraform-provider-dns"))
			if len(kept) != 1 || err != nil {
				t.Fatal(kept, err)
			}
			must.Succeed(t, damage(kept[0]))
			for range 2 {
				m, n, err := shared(t, c, o, "zh:"+o.zh)
				if n != 1 || err != nil {
					t.Fatal(n, err)
				}
				has(t, m, "ours")
			}
			if n := o.opened.Load(); n != 2 {
				t.Errorf("fetched %d times", n)
			}
		})
	}
}

// TestShareKilled: the next unpacking removes what a killed process was unpacking.
func TestShareKilled(t *testing.T) {
	c, dir := newCache(t)
	o := newOrigin(t, "ours")
	must.Succeed(t, c.Fill(t.Context(), lockOf(o, "first"), o))
	left := filepath.Join(dir, ".partial", "okara-scratch-1")
	must.Succeed(t, os.Mkdir(left, 0o700))
	write(t, filepath.Join(left, "lock"), "")
	write(t, filepath.Join(left, "files", "package", "terraform-provider-dns"), "half")
	must.Succeed(t, c.Fill(t.Context(), lockOf(o, "second"), o))
	if got := programs(t, filepath.Join(dir, ".partial")); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

// lockOf returns a lock file with these providers, each with the package of the origin.
func lockOf(o *origin, types ...string) []byte {
	var b bytes.Buffer
	for _, name := range types {
		fmt.Fprintf(&b, "provider \"registry.opentofu.org/acme/%s\" {\n  version = \"1.2.3\"\n  hashes = [\"zh:%s\"]\n}\n", name, o.zh)
	}
	return b.Bytes()
}

// hold makes a run with this lock file; it returns the folder of its links, and their number.
func hold(t *testing.T, c plugincache.Cache, source plugincache.Source, lock []byte) (own string, shared int) {
	t.Helper()
	dir, own := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, lockfile.Name), string(lock))
	shared = must.Get(c.Share(t.Context(), plugincache.Module{Dir: dir, DataDir: filepath.Join(dir, ".terraform")}, plugincache.Share{Source: source, Dir: own, Shown: own}))(t)
	return own, shared
}

// programs returns the files of this name below a folder.
func programs(t *testing.T, dir string) (found []string) {
	t.Helper()
	must.Succeed(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "terraform-provider-dns" {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// TestShareBound keeps the last used packages that fit: a large one displaces no small one.
func TestShareBound(t *testing.T) {
	c, dir := newCache(t)
	c = c.Within(120) // each has 3 bytes beside its program
	for age, p := range []struct{ name, program string }{{"new", "ours"}, {"large", strings.Repeat("x", 90)}, {"old", "ours"}} {
		o := newOrigin(t, p.program)
		must.Succeed(t, c.Fill(t.Context(), lockOf(o, p.name), o))
		used := time.Now().Add(-time.Duration(age+1) * time.Hour)
		for _, file := range programs(t, filepath.Join(dir, "registry.opentofu.org", "acme", p.name)) {
			must.Succeed(t, os.Chtimes(filepath.Dir(file), used, used))
		}
	}
	o := newOrigin(t, strings.Repeat("y", 50))
	must.Succeed(t, c.Fill(t.Context(), lockOf(o, "newest"), o))
	for name, want := range map[string]int{"newest": 1, "new": 1, "large": 0, "old": 1} {
		if got := programs(t, filepath.Join(dir, "registry.opentofu.org", "acme", name)); len(got) != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestShareHeld: used packages count and stay; a run gets the limit and one package.
func TestShareHeld(t *testing.T) {
	c, dir := newCache(t)
	o := newOrigin(t, strings.Repeat("x", 97)) // 100 bytes
	c = c.Within(450)
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprint("dns", i))
	}
	first, n := hold(t, c, o, lockOf(o, many...))
	if got := programs(t, first); len(got) != n || n != 5 {
		t.Errorf("the run got %d and holds %q", n, got)
	}
	opened := o.opened.Load()
	second, n := hold(t, c, o, lockOf(o, "other"))
	if got := programs(t, second); n != 0 || len(got) != 0 || o.opened.Load() != opened {
		t.Errorf("another run got %d and holds %q", n, got)
	}
	must.Succeed(t, c.Fill(t.Context(), lockOf(o, "other"), o))
	if got := programs(t, dir); len(got) != 5 {
		t.Errorf("the cache has %q", got)
	}
	must.Succeed(t, os.RemoveAll(first))
	if _, n := hold(t, c, o, lockOf(o, "other")); n != 1 {
		t.Errorf("after it %d", n)
	}
	if got := programs(t, dir); len(got) != 4 {
		t.Errorf("the cache has %q", got)
	}
}
