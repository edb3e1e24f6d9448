// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package files

import "os"

// ownDir reports whether a path is a directory: the temporary directory belongs
// to the user on this system.
func ownDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
