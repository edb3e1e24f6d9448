// SPDX-License-Identifier: Apache-2.0

package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// unnamedFile fails if the file system does not support unnamed files, as NFS.
//
// Reference: open(2), O_TMPFILE.
func unnamedFile(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
}
