// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
)

// build is what okara version prints.
type build struct {
	Version  string `json:"version"`          // of the module, or "devel"
	Commit   string `json:"commit,omitempty"` // of git; "" where the build did not see it
	Modified bool   `json:"modified"`         // the tree had changes that are in no commit
	Go       string `json:"go"`
	Platform string `json:"platform"` // OS/ARCHITECTURE
}

func newVersion(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of okara and what it was built from",
		Example: `  okara version --json | jq -r .version`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild(a.Version)
			return a.PrintResult(b, b.String())
		},
	}
}

func thisBuild(version string) build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	from := []string{b.Go, b.Platform}
	if b.Commit != "" {
		commit := "commit " + b.Commit
		if b.Modified {
			commit += " with changes"
		}
		from = append([]string{commit}, from...)
	}
	return "okara " + b.Version + " (" + strings.Join(from, ", ") + ")"
}
