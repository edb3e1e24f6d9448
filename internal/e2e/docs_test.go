// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documented is the address that the pages use for a local server.
const documented = "127.0.0.1:8080"

// block is a fenced block of a page: its language, its second word, its text.
var block = regexp.MustCompile("(?ms)^```(\\w+) ([^\\n]+)\\n(.*?)^```$")

// TestDocs does what the pages say. The blocks of one page marked "sh run"
// run as one script, in order; a block such as "hcl app/main.tf" is that file.
func TestDocs(t *testing.T) {
	set, err := findTools()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(set.root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := block.FindAllStringSubmatch(string(text), -1)
		if !strings.Contains(string(text), "```sh run\n") {
			continue
		}
		ran++
		t.Run(filepath.Base(page), func(t *testing.T) { set.runPage(t, blocks) })
	}
	if ran == 0 {
		t.Error("no page has a block that runs")
	}
}

func (s tools) runPage(t *testing.T, blocks [][]string) {
	dir := t.TempDir()
	env := []string{
		"HOME=" + dir, "CHECKPOINT_DISABLE=1", "TF_INPUT=0",
		"PATH=" + strings.Join([]string{filepath.Dir(s.okara), filepath.Dir(s.tofu), os.Getenv("PATH")}, string(os.PathListSeparator)),
	}
	serve := exec.Command(s.okara, "serve", "--listen", "127.0.0.1:0", "--storage", filepath.Join(dir, ".store"))
	serve.Env = env
	server, addr, err := start(serve)
	if err != nil {
		t.Fatal(err)
	}
	defer server.kill()

	var script strings.Builder
	script.WriteString("set -eux\n")
	for _, b := range blocks {
		text := strings.ReplaceAll(b[3], documented, addr)
		if b[1] == "sh" && b[2] == "run" {
			script.WriteString(text)
			continue
		}
		name := filepath.Join(dir, b[2])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", script.String())
	cmd.Dir, cmd.Env = dir, env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
