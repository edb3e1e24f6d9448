// SPDX-License-Identifier: Apache-2.0

package plugincache_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/plugincache"
)

const place = "registry.opentofu.org/acme/dns/1.2.3/"

func platform() string { return runtime.GOOS + "_" + runtime.GOARCH }

func write(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o755)))
}

// installed returns a module into which an init has installed acme/dns 1.2.3 with this program.
func installed(t *testing.T, program string) plugincache.Module {
	t.Helper()
	dir := t.TempDir()
	m := plugincache.Module{Dir: dir, DataDir: filepath.Join(dir, ".terraform")}
	at := filepath.Join(m.DataDir, "providers", place, platform())
	write(t, filepath.Join(at, "terraform-provider-dns"), program)
	write(t, filepath.Join(at, "docs", "LICENSE"), "MIT")
	h1 := must.Get(dirhash.HashDir(at, "", dirhash.Hash1))(t)
	write(t, filepath.Join(dir, lockfile.Name), fmt.Sprintf("provider \"registry.opentofu.org/acme/dns\" {\n  version = \"1.2.3\"\n  hashes  = [%q, \"zh:00\"]\n}\n", h1))
	return m
}

// other returns a module with the lock file of m and nothing installed.
func other(t *testing.T, m plugincache.Module) plugincache.Module {
	t.Helper()
	lock := must.Get(os.ReadFile(filepath.Join(m.Dir, lockfile.Name)))(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, lockfile.Name), string(lock))
	return plugincache.Module{Dir: dir, DataDir: filepath.Join(dir, ".terraform")}
}

func has(t *testing.T, m plugincache.Module, program string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(m.DataDir, "providers", place, platform(), "terraform-provider-dns"))
	if err != nil || string(got) != program {
		t.Errorf("the module has %q, %v; want %q", got, err, program)
	}
}

// TestShare gives one module's packages to another; two contents stay side by side.
func TestShare(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	c := must.Get(plugincache.New(dir))(t)
	for _, program := range []string{"ours", "theirs"} {
		first := installed(t, program)
		if n, err := c.Link(first); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := c.Keep(first); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		has(t, first, program)
		if n, err := c.Keep(first); n != 0 || err != nil {
			t.Error("a link was kept again:", n, err)
		}
		second := other(t, first)
		if n, err := c.Link(second); n != 1 || err != nil {
			t.Error(n, err)
		}
		has(t, second, program)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may look into the cache: %v %v", info.Mode(), err)
	}
	if kept, err := filepath.Glob(filepath.Join(dir, place, "*", "*")); len(kept) != 2 || err != nil {
		t.Error(kept, err)
	}
}

// TestUnvouchedLink: before init nothing links to what the lock file does not name.
func TestUnvouchedLink(t *testing.T) {
	c := must.Get(plugincache.New(filepath.Join(t.TempDir(), "cache") + "/"))(t) // with a trailing slash
	for name, change := range map[string]func(lock string) error{
		"no lock file":        os.Remove,
		"of another platform": func(lock string) error { return lockWith(lock, "zh:00") },
		"of other content": func(lock string) error {
			return lockWith(lock, "h1:"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
		},
		"lock file of nothing": func(lock string) error { return os.WriteFile(lock, nil, 0o600) },
	} {
		m := installed(t, "ours")
		if n, err := c.Keep(m); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := c.Link(m); n != 1 || err != nil {
			t.Errorf("%s: before: %d, %v", name, n, err)
		}
		must.Succeed(t, change(filepath.Join(m.Dir, lockfile.Name)))
		if n, err := c.Link(m); n != 0 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		if _, err := os.Lstat(filepath.Join(m.DataDir, "providers", place, platform())); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the link is there: %v", name, err)
		}
	}
}

func lockWith(file, hash string) error {
	return os.WriteFile(file, fmt.Appendf(nil, "provider \"registry.opentofu.org/acme/dns\" {\n  version = \"1.2.3\"\n  hashes  = [%q]\n}\n", hash), 0o600)
}

// TestDamagedIsReplaced: a package verified by an init replaces a damaged one.
func TestDamagedIsReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	c := must.Get(plugincache.New(dir))(t)
	first := installed(t, "ours")
	if n, err := c.Keep(first); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, place, "*", "*", "terraform-provider-dns"))
	if len(kept) != 1 || err != nil {
		t.Fatal(kept, err)
	}
	write(t, kept[0], "damaged")
	second := installed(t, "ours")
	if n, err := c.Keep(second); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	has(t, second, "ours")
	has(t, first, "ours")
}

// TestShareAtOnce keeps the same package from many inits; each has it afterwards.
func TestShareAtOnce(t *testing.T) {
	dir := t.TempDir()
	c := must.Get(plugincache.New(dir))(t)
	var all sync.WaitGroup
	for range 30 {
		m := installed(t, "ours")
		all.Go(func() {
			if n, err := c.Keep(m); n != 1 || err != nil {
				t.Error(n, err)
			}
			has(t, m, "ours")
		})
	}
	all.Wait()
	kept, err := filepath.Glob(filepath.Join(dir, place, "*", "*"))
	if len(kept) != 1 || err != nil {
		t.Error(kept, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".partial", "okara*")); len(left) != 0 || err != nil {
		t.Error("left behind:", left, err)
	}
}

// TestNotShared has packages that stay where they are, and modules that get none.
func TestNotShared(t *testing.T) {
	dir := t.TempDir()
	c := must.Get(plugincache.New(dir))(t)
	changed := installed(t, "ours")
	write(t, filepath.Join(changed.DataDir, "providers", place, platform(), "terraform-provider-dns"), "changed")
	if n, err := c.Keep(changed); n != 0 || err == nil {
		t.Error("what the lock file does not name was kept:", n, err)
	}
	has(t, changed, "changed")
	unlocked := installed(t, "ours")
	must.Succeed(t, os.Remove(filepath.Join(unlocked.Dir, lockfile.Name)))
	if n, err := c.Keep(unlocked); n != 0 || err != nil {
		t.Error(n, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "registry.opentofu.org", "acme", "dns", "1.2.3", platform(), "0")); err == nil {
		t.Error("something is in the cache")
	}
	if _, err := plugincache.New("cache"); err == nil {
		t.Error("a relative path is taken")
	}
	broken := installed(t, "ours")
	write(t, filepath.Join(broken.Dir, lockfile.Name), "provider {")
	if _, err := c.Link(broken); err == nil {
		t.Error("a broken lock file goes unnoticed")
	}
}

// TestCacheGone leaves a module without package and dangling link.
func TestCacheGone(t *testing.T) {
	dir := t.TempDir()
	c := must.Get(plugincache.New(dir))(t)
	m := installed(t, "ours")
	must.Get(c.Keep(m))(t)
	must.Succeed(t, os.RemoveAll(filepath.Join(dir, "registry.opentofu.org")))
	if n, err := c.Link(m); n != 0 || err != nil {
		t.Error(n, err)
	}
	if _, err := os.Lstat(filepath.Join(m.DataDir, "providers", place, platform())); err == nil {
		t.Error("a link leads nowhere")
	}
}

// TestOnlyFilesAreKept: no links out of a package, whose target could change.
func TestOnlyFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	c := must.Get(plugincache.New(dir))(t)
	m := installed(t, "ours")
	program := filepath.Join(m.DataDir, "providers", place, platform(), "terraform-provider-dns")
	outside := filepath.Join(t.TempDir(), "program")
	write(t, outside, "ours")
	must.Succeed(t, errors.Join(os.Remove(program), os.Symlink(outside, program)))
	if n, err := c.Keep(m); n != 0 || err == nil {
		t.Error("a package with a link in it was kept:", n, err)
	}
	has(t, m, "ours")
	if n, err := c.Link(other(t, m)); n != 0 || err != nil {
		t.Error("another module got it:", n, err)
	}
}

// TestLockFileIsAFile: a lock file that is not a regular file is not waited for.
func TestLockFileIsAFile(t *testing.T) {
	m := plugincache.Module{Dir: t.TempDir(), DataDir: t.TempDir()}
	must.Succeed(t, os.Mkdir(filepath.Join(m.Dir, lockfile.Name), 0o755))
	c := must.Get(plugincache.New(t.TempDir()))(t)
	if n, err := c.Link(m); n != 0 || err != nil {
		t.Error(n, err)
	}
}
