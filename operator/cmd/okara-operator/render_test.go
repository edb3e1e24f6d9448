// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	renderFirst  = "namespace: a\nname: one\nmodule: {repository: r.example.com/x, digest: 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'}\nstate: {address: 'https://okara.example.com/state/a/one'}\n"
	renderSecond = "---\nnamespace: b\nname: two\nmodule: {repository: r.example.com/y, digest: 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'}\nstate: {address: 'https://okara.example.com/state/a/two'}\n"
)

// TestRender prints the objects of each run of a file, or none where one is wrong.
func TestRender(t *testing.T) {
	for _, c := range []struct {
		content, want string
		code          int
	}{
		{renderFirst + renderSecond, "", exitOK},
		{renderFirst + strings.Replace(renderSecond, "name: two", "name: two.x", 1), `run 2: name: "two.x" has to be a label of DNS`, exitFailure},
		{renderFirst + "nmae: x\n", `run 1: error unmarshaling JSON: while decoding JSON: json: unknown field "nmae"`, exitFailure},
		{strings.Repeat("#", maxRuns+1), "has more than 4 MiB", exitFailure},
	} {
		file := filepath.Join(t.TempDir(), "runs.yaml")
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errOut := command(t, "render", file)
		if code != c.code || !strings.Contains(errOut, c.want) || (code == exitOK) != (strings.Count(out, "\n  name: ") == 4) || code != exitOK && out != "" {
			t.Errorf("%.60q: %d, %s%s", c.content, code, out, errOut)
		}
	}
	for _, args := range [][]string{{"render"}, {"render", "a", "b"}, {"render", filepath.Join(t.TempDir(), "none")}} {
		if code, out, errOut := command(t, args...); code == exitOK || out != "" || errOut == "" {
			t.Errorf("%q: %d, %s%s", args, code, out, errOut)
		}
	}
}
