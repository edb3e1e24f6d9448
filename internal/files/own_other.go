// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package files

import "os"

// ownDir reports whether a path is a directory; the temporary one is the user's here.
func ownDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
