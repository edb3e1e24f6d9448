// SPDX-License-Identifier: Apache-2.0

package modulelock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/usage"
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
{"Key":"own","Source":"./own","Dir":"own"},
{"Key":"test","Source":"./own","Dir":"own"},{"Key":"test.sub","Source":"./sub","Dir":"own/sub"},{"Key":"test.gone","Source":"./gone","Dir":"own/gone"},{"Key":"test.gone.sub","Source":"x.test/a/b/c","Dir":"gone"},
{"Key":"test.tests.a.used","Source":"okara.test/net/vpc/aws","Version":"5.1.2","Dir":".terraform/modules/test.tests.a.used"}]}`

func newRoot(t *testing.T) (dir, data string) {
	t.Helper()
	dir = t.TempDir()
	data = filepath.Join(dir, ".terraform")
	writeFiles(t, dir, map[string]string{"main.tf": "module \"net\" {}\nmodule \"dns\" {}\nmodule \"own\" {}\nmodule \"test\" {}\n", "own/main.tf": "module \"sub\" {}", "own/sub/main.tf": ""})
	writeFiles(t, data, map[string]string{
		"modules/modules.json": list, "modules/net/main.tf": "module \"subnets\" {}", "modules/net/.lint.hcl": "x", "modules/net/modules/subnets/main.tf": "#", "modules/net/link@": "main.tf",
		"modules/net.subnets/main.tf": "module \"subnets\" {}", "modules/net.subnets/modules/subnets/main.tf": "#", "modules/net.subnets/link@": "main.tf",
		"modules/test.tests.a.used/main.tf": "module \"subnets\" {}", "modules/test.tests.a.used/modules/subnets/main.tf": "#", "modules/test.tests.a.used/link@": "main.tf",
		"modules/dns/zone/main.tf": "#", "modules/dns/.git/HEAD": strings.Repeat("ab", 20) + "\n", "modules/gone/main.tf": "",
	})
	return dir, data
}

// TestLiveCalls: the record of a state has no call that the configuration no longer has.
func TestLiveCalls(t *testing.T) {
	dir, data := newRoot(t)
	writeFiles(t, dir, map[string]string{"main.tf": "module \"net\" {}\n"})
	root := usage.Root{Dir: dir, DataDir: data, LiveCalls: LiveCalls, Getenv: func(string) string { return "" }}
	root.ParseLock = func([]byte) ([]usage.Provider, error) { return nil, nil }
	d := must.Get(usage.Parse(root.Record()(nil, nil)))(t)
	must.Equal(t, "record", d.Recorded+" "+fmt.Sprint(len(d.Modules))+d.Modules[0].Source+d.Modules[1].Source, "complete 2okara.test/net/vpc/awsokara.test/net/vpc/aws//modules/subnets")
	must.Succeed(t, os.WriteFile(filepath.Join(data, "modules/modules.json"), []byte(strings.Replace(list, `"net"`, `"../net"`, 1)), 0o644))
	must.Equal(t, "if they cannot be found", must.Get(usage.Parse(root.Record()(nil, nil)))(t).Recorded, usage.Partial)
}

// TestLock: what is installed is what is locked, until one byte, one link or one call is another.
func TestLock(t *testing.T) {
	dir, data := newRoot(t)
	must.Succeed(t, Check(dir, data)) // no lock
	f := must.Get(Installed(dir, data))(t)
	lock := string(f.Bytes())
	for _, want := range []string{`package "okara.test/net/vpc/aws" "5.1.2" {`, `package "git::https://git.example.com/dns.git" "v1.2" {`, `commit = "abababab`, `call "net.subnets" {`, `call "test.tests.a.used" {`} {
		if !strings.Contains(lock, want) {
			t.Errorf("the lock lacks %s:\n%s", want, lock)
		}
	}
	if strings.Contains(lock, "secret") || strings.Contains(lock, "own") || strings.Contains(lock, "gone") || len(f.Packages) != 2 || len(f.Calls) != 4 {
		t.Errorf("the lock is\n%s", lock)
	}
	f.findPackage("git::https://git.example.com/dns.git", "v1.2").Hashes = []string{"oci:sha256:x", "h1:y"}
	if digests := must.Get(ParseDigests(f.Bytes()))(t); digests["dns"] != "sha256:x" || !strings.HasPrefix(digests["net.subnets"], "h1:") {
		t.Errorf("the digests are %v", digests)
	}
	must.Equal(t, "the lock, read and written", string(must.Get(Parse(Name, []byte(lock)))(t).Bytes()), lock)
	rewrite := func(old, now string) func() error {
		return func() error {
			return os.WriteFile(filepath.Join(data, "modules/modules.json"), []byte(strings.ReplaceAll(list, old, now)), 0o644)
		}
	}
	write := func(name, content string) func() error {
		return func() error { return os.WriteFile(filepath.Join(data, "modules", name), []byte(content), 0o644) }
	}
	link := func(target, name string) func() error {
		return func() error {
			name := filepath.Join(data, "modules", name)
			return errors.Join(os.RemoveAll(name), os.Symlink(target, name))
		}
	}
	for name, c := range map[string]struct {
		change func() error
		want   string // "": it does no harm
	}{
		"nothing":          {func() error { return nil }, ""},
		"a byte":           {write("dns/zone/main.tf", "##"), `module "dns": git::https://git.example.com/dns.git is installed as h1:`},
		"a file":           {write("dns/new.tf", ""), `module "dns"`},
		"a dot file":       {write("net/.lint.hcl", "y"), `module "net"`},
		"a file .git":      {write("dns/zone/.git", "x"), `module "dns"`},
		"in a clone":       {rewrite(".terraform/modules/dns/zone", ".terraform/modules/dns/.git/zone"), "which is not hashed"},
		"a commit":         {write("dns/.git/HEAD", "x"), ""},
		"a link":           {link("main.tf", "dns/zone/link"), `module "dns"`},
		"a link out":       {link("/etc/passwd", "dns/link"), "is a link to outside the package"},
		"a link to git":    {link("../.git/HEAD", "dns/zone/link"), "is a link to outside the package"},
		"a link by a link": {func() error { return errors.Join(link("..", "dns/zone/up")(), link("up/../net", "dns/zone/link")()) }, "is a link to outside the package"},
		"a linked package": {link("net", "dns"), `module "dns"`},
		"of a test":        {write("test.tests.a.used/main.tf", "#"), `module "test.tests.a.used"`},
		"a copy":           {write("net.subnets/main.tf", "#"), `module "net.subnets"`},
		"a call":           {rewrite(`"Key":"dns"`, `"Key":"own2"`), ""},
		"version":          {rewrite("5.1.2", "5.2.0"), `okara.test/net/vpc/aws is installed as 5.2.0, .okara.lock.hcl has 5.1.2`},
		"no ref":           {rewrite("?ref=v1.2", ""), "is installed as no version, .okara.lock.hcl has v1.2"},
		"another key":      {rewrite(`"Key":"dns"`, `"Key":"../../x"`), "which is not a call"},
		"another folder":   {rewrite(`.terraform/modules/net"`, `/etc"`), "which is not in its package"},
		"own elsewhere":    {rewrite(`"Dir":"own"`, `"Dir":"/etc"`), "not from its source ./own"},
		"another tool":     {rewrite("okara.test/net", "other.test/net"), "is installed as other.test/net/vpc/aws 5.1.2, .okara.lock.hcl has okara.test/net/vpc/aws 5.1.2"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, data = newRoot(t)
			must.Succeed(t, os.WriteFile(filepath.Join(dir, Name), []byte(lock), 0o644))
			must.Succeed(t, c.change())
			if err := Check(dir, data); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestUpgrade: a locked call takes another package only if it is named, and hashes of other systems stay.
func TestUpgrade(t *testing.T) {
	dir, data := newRoot(t)
	locked := must.Get(Installed(dir, data))(t)
	locked.findPackage("git::https://git.example.com/dns.git", "v1.2").Hashes = []string{"h1:windows", locked.Calls[0].full}
	must.Succeed(t, os.WriteFile(filepath.Join(data, "modules/modules.json"), []byte(strings.ReplaceAll(list, "5.1.2", "5.2.0")), 0o644))
	for _, c := range []struct {
		names []string
		kept  int
	}{{nil, 3}, {[]string{"net"}, 2}, {[]string{"okara.test/net/vpc/aws"}, 0}, {[]string{""}, 0}} {
		now, kept := locked.Upgrade(must.Get(Installed(dir, data))(t), c.names)
		if len(kept) != c.kept || !strings.Contains(string(now.Bytes()), "h1:windows") {
			t.Errorf("upgrade of %q keeps %v:\n%s", c.names, kept, now.Bytes())
		}
	}
}

// TestNewCall: a new call of a locked package has its files, with or without the dot files, or is refused.
func TestNewCall(t *testing.T) {
	for _, c := range []struct {
		dotFile, file string
		kept          int
	}{{"x", "#", 0}, {"", "#", 0}, {"y", "#", 1}, {"x", "##", 1}, {"", "##", 1}} {
		dir, data := newRoot(t)
		locked := must.Get(Installed(dir, data))(t)
		writeFiles(t, dir, map[string]string{
			"more.tf":                                         `module "more" {}`,
			".terraform/modules/modules.json":                 strings.Replace(list, `{"Key":"own"`, `{"Key":"more","Source":"okara.test/net/vpc/aws","Version":"5.1.2","Dir":".terraform/modules/more"},{"Key":"own"`, 1),
			".terraform/modules/more/main.tf":                 `module "subnets" {}`,
			".terraform/modules/more/link@":                   "main.tf",
			".terraform/modules/more/modules/subnets/main.tf": c.file,
		})
		if c.dotFile != "" {
			writeFiles(t, data, map[string]string{"modules/more/.lint.hcl": c.dotFile})
		}
		_, kept := locked.Upgrade(must.Get(Installed(dir, data))(t), nil)
		_, accepted := locked.Upgrade(must.Get(Installed(dir, data))(t), []string{"more"})
		if len(kept) != c.kept || len(accepted) != 0 {
			t.Errorf("%q, %q: refused are %v, and with an upgrade %v", c.dotFile, c.file, kept, accepted)
		}
		must.Succeed(t, os.WriteFile(filepath.Join(dir, Name), locked.Bytes(), 0o644))
		m, ok := errors.AsType[*Mismatch](Check(dir, data))
		if !ok || m.New != (c.kept == 0) {
			t.Errorf("%q, %q: init says %v", c.dotFile, c.file, m)
		}
	}
}

// TestSelect: a registry behind the selection answers as before, but for the versions of what is locked.
func TestSelect(t *testing.T) {
	var registry *httptest.Server
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/terraform.json", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/moved/services", http.StatusFound) })
	mux.HandleFunc("/moved/services", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"modules.v1":"../api/modules","providers.v1":"/p/","login.v1":{"client":"x"}}`))
	})
	mux.HandleFunc("/api/modules/net/vpc/aws/versions", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"modules":[{"source":"net/vpc/aws","versions":[{"version":"v5.1","root":{}},{"version":"5.2.0"}]}]}`))
	})
	mux.HandleFunc("/api/modules/net/other/aws/versions", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, r.Header.Get("Authorization"), http.StatusUnauthorized)
	})
	mux.HandleFunc("/api/modules/net/vpc/aws/5.1.0/download", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"location":"pkg.zip","use_registry_credentials":true}`))
	})
	registry = httptest.NewServer(mux)
	defer registry.Close()
	host := strings.TrimPrefix(registry.URL, "http://")
	home := t.TempDir()
	writeFiles(t, home, map[string]string{
		"tofurc":       "plugin_cache_dir = \"/cache\"\nhost \"" + host + "\" {\n}\ncredentials \"a.test\" {\n  token = \"loses\"\n}\n",
		"d/login.json": `{"credentials":{"a.test":{"token":"wins"}}}`,
	})
	lock := &File{Packages: []Package{{Source: host + "/net/vpc/aws", Version: "5.1.0", Hashes: []string{"h1:x"}}, {Source: "silent.invalid/net/vpc/aws", Version: "1.0.0", Hashes: []string{"h1:x"}}}}
	config := []string{filepath.Join(home, "d/login.json"), filepath.Join(home, "tofurc"), filepath.Join(home, "none")}
	user := must.Get(ReadConfig(config))(t)
	extended, skipped, stop, err := lock.Select(t.Context(), nil, user, nil)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, stop()) }()
	if len(skipped) != 1 {
		t.Errorf("left out: %v", skipped)
	}
	written := string(extended)
	at := regexp.MustCompile(`http://127.0.0.1:\d+/` + host + `/`).FindString(written)
	if at == "" || strings.Count(written, "host ") != 1 || !strings.Contains(written, "plugin_cache_dir") || !strings.Contains(written, registry.URL+"/p/") || strings.Index(written, "loses") > strings.Index(written, "wins") {
		t.Fatalf("the CLI configuration is\n%s", written)
	}
	for path, want := range map[string]string{
		"net/vpc/aws/versions": `"versions":[{"version":"v5.1","root":{}}]`, "net/other/aws/versions": "Bearer x", "net/vpc/aws/5.1.0/download": registry.URL + "/api/modules/net/vpc/aws/5.1.0/pkg.zip", "../x": "404",
	} {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, nil))(t)
		req.Header.Set("Authorization", "Bearer x")
		resp := must.Get(http.DefaultClient.Do(req))(t)
		if body := string(must.Get(io.ReadAll(resp.Body))(t)); !strings.Contains(body, want) {
			t.Errorf("%s: %s %s, want %s", path, resp.Status, body, want)
		}
		must.Succeed(t, resp.Body.Close())
	}
}

// TestHostileLock: a lock that means nothing, or too much, is refused.
func TestHostileLock(t *testing.T) {
	const good = "package \"a/b/c/d\" \"1\" {\n  hashes = [\"h1:x\"]\n}\n"
	for text, want := range map[string]string{
		good + good:            ".okara.lock.hcl:4: the package has two blocks",
		"call \"x\" {\n}\n":    `has no package "" "", which the call "x" names`,
		"package \"a\" {\n}\n": "expected a package",
		"package \"a\" \"b\" {\n  hashes = []\n}\n":                                     "a list of 1 to 16 strings",
		"package \"a\" \"b\" {\n  hashes = [" + strings.Repeat("\"x\",", 17) + "]\n}\n": "a list of 1 to 16 strings",
		"package \"a\" \"b\" {\n  hashes = [1]\n}\n":                                    "hashes must be strings",
		"package \"a\" \"b\" {\n  hashes = [file(\"/etc/passwd\")]\n}\n":                "hashes must be a constant",
		strings.Repeat("call \"x\" {\n}\n", maxBlocks+1):                                "has more than 5000 blocks",
		strings.Repeat("#", MaxSize+1):                                                  "has more than 8 MiB",
	} {
		if _, err := Parse(Name, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
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

// A root module that calls none needs no init; an empty folder is none.
func TestInstalledWithoutCalls(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		runs       bool
	}{"no calls": {"main.tf", "locals {}\n", true}, "a call": {"main.tofu", "module \"a\" {\n  source = \"./a\"\n}\n", false}, "nothing": {"README.md", "", false}} {
		dir := t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600))
		f, err := Installed(dir, filepath.Join(dir, ".terraform"))
		if c.runs != (err == nil && len(f.Calls) == 0) || !c.runs && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

// TestListMissing: what init did not get to is known, so that it stays locked.
func TestListMissing(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, ".terraform")
	must.Succeed(t, os.MkdirAll(filepath.Join(data, "modules"), 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte("module \"hello\" {\n  source = \"a/b/c\"\n}\n"), 0o600))
	locked := &File{Calls: []Call{{Path: "hello"}, {Path: "gone"}}}
	must.Match(t, "after an init that failed", (&File{}).ListMissing(dir, data), []string{"hello"})
	must.Match(t, "with a lock", locked.ListMissing(dir, data), []string{"hello"})
	must.Succeed(t, os.WriteFile(filepath.Join(data, "modules", "modules.json"), []byte(`{"Modules":[{"Key":"hello","Source":"a/b/c","Dir":".terraform/modules/hello"}]}`), 0o600))
	must.Match(t, "installed", locked.ListMissing(dir, data), []string(nil))
}
