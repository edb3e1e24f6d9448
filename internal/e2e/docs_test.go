// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
			set.runPage(t, block.FindAllStringSubmatch(text, -1))
		})
	}
	if ran == 0 {
		t.Error("no page has a block that runs")
	}
}

// serveAll begins a page's script: serve starts a server until the script's end.
const serveAll = `set -eu
servers=
trap 'code=$?; set +x; kill $servers; wait; [ $code = 0 ] || cat serve-*.log; exit $code' EXIT
serve() {
	log=serve-$(echo $servers | wc -w).log
	"$@" >$log 2>&1 &
	servers="$servers $!"
	until grep -q 'listening on' $log; do kill -0 $!; sleep 0.1; done
}
set -x
`

func (s tools) runPage(t *testing.T, blocks [][]string) {
	dir := t.TempDir()
	for name, folder := range map[string]string{"dist": s.dist, "release": s.provider} {
		succeed(t, os.Symlink(folder, filepath.Join(dir, name)))
	}
	address := map[string]string{defaultAddress: freeAddress(t)}
	local := func(text string) string {
		return documented.ReplaceAllStringFunc(text, func(a string) string {
			if address[a] == "" {
				address[a] = freeAddress(t)
			}
			return address[a]
		})
	}
	script, served := "", false
	for _, b := range blocks {
		text := local(b[3])
		switch b[1] + " " + b[2] {
		case "sh run":
			script += text
		case "sh serve":
			script += "serve " + text
			served = true
		default:
			writeFile(t, filepath.Join(dir, b[2]), text)
		}
	}
	if !served {
		script = "serve okara serve\n" + script
	}
	cmd := exec.Command("sh", "-c", serveAll+script)
	cmd.Dir = dir
	cmd.Env = []string{
		"HOME=" + dir, "CHECKPOINT_DISABLE=1", "TF_INPUT=0", "OKARA_SERVE_LISTEN=" + address[defaultAddress],
		"PATH=" + strings.Join([]string{filepath.Dir(s.okara), filepath.Dir(s.tofu), filepath.Dir(s.jq), os.Getenv("PATH")}, string(os.PathListSeparator)),
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
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
