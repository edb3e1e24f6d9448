// SPDX-License-Identifier: Apache-2.0

package backendblock

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DataDir returns the directory where a tool keeps its files for the root module in dir.
func DataDir(dir string, getenv func(string) string) string {
	d := getenv("TF_DATA_DIR")
	d = cmp.Or(d, ".terraform")
	if filepath.IsAbs(d) {
		return d
	}
	return filepath.Join(dir, d)
}

// Selected lists the workspaces selected in dir: of the environment, then of `workspace select`.
// The tool uses the first, or "default".
func Selected(dir string, getenv func(string) string) []string {
	names := []string{getenv("TF_WORKSPACE")}
	if b, err := os.ReadFile(filepath.Join(DataDir(dir, getenv), "environment")); err == nil {
		names = append(names, strings.TrimSpace(string(b)))
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// JobPage returns the CI job's address, or "": it helps to find the owner of a lock.
func JobPage(getenv func(string) string) string {
	for _, name := range []string{"CI_JOB_URL", "BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL"} {
		if v := getenv(name); v != "" {
			return v
		}
	}
	if run := getenv("GITHUB_RUN_ID"); run != "" {
		return getenv("GITHUB_SERVER_URL") + "/" + getenv("GITHUB_REPOSITORY") + "/actions/runs/" + run
	}
	return ""
}
