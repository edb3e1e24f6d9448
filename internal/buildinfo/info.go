// SPDX-License-Identifier: Apache-2.0

package buildinfo

import (
	"runtime"
	"runtime/debug"
	"time"
)

// Devel is the version of a program of which the build saw no version control.
const Devel = "devel"

// Info is what a program was built from.
type Info struct {
	Version  string    `json:"version"`          // of the module, with a v, or [Devel]
	Commit   string    `json:"commit,omitempty"` // of git; "" where the build did not see it
	Date     time.Time `json:"date,omitzero"`    // of the commit, UTC
	Modified bool      `json:"modified"`         // the tree had changes that are in no commit
	Go       string    `json:"go"`
	Platform string    `json:"platform"` // OS/ARCHITECTURE
}

// Read returns what this program was built from.
func Read() Info {
	b := Info{Version: Devel, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date, _ = time.Parse(time.RFC3339, s.Value) // zero where it is none
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// Version is that of the program, or [Devel].
func Version() string { return Read().Version }
