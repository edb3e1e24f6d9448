// SPDX-License-Identifier: Apache-2.0

package backendblock

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DataDir is where a tool keeps its own files for the root module in dir.
func DataDir(dir string, getenv func(string) string) string {
	d := getenv("TF_DATA_DIR")
	if d == "" {
		d = ".terraform"
	}
	if filepath.IsAbs(d) {
		return d
	}
	return filepath.Join(dir, d)
}

// Selected lists the workspaces that were selected for the root module in dir, the
// first of which the tool works in: that of the environment, and what `workspace
// select` left. Without any it works in "default".
func Selected(dir string, getenv func(string) string) []string {
	names := []string{getenv("TF_WORKSPACE")}
	if b, err := os.ReadFile(filepath.Join(DataDir(dir, getenv), "environment")); err == nil {
		names = append(names, strings.TrimSpace(string(b)))
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}
