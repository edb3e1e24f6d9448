// SPDX-License-Identifier: Apache-2.0

//go:build unix

package files

import (
	"os"
	"syscall"
)

// ownDir reports whether a path is a directory that only this user can write: in a shared one
// anybody can take our names.
func ownDir(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
