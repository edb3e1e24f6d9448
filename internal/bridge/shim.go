// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// askingVariable lists programs being asked for their version, to detect loops.
const askingVariable = "OKARA_ASKING"

// programVariable returns the variable that names another program.
func (t Tool) programVariable() string {
	if t.Terraform {
		return "OKARA_TERRAFORM"
	}
	return "OKARA_TOFU"
}

// answer is the version output of a tool, or okara's answer in its place.
type answer struct {
	Version string `json:"terraform_version"`
	// Loop is the program that would run okara, which would run the program again.
	Loop string `json:"okara_loop,omitempty"`
}

// loopError returns the error for a program that runs okara instead of a tool.
func (t Tool) loopError() error {
	hint := "set the real program with " + t.programVariable()
	if other := t.nextOnPath(); other != "" {
		hint += ", such as " + t.programVariable() + "=" + other
	}
	return fmt.Errorf("%s runs okara, which would run it again endlessly\nhint: %s", t.Path, hint)
}

// nextOnPath returns the next program of that name on PATH, "" if there is none.
func (t Tool) nextOnPath() string {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path, err := exec.LookPath(filepath.Join(dir, filepath.Base(t.Path)))
		if err == nil && filepath.IsAbs(path) && !sameFile(path, t.Path) && !isOkara(path) {
			return path
		}
	}
	return ""
}

// Look is exec.LookPath that skips okara under the tool's name; if that is all, [RunTool] hints.
func Look(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil && isOkara(path) {
		path = cmp.Or(Tool{Path: path}.nextOnPath(), path)
	}
	return path, err
}

// isOkara reports whether a program is okara itself, under any name.
func isOkara(path string) bool {
	self, err := os.Executable()
	return err == nil && sameFile(path, self)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// checkLoop refuses okara, and a program that is being asked already, telling the asker on out.
func checkLoop(t Tool, asking string, out io.Writer) error {
	if isOkara(t.Path) {
		return t.loopError()
	}
	if !slices.ContainsFunc(filepath.SplitList(asking), func(p string) bool { return sameFile(p, t.Path) }) {
		return nil
	}
	if err := json.NewEncoder(out).Encode(answer{Loop: t.Path}); err != nil {
		return err
	}
	return t.loopError()
}

// extendAsking returns askingVariable with one more program.
func extendAsking(before, path string) string {
	return askingVariable + "=" + strings.TrimPrefix(before+string(os.PathListSeparator)+path, string(os.PathListSeparator))
}

func (t Tool) askVersion(ctx context.Context) (answer, error) {
	cmd := exec.CommandContext(ctx, t.Path, "version", "-json")
	cmd.Dir = os.TempDir() // a directory without configuration files
	// A broken CLI configuration puts warnings before the JSON; the run itself shows them.
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull, extendAsking("", t.Path))
	out, err := cmd.Output()
	var a answer
	bad := json.Unmarshal(out, &a)
	switch {
	case a.Loop != "":
		return a, t.loopError()
	case err == nil:
		err = bad
	}
	if err != nil {
		return a, fmt.Errorf("getting the version of %s: %w", t.Path, err)
	}
	return a, nil
}
