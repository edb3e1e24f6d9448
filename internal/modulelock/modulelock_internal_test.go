// SPDX-License-Identifier: Apache-2.0

package modulelock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// writeFiles writes files below a folder; a name that ends in @ is a link.
func writeFiles(t *testing.T, dir string, all map[string]string) {
	t.Helper()
	for name, text := range all {
		path := filepath.Join(dir, strings.TrimSuffix(name, "@"))
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if strings.HasSuffix(name, "@") {
			must.Succeed(t, os.Symlink(text, path))
			continue
		}
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// list is modules.json for what OpenTofu 1.12.6 and Terraform 1.16 install from a registry, from git, and
// from a folder of this machine.
const list = `{"Modules":[{"Key":"","Source":"","Dir":"."},
{"Key":"net","Source":"okara.test/net/vpc/aws","Version":"5.1.2","Dir":".terraform/modules/net"},
{"Key":"net.subnets","Source":"okara.test/net/vpc/aws//modules/subnets","Version":"5.1.2","Dir":".terraform/modules/net.subnets/modules/subnets"},
{"Key":"dns","Source":"git::https://someone:secret@git.example.com/dns.git//zone?ref=v1.2","Dir":".terraform/modules/dns/zone"},
{"Key":"own","Source":"./own","Dir":"own"}]}`

func newRoot(t *testing.T) (dir, data string) {
	t.Helper()
	dir = t.TempDir()
	data = filepath.Join(dir, ".terraform")
	writeFiles(t, data, map[string]string{
		"modules/modules.json": list, "modules/net/main.tf": "a", "modules/net/.tflint.hcl": "x", "modules/net/modules/subnets/main.tf": "b", "modules/net/link@": "main.tf",
		"modules/net.subnets/main.tf": "a", "modules/net.subnets/modules/subnets/main.tf": "b", "modules/net.subnets/link@": "main.tf",
		"modules/dns/zone/main.tf": "c", "modules/dns/.git/HEAD": strings.Repeat("ab", 20) + "\n",
	})
	return dir, data
}

// TestLock: what is installed is what is locked, until one byte, one link or one call is another.
func TestLock(t *testing.T) {
	dir, data := newRoot(t)
	must.Succeed(t, Check(dir, data)) // no lock
	f := must.Get(Installed(data))(t)
	text := string(f.Bytes())
	for _, want := range []string{`package "okara.test/net/vpc/aws" "5.1.2" {`, `package "git::https://git.example.com/dns.git" "v1.2" {`, `commit = "abababab`, `call "net.subnets" {`} {
		if !strings.Contains(text, want) {
			t.Errorf("the lock lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "secret") || strings.Contains(text, "own") || len(f.Packages) != 2 || len(f.Calls) != 3 {
		t.Errorf("the lock is\n%s", text)
	}
	must.Equal(t, "the lock, read and written", string(must.Get(Parse(Name, []byte(text)))(t).Bytes()), text)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, Name), []byte(text), 0o644))
	must.Succeed(t, Check(dir, data))
	for name, c := range map[string]struct {
		change func() error
		want   string
	}{
		"a byte": {func() error { return os.WriteFile(filepath.Join(data, "modules/dns/zone/main.tf"), []byte("d"), 0o644) }, `module "dns": git::https://git.example.com/dns.git v1.2 is installed as h1:`},
		"a file": {func() error { return os.WriteFile(filepath.Join(data, "modules/dns/new.tf"), nil, 0o644) }, `module "dns"`},
		"a link": {func() error { return os.Symlink("/etc/passwd", filepath.Join(data, "modules/dns/link")) }, `module "dns"`},
		"a copy": {func() error {
			return os.WriteFile(filepath.Join(data, "modules/net.subnets/main.tf"), []byte("z"), 0o644)
		}, "is installed twice"},
		"a call": {func() error {
			return os.WriteFile(filepath.Join(data, "modules/modules.json"), []byte(strings.Replace(list, `"Key":"dns"`, `"Key":"zone"`, 1)), 0o644)
		}, `module "zone" cannot be read, run init again`},
		"version": {func() error {
			return os.WriteFile(filepath.Join(data, "modules/modules.json"), []byte(strings.ReplaceAll(list, "5.1.2", "5.2.0")), 0o644)
		}, `okara.test/net/vpc/aws is installed as 5.2.0, .okara.lock.hcl has 5.1.2`},
		"outside": {func() error {
			return os.WriteFile(filepath.Join(data, "modules/modules.json"), []byte(strings.Replace(list, `"Key":"dns"`, `"Key":"../../x"`, 1)), 0o644)
		}, "which is not a call"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, data = newRoot(t)
			must.Succeed(t, os.WriteFile(filepath.Join(dir, Name), []byte(text), 0o644))
			must.Succeed(t, c.change())
			if err := Check(dir, data); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestUpgrade: a locked call takes another package only if it is named.
func TestUpgrade(t *testing.T) {
	_, data := newRoot(t)
	locked := must.Get(Installed(data))(t)
	must.Succeed(t, os.WriteFile(filepath.Join(data, "modules/modules.json"), []byte(strings.ReplaceAll(list, "5.1.2", "5.2.0")), 0o644))
	now := must.Get(Installed(data))(t)
	for _, c := range []struct {
		names []string
		kept  int
	}{{nil, 2}, {[]string{"net"}, 1}, {[]string{"okara.test/net/vpc/aws"}, 0}, {[]string{""}, 0}} {
		if _, kept := locked.Upgrade(now, c.names); len(kept) != c.kept {
			t.Errorf("upgrade of %q keeps %v", c.names, kept)
		}
	}
}

// FuzzParse: what parses is written so that it parses to the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte("package \"a/b/c\" \"1\" {\n hashes = [\"h1:x\"]\n}\ncall \"x.y\" {\n package = \"a/b/c\"\n version = \"1\"\n}\n"))
	f.Add([]byte("package \"a\" \"\" {\n hashes = []\n}\n"))
	f.Add([]byte("call \"x\" {\n package = 1\n}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		parsed, err := Parse(Name, src)
		if err != nil {
			return
		}
		text := parsed.Bytes()
		again, err := Parse(Name, text)
		if err != nil || string(again.Bytes()) != string(text) {
			t.Errorf("%v: %q is written as %q", err, src, text)
		}
	})
}
