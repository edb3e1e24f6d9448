// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package plugincache

import "io/fs"

// linked is not known here, where no server has runs that share.
func linked(fs.FileInfo) bool { return false }
