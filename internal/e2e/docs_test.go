// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block matches a fenced block of a page: its language, its second word, its text.
var block = regexp.MustCompile("(?ms)^```(\\w+) ([^\\n]+)\\n(.*?)^```$")

// documented matches pages' addresses of local servers.
var documented = regexp.MustCompile(`127\.0\.0\.1:808\d`)

const defaultAddress = "127.0.0.1:8080"

// TestDocs executes the pages and README: of a page "sh run" blocks are one script, "sh serve" run
// beside it, or else okara serve; "hcl app/main.tf" is that file. dist has a provider of
// GoReleaser, release one of okara.
//
// Shows: copies 5
func TestDocs(t *testing.T) {
	set := must(findTools())(t)
	pages := must(filepath.Glob(filepath.Join(set.root, "docs", "*", "*.md")))(t)
	ran := 0
	for _, page := range append(pages, filepath.Join(set.root, "README.md")) {
		text := mustRead(t, page)
		if !strings.Contains(text, "```sh run\n") {
			continue
		}
		ran++
		t.Run(filepath.Base(page), func(t *testing.T) {
			set.runPage(t, text, "", strings.NewReplacer())
		})
	}
	if ran == 0 {
		t.Error("no page has a block that runs")
	}
}

// serveAll begins a page's script: serve starts a server until the script's end.
const serveAll = `set -eu
servers=
trap 'code=$?; set +x; kill $servers; wait; [ $code = 0 ] || cat "$HOME"/serve-*.log; exit $code' EXIT
serve() {
	log=../serve-$(echo $servers | wc -w).log
	"$@" >$log 2>&1 &
	servers="$servers $!"
	until grep -q 'listening on' $log; do kill -0 $!; sleep 0.1; done
}
set -x
`

// browser follows redirects, as of a user whom the issuer knows.
const browser = "#!/bin/sh\nexec curl -fsSL -b none -o /dev/null \"$1\"\n"

// runPage runs the blocks of a page in a new folder, with the files of from unless that is "", with
// words replaced and other addresses of servers. Of a block "sh run PROGRAM" the program must be there; each line
// of "text see" must be printed, in this order, "…" being any text.
func (s tools) runPage(t *testing.T, page, from string, words *strings.Replacer) {
	home := t.TempDir()
	dir := filepath.Join(home, "page")
	address := map[string]string{defaultAddress: freeAddress(t)}
	local := func(text string) string {
		return documented.ReplaceAllStringFunc(words.Replace(text), func(a string) string {
			if address[a] == "" {
				address[a] = freeAddress(t)
			}
			return address[a]
		})
	}
	if from != "" {
		copyFolder(t, from, dir, local)
	} else {
		succeed(t, os.Mkdir(dir, 0o755))
		for name, folder := range map[string]string{"dist": s.dist, "release": s.provider} {
			succeed(t, os.Symlink(folder, filepath.Join(dir, name)))
		}
	}
	succeed(t, os.WriteFile(filepath.Join(home, "xdg-open"), []byte(browser), 0o755))
	path := strings.Join([]string{home, filepath.Dir(s.okara), filepath.Dir(s.tofu), filepath.Dir(s.jq), filepath.Dir(s.registry), os.Getenv("PATH"), filepath.Join(s.root, ".cache", "bin"), os.Getenv(renovateVar) + "/node_modules/.bin"}, string(os.PathListSeparator))
	script, see, served := "", "", false
	for _, b := range block.FindAllStringSubmatch(page, -1) {
		text := local(b[3])
		kind, program, _ := strings.Cut(b[1]+" "+b[2], " run ")
		switch {
		case kind == "sh" && !hasProgram(path, program):
			t.Logf("%s is not here, so this is not run:\n%s", program, text)
		case kind == "sh" || kind == "sh run":
			script += text
		case kind == "sh serve":
			script += "serve " + text
			served = true
		case kind == "text see":
			see += text
		case b[1] != "sh": // which another test runs
			writeFile(t, filepath.Join(dir, b[2]), text)
		}
	}
	if !served {
		script = "serve okara serve\n" + script
	}
	cmd := exec.Command("sh", "-c", serveAll+script)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + home, "CHECKPOINT_DISABLE=1", "OKARA_SERVE_LISTEN=" + address[defaultAddress], "PATH=" + path}
	var all, out lockedBuffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&all, &out), &all
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &all)
	}
	rest := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range strings.FieldsFunc(see, func(r rune) bool { return r == '\n' || r == '…' }) {
		_, after, ok := strings.Cut(rest, strings.Join(strings.Fields(want), " "))
		if !ok {
			t.Fatalf("%q is not printed, or too early:\n%s", want, &all)
		}
		rest = after
	}
}

// hasProgram reports whether one of the folders of path has a program, or none is needed.
func hasProgram(path, name string) bool {
	return name == "" || slices.ContainsFunc(filepath.SplitList(path), func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	})
}

func copyFolder(t *testing.T, from, to string, change func(string) string) {
	t.Helper()
	succeed(t, fs.WalkDir(os.DirFS(from), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			writeFile(t, filepath.Join(to, name), change(mustRead(t, filepath.Join(from, name))))
		}
		return err
	}))
}

// freeAddress returns a loopback address below the kernel's own ports.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.N(20000))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	succeed(t, os.MkdirAll(filepath.Dir(name), 0o755))
	succeed(t, os.WriteFile(name, []byte(text), 0o644))
}
