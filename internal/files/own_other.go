// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package files

import "os"

// ownDir reports whether a path is a directory: the temporary directory is the
// user's own.
func ownDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
