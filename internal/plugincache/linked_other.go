// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package plugincache

import "io/fs"

// isLinked always reports false here, where servers have no runs that share packages.
func isLinked(fs.FileInfo) bool { return false }
