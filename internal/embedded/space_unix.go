// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package embedded

import "syscall"

// Space returns size and free space of a directory's disk, in bytes.
func Space(folder string) (size, free int64, ok bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(folder, &s) != nil {
		return 0, 0, false
	}
	return int64(s.Blocks) * int64(s.Bsize), int64(s.Bavail) * int64(s.Bsize), true
}
