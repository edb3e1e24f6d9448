// SPDX-License-Identifier: Apache-2.0

package buildinfo

import (
	"runtime"
	"runtime/debug"
	"time"
)

// Devel is the version of a program that was built without version control.
const Devel = "devel"

// Info describes the build of a program.
type Info struct {
	Version  string    `json:"version"`          // of the module, with a v, or [Devel]
	Commit   string    `json:"commit,omitempty"` // of git; "" if unknown to the build
	Date     time.Time `json:"date,omitzero"`    // of the commit, UTC
	Modified bool      `json:"modified"`         // the tree had uncommitted changes
	Go       string    `json:"go"`
	Platform string    `json:"platform"` // OS/ARCHITECTURE
}

// Read returns the build information of this program.
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
			b.Date, _ = time.Parse(time.RFC3339, s.Value) // zero if invalid
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// Version returns the version of the program, or [Devel].
func Version() string { return Read().Version }
