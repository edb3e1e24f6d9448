// SPDX-License-Identifier: Apache-2.0

//go:build unix

package plugincache

import (
	"io/fs"
	"syscall"
)

// isLinked reports whether a file has more than one name.
func isLinked(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink > 1
}
