// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package server

import "syscall"

// diskSpace is how large the disk of a folder is and what is free on it, in bytes.
func diskSpace(folder string) (size, free float64, ok bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(folder, &s) != nil {
		return 0, 0, false
	}
	return float64(s.Blocks) * float64(s.Bsize), float64(s.Bavail) * float64(s.Bsize), true
}
