// SPDX-License-Identifier: Apache-2.0

package buildinfo

import (
	_ "embed"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

//go:embed VERSION
var number string

// release is the tag that make found on the commit. A module in a folder, as the operator, has no
// tag of its own.
var release string

// Info describes the build of a program.
type Info struct {
	Version  string    `json:"version"`          // 0.1.0 of a release, else such as 0.1.0-dev+2d80ff9f
	Commit   string    `json:"commit,omitempty"` // of git; "" if unknown to the build
	Date     time.Time `json:"date,omitzero"`    // of the commit, UTC
	Modified bool      `json:"modified"`         // the tree had uncommitted changes
	Go       string    `json:"go"`
	Platform string    `json:"platform"` // OS/ARCHITECTURE
}

// Read returns the build information of this program.
func Read() Info {
	b := Info{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date, _ = time.Parse(time.RFC3339, s.Value) // zero if invalid
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	b.Version = versionOf(strings.TrimSpace(number), b, info.Main.Version, release)
	return b
}

// versionOf returns number if one of tags is its tag, and otherwise that of a build from a commit. Without
// git the commit is the end of a pseudo-version (https://go.dev/ref/mod#pseudo-versions).
func versionOf(number string, b Info, tags ...string) string {
	commit := b.Commit
	for _, tag := range tags {
		if tag == "v"+number && !b.Modified {
			return number
		}
		if revision := tag[strings.LastIndexByte(tag, '-')+1:]; commit == "" && len(revision) == 12 {
			commit = revision
		}
	}
	if number += "-dev"; commit != "" {
		number += "+" + commit[:min(8, len(commit))]
		if b.Modified {
			number += ".dirty"
		}
	}
	return number
}

// Version returns the version of the program.
func Version() string { return Read().Version }
