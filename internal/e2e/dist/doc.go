// SPDX-License-Identifier: Apache-2.0

// Command dist builds a provider for several platforms and packs it as
// GoReleaser does for HashiCorp's template: one zip per platform, the
// registry manifest and SHA256SUMS in one folder.
//
//	dist MODULE_DIR PACKAGE VERSION OUT OS_ARCH...
//
// MODULE_DIR holds the go.mod that pins PACKAGE. The same sources give the
// same zips: names are sorted and times are fixed.
package main
